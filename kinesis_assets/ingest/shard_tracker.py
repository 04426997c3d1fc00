"""The state that a continuous run keeps of a shard from iteration to iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinesis_assets.errors import ShardSilent, ShardThrottled
from kinesis_assets.ingest.outcome import ShardState

if TYPE_CHECKING:
    from kinesis_assets.errors import ShardError
    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.ingest.run_timing import RunTiming
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.read_timing import ReadTiming


@dataclass(slots=True)
class ShardTracker:
    """The state of one shard of a continuous run.

    Attributes:
        timing: The timing of the run.
        reading: The timing of its reading.
        response_timeout: Seconds for which the shard may delay the other shards without a response.
        position: The position after its last iteration; None if that is not known.
        finished: Whether it is read to its end.
        behind: Whether its last iteration did not reach the tip.
        conflict: Whether another run moved its position first in its last iteration.
        error: Why its last iteration failed; None if it did not.
        throttled_since: Start of the first of consecutive throttled iterations (monotonic clock); None if the
            last one was not throttled.
        failures: Number of consecutive failed iterations; those in which it waited for its parents do not
            count.
        due: Time before which it is not read again (monotonic clock).
        success: The result of its last successful iteration; None if it has failed since, except by brief
            throttling.
        reported_kind: The kind of error that was reported last; None after a success.
        reported_success: Whether its last report was a success.
    """

    timing: RunTiming
    reading: ReadTiming
    response_timeout: float
    position: Position | None = None
    finished: bool = False
    behind: bool = False
    conflict: bool = False
    error: ShardError | None = None
    throttled_since: float | None = None
    failures: int = 0
    due: float = 0.0
    success: RunResult | None = None
    reported_kind: str | None = None
    reported_success: bool = False

    @property
    def final_error(self) -> ShardError | None:
        """The error with which the run would report the shard as failed if it ended now."""
        return None if self.success is not None and self._is_throttled_briefly else self.error

    def update(self, result: RunResult, shard_id: str, *, finished_before: bool) -> bool:
        """Record the outcome of an iteration, and return whether it is to be reported.

        Args:
            result: The result of the iteration.
            shard_id: The shard.
            finished_before: Whether the shard was already finished when the iteration was planned.
        """
        outcome = result.outcomes[shard_id]
        self.conflict = outcome.state is ShardState.CONFLICT
        self.finished = outcome.state is ShardState.FINISHED
        self.behind = bool(outcome.facts.millis_behind_latest) and outcome.error is None
        # After a conflict, the next iteration starts at the position that the other run committed.
        self.position = None if self.conflict or outcome.stats is None else outcome.stats.through
        self.error = None if self.conflict else outcome.error
        if not isinstance(self.error, ShardThrottled):
            self.throttled_since = None
        elif self.throttled_since is None:
            self.throttled_since = self.reading.clock.monotonic() - result.seconds
        if self.error is None:
            self.reported_kind = None
        if self.conflict:
            return False
        if self.error is None:
            self.success, self.failures = result.only([shard_id]), 0
            self.due = float("inf") if self.finished else 0.0
            news = bool(outcome.rows) or (self.finished and not finished_before)
            self.reported_success = self.reported_success or news
            return news
        if outcome.state is ShardState.FAILED:  # waiting for parents costs nothing
            self.failures += 1
            wait = self.timing.failed_shard.wait(self.failures)
            if isinstance(self.error, ShardSilent):
                wait = max(wait, self.timing.unresponsive_wait_factor * self.response_timeout)
                self.response_timeout = min(2 * self.response_timeout, self.reading.read_timeout)
            self.due = self.reading.clock.monotonic() + wait
        if self._is_throttled_briefly:
            return bool(outcome.rows)
        self.success, self.reported_success = None, False
        before, self.reported_kind = self.reported_kind, _kind(self.error)
        return bool(outcome.rows) or self.reported_kind != before

    @property
    def _is_throttled_briefly(self) -> bool:
        """Whether it is throttled, but not yet for long enough to be reported."""
        since, reading = self.throttled_since, self.reading
        return since is not None and reading.clock.monotonic() - since < reading.stall_seconds


def _kind(error: ShardError) -> str:
    """Return the part of an error that repeats with its cause: its class and the words without digits."""
    words = [word for word in str(error).split() if not any(map(str.isdigit, word))]
    return " ".join([type(error).__name__, *words])
