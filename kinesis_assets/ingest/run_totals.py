"""The totals of a run over its shards, and the state of all shards of the stream after it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from kinesis_assets.ingest.idle_shards import is_behind, lag_of
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.kinesis.shards import unfinished_parents

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from kinesis_assets.ingest.outcome import RunResult, ShardOutcome
    from kinesis_assets.table.positions.positions import ShardPosition

_MILLISECOND = timedelta(milliseconds=1)


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
    def of(cls, result: RunResult) -> Self:
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
    def failed(self) -> set[str]:
        """The ids of the shards that failed."""
        return {key for key, outcome in self.outcomes.items() if outcome.state is ShardState.FAILED}

    @property
    def has_success(self) -> bool:
        """Whether rows were committed, or a shard without an error has nothing to commit."""
        return bool(self.rows) or any(outcome.error is None for outcome in self.outcomes.values())


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state of all shards of a stream, whether or not a run was over them.

    Attributes:
        open: Number of shards that are not finished.
        behind: Number of shards that may have unread records: those that were not read to their tip, and
            those that fail.
        failed: Number of shards that fail.
        lag_ms: The largest lag of a shard, in milliseconds; None if none is known. What arrived in a shard
            that fails is unknown, so its lag is the time since it was last read to its tip.
        unknown_lags: Number of shards whose lag is unknown.
        time_to_loss_ms: Milliseconds until the first unread record of any shard may expire; None if that is
            not known.
    """

    open: int
    behind: int
    failed: int
    lag_ms: int | None
    unknown_lags: int
    time_to_loss_ms: int | None

    @classmethod
    def of(
        cls,
        shards: Mapping[str, ShardPosition],
        outcomes: Mapping[str, ShardOutcome],
        failing: Collection[str],
        losses: Mapping[str, datetime],
        now: datetime,
    ) -> Self:
        """Return the state after a run.

        Args:
            shards: The positions in the table.
            outcomes: The last outcome of each shard of the run, by shard id.
            failing: The shards whose last run failed.
            losses: When records that are still to be read may expire, by shard id, see `loss_times`.
            now: The time.
        """
        finished = {key for key, shard in shards.items() if shard.finished} | {
            key for key, outcome in outcomes.items() if outcome.state is ShardState.FINISHED
        }
        unfinished = {key: shard for key, shard in shards.items() if key not in finished}
        lags: list[int | None] = []
        behind = 0
        for shard_id, shard in unfinished.items():
            outcome = outcomes.get(shard_id)
            lag = None if outcome is None else outcome.lag_ms
            if unfinished_parents(shard.parents, known=shards, finished=finished):
                continue  # its time has not come
            if lag is None:
                lag = _lag_ms(shard, now, fails=shard_id in failing)
            lags.append(lag)
            reported = None if outcome is None else outcome.facts.millis_behind_latest
            behind += lag != 0 or bool(reported) or shard_id in failing
        in_run = {key: loss for key, each in outcomes.items() if (loss := each.time_to_loss_ms) is not None}
        elsewhere = {key: max(0, (loss - now) // _MILLISECOND) for key, loss in losses.items()}
        return cls(
            open=len(unfinished),
            behind=behind,
            failed=len(unfinished.keys() & set(failing)),
            lag_ms=max((lag for lag in lags if lag is not None), default=None),
            unknown_lags=lags.count(None),
            time_to_loss_ms=min((elsewhere | in_run).values(), default=None),
        )


def _lag_ms(shard: ShardPosition, now: datetime, *, fails: bool) -> int | None:
    """Return the lag of a shard that was not read, in milliseconds; None if it is unknown."""
    if not (fails or is_behind(shard)):
        return 0
    lag = lag_of(shard, now)
    return None if lag is None else lag // _MILLISECOND
