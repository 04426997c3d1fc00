"""The totals of a run over its shards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kinesis_assets.ingest.outcome import ShardState

if TYPE_CHECKING:
    from datetime import datetime

    from kinesis_assets.ingest.outcome import RunResult, ShardOutcome


@dataclass(slots=True)
class RunTotals:
    """The totals of what a run committed, and the last outcome of each of its shards.

    Attributes:
        rows: Number of rows that were committed.
        bytes: Payload bytes of these rows.
        bad_records: How many of them are damaged.
        seconds: Wall-clock seconds of the run, or of the iterations of a continuous run.
        last_arrival: Arrival time of the newest record that was committed; None if there was none.
        outcomes: The last outcome of each shard, by shard id.
    """

    rows: int = 0
    bytes: int = 0
    bad_records: int = 0
    seconds: float = 0.0
    last_arrival: datetime | None = None
    outcomes: dict[str, ShardOutcome] = field(default_factory=dict)

    @classmethod
    def of(cls, result: RunResult) -> RunTotals:
        """Return the totals of one result."""
        totals = cls()
        totals.add(result)
        return totals

    def add(self, result: RunResult) -> None:
        """Add the result of a run, or of an iteration of a continuous run."""
        self.seconds += result.seconds
        self.outcomes.update(result.outcomes)
        for outcome in result.outcomes.values():
            self.rows += outcome.rows
            self.bad_records += outcome.facts.bad_records
            self.bytes += outcome.stats.bytes if outcome.stats else 0
            if (arrival := outcome.facts.last_arrival) is not None:
                self.last_arrival = max(self.last_arrival or arrival, arrival)

    def start_again(self) -> None:
        """Set what was committed to nothing, and keep the outcomes."""
        self.rows, self.bytes, self.bad_records, self.seconds, self.last_arrival = 0, 0, 0, 0.0, None

    @property
    def lag_ms(self) -> int | None:
        """The largest lag of a shard, in milliseconds; None if none is known."""
        known = (each.lag_ms for each in self.outcomes.values())
        return max((each for each in known if each is not None), default=None)

    @property
    def time_to_loss_ms(self) -> int | None:
        """Milliseconds until the first unread record of any shard may expire; None if that is not known."""
        known = (each.time_to_loss_ms for each in self.outcomes.values())
        return min((each for each in known if each is not None), default=None)

    @property
    def open(self) -> int:
        """Number of shards that are not finished."""
        return len(self.outcomes) - self._count(ShardState.FINISHED)

    @property
    def behind(self) -> int:
        """Number of shards that have unread records."""
        return sum(bool(each.lag_ms) for each in self.outcomes.values())

    @property
    def failed(self) -> int:
        """Number of shards that failed."""
        return self._count(ShardState.FAILED)

    def _count(self, state: ShardState) -> int:
        return sum(each.state is state for each in self.outcomes.values())
