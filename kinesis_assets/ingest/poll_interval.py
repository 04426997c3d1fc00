"""The duration of a continuous run and the interval of its commits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunTiming:
    """How long a continuous run lasts and how often it commits, all in seconds.

    Attributes:
        follow_for: Duration of the run.
        commit_interval: Time from the start of an iteration to the start of the next. The next iteration
            starts immediately if a shard is behind or another run committed first. An iteration requests no
            more pages of a shard this long after the shard's first record.
        handover: Another run may replace this one from this long before the end of `follow_for`. This run
            ends when it sees the other one, and this long after `follow_for` at the latest.
    """

    follow_for: float
    commit_interval: float
    handover: float = 0.0

    @property
    def may_end_after(self) -> float:
        """Seconds after which another run may replace this one."""
        return self.follow_for - self.handover

    @property
    def ends_after(self) -> float:
        """Seconds after which the run ends, whether or not another run has replaced it."""
        return self.follow_for + self.handover
