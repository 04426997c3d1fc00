"""The duration of a continuous run and the interval of its commits."""

from __future__ import annotations

from dataclasses import dataclass

from kinesis_assets.retry import Backoff


@dataclass(frozen=True, slots=True)
class RunTiming:
    """How long a continuous run lasts, how often it commits and how long it waits, all in seconds.

    Attributes:
        follow_for: Duration of the run.
        commit_interval: Time from the start of an iteration to the start of the next. The next iteration
            starts immediately if a shard is behind or another run committed first, but never sooner after
            the end of a landing than `ReadTiming.seconds_between_calls`. An iteration requests no more pages
            of a shard this long after the shard's first record.
        handover: Another run may replace this one from this long before the end of `follow_for`. This run
            ends when it sees the other one, and this long after `follow_for` at the latest.
        max_listing_age: Maximum age of a shard list before the shards are listed again. The streams of an
            account share 20 DescribeStreamSummary calls a second (AWS API reference, DescribeStreamSummary).
        failed_shard: Wait before a failed shard is read again. An unresponsive shard may wait longer.
        first_response_timeout: Time for which an unresponsive shard may delay the other shards. It doubles
            with each timeout of the shard, up to `ReadTiming.read_timeout`, so that a slow shard is
            eventually read.
        unresponsive_wait_factor: Minimum wait after an unresponsive shard's timeout, as a multiple of the
            timeout.
    """

    follow_for: float
    commit_interval: float
    handover: float = 0.0
    max_listing_age: float = 10.0
    failed_shard: Backoff = Backoff(1.0, 30.0)
    first_response_timeout: float = 5.0
    unresponsive_wait_factor: float = 4.0

    @property
    def may_end_after(self) -> float:
        """Seconds after which another run may replace this one."""
        return self.follow_for - self.handover

    @property
    def ends_after(self) -> float:
        """Seconds after which the run ends, whether or not another run has replaced it."""
        return self.follow_for + self.handover
