"""How long a run follows, and how often it commits."""

from __future__ import annotations

from dataclasses import dataclass

COMMIT_INTERVAL = 1.0
"""Seconds from the beginning of a round to that of the next, unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a run follows, and how often it commits. All are seconds.

    Attributes:
        follow_for: So long it follows.
        commit_interval: From the beginning of a round to that of the next, which begins at once where a shard
            is behind or another run was faster. A round begins no further page of a shard so long after the
            shard's first record.
        handover: So long before the end of `follow_for` another run may take over: this one ends as soon as
            it sees that, and at the latest so long after that end.
    """

    follow_for: float
    commit_interval: float = COMMIT_INTERVAL
    handover: float = 0.0

    @property
    def may_end_after(self) -> float:
        """From then on another run may take over."""
        return self.follow_for - self.handover

    @property
    def ends_after(self) -> float:
        """Then it ends, whether another run took over or not."""
        return self.follow_for + self.handover
