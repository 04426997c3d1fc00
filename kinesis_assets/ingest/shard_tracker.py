"""What a continuous run remembers of a shard from iteration to iteration."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinesis_assets.errors import ShardSilent, ShardThrottled
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.kinesis.client import READ_TIMEOUT
from kinesis_assets.kinesis.reading.stall_detector import STALL_SECONDS

if TYPE_CHECKING:
    from kinesis_assets.errors import ShardError
    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.kinesis.position import Position

FIRST_WAIT = 1.0
"""Seconds for which a shard is left alone after its first failure; doubled with each further one."""

LONGEST_WAIT = 30.0
"""Seconds that no such wait goes beyond, but for those of `ALONE`."""

ALONE = 4.0
"""How many times as long such a shard is left alone then."""

_LONGEST_POWER = 10


@dataclass(slots=True)
class ShardTracker:
    """What the rounds remember of a shard.

    Attributes:
        answer_within: How many seconds it may hold others back without an answer.
        left: Where they left it; None where that is not known.
        finished: It is read to its end, now or before.
        behind: The last of its rounds did not get to its tip.
        conflict: In the last of them another run moved it first.
        error: Why the last of them failed.
        throttled_since: When the first one began that was throttled, without another since; None otherwise.
        failures: How many failed one after the other, without those that waited.
        due: It is not read before, by the monotonic clock.
        well: What became of the last of them that did not fail, if none failed since but by throttling that
            has not lasted; None otherwise.
        told_kind: The kind of the error that was told last, if nothing was well since.
        told_well: Told of as committed or finished, and not as failing since.
    """

    answer_within: float
    left: Position | None = None
    finished: bool = False
    behind: bool = False
    conflict: bool = False
    error: ShardError | None = None
    throttled_since: float | None = None
    failures: int = 0
    due: float = 0.0
    well: RunResult | None = None
    told_kind: str | None = None
    told_well: bool = False

    @property
    def fails_by(self) -> ShardError | None:
        """What the run fails by, if it ends now."""
        return None if self.well is not None and self._throttled_briefly else self.error

    def after(self, result: RunResult, shard_id: str, *, finished_before: bool) -> bool:
        """Remember what became of it in a round; whether there is something to tell."""
        outcome = result.outcomes[shard_id]
        self.conflict = outcome.state is ShardState.CONFLICT
        self.finished = outcome.state is ShardState.FINISHED
        self.behind = bool(outcome.lag_ms) and outcome.error is None
        # After a conflict the next round goes on from wherever the other one left it.
        self.left, self.error = (None, None) if self.conflict else (outcome.through, outcome.error)
        if not isinstance(self.error, ShardThrottled):
            self.throttled_since = None
        elif self.throttled_since is None:
            self.throttled_since = time.monotonic() - result.seconds
        if self.error is None:
            self.told_kind = None
        if self.conflict:
            return False
        if self.error is None:
            self.well, self.failures = result.only([shard_id]), 0
            self.due = float("inf") if self.finished else 0.0
            news = bool(outcome.rows) or (self.finished and not finished_before)
            self.told_well = self.told_well or news
            return news
        if outcome.state is ShardState.FAILED:  # one that waits costs nothing
            wait = min(FIRST_WAIT * 2.0 ** min(self.failures, _LONGEST_POWER), LONGEST_WAIT)
            self.failures += 1
            if isinstance(self.error, ShardSilent):
                wait = max(wait, ALONE * self.answer_within)
                self.answer_within = min(2 * self.answer_within, READ_TIMEOUT)
            self.due = time.monotonic() + wait
        if self._throttled_briefly:
            return bool(outcome.rows)
        self.well, self.told_well = None, False
        before, self.told_kind = self.told_kind, _kind(self.error)
        return bool(outcome.rows) or self.told_kind != before

    @property
    def _throttled_briefly(self) -> bool:
        """Whether it is throttled, and has not been for so long that it is to be told."""
        since = self.throttled_since
        return since is not None and time.monotonic() - since < STALL_SECONDS


def _kind(error: ShardError) -> str:
    """What two errors have in common that tell the same: all but numbers and names of requests."""
    words = [word for word in str(error).split() if not any(map(str.isdigit, word))]
    return " ".join([type(error).__name__, *words])
