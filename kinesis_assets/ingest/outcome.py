"""The outcome of a run: of each shard, in total, and of the stream's shards after it; and its metrics."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from kinesis_assets.errors import ParentUnfinished, ShardLeftOut
from kinesis_assets.ingest.idle_shards import is_behind, lag_of, time_to_loss
from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.kinesis.stream import unfinished_parents
from kinesis_assets.metrics import (
    BAD_RECORDS,
    CONFLICTS,
    LAG,
    PAYLOAD,
    ROWS,
    SHARD,
    STREAM,
    THROTTLES,
    TIME_TO_LOSS,
    measure,
)
from kinesis_assets.table.positions.range_stats import RangeStats, ReadingFacts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from kinesis_assets.errors import ShardError
    from kinesis_assets.ingest.manifest import ShardLanding
    from kinesis_assets.ingest.plan import RunPlan
    from kinesis_assets.table.commits.commit import CommitResult
    from kinesis_assets.table.positions.positions import ShardPosition


_MILLISECOND = timedelta(milliseconds=1)


class ShardState(StrEnum):
    """The state of a shard after a run."""

    COMMITTED = "committed"
    """Everything that was read is committed. There may have been nothing to read, or no allowance left."""
    FINISHED = "finished"
    """The shard is read to its end, by this run or an earlier one."""
    WAITING = "waiting"
    """Its parents are not finished, so nothing was read."""
    CONFLICT = "conflict"
    """Another run moved its position first; none of its rows were added."""
    FAILED = "failed"
    """A failure ended its range early; the records read before the failure are committed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run or a replay committed of one shard.

    Attributes:
        stats: The facts about the range and the rows that were committed; None if there is no range.
        error: Why the state is not a success; None otherwise.
    """

    shard_id: str
    state: StrEnum
    stats: RangeStats | None = None
    error: ShardError | None = None

    @property
    def rows(self) -> int:
        """Number of rows that were committed."""
        return 0 if self.stats is None else self.stats.rows


_Outcome = TypeVar("_Outcome", bound=Outcome)


@dataclass(frozen=True, slots=True)
class Result(Generic[_Outcome]):
    """The result of a run or of a replay.

    Attributes:
        batch_id: The attempt's batch id, which its rows have.
        outcomes: That of each requested shard, by shard id.
        version: The table version that was committed; None if there was nothing to commit, or if it is no
            longer among the newest hundred versions of the log.
        seconds: Wall-clock seconds from the start of the plan's execution to the end of its commit.
    """

    batch_id: int
    outcomes: Mapping[str, _Outcome]
    version: int | None = None
    seconds: float = field(default=0.0, compare=False)

    @property
    def errors(self) -> dict[str, ShardError]:
        """The errors of the outcomes, by shard id."""
        return {shard_id: outcome.error for shard_id, outcome in self.outcomes.items() if outcome.error}


@dataclass(frozen=True, slots=True)
class ShardOutcome(Outcome):
    """What a run committed of one shard.

    It has the facts of no rows if it read nothing or on a conflict. A shard without a position has no range.

    Attributes:
        state: See `ShardState`. A shard that failed, waits or was moved by another run has an error.
        files: Number of data files that hold its rows.
        lag_ms: The lag after the run, see `lag_of`, in milliseconds; None if the run did not try to read the
            shard, or if it is not known.
        time_to_loss_ms: Milliseconds until the first record that is still to be read may expire; None if
            there is none, or if that is not known.
    """

    state: ShardState
    facts: ReadingFacts = field(default_factory=ReadingFacts.unread)
    files: int = 0
    lag_ms: int | None = None
    time_to_loss_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RunResult(Result[ShardOutcome]):
    """The result of a run."""

    def only(self, shard_ids: Collection[str]) -> RunResult:
        """Return this result with the outcomes of these shards only."""
        return replace(self, outcomes={shard_id: self.outcomes[shard_id] for shard_id in shard_ids})

    def only_read(self) -> RunResult:
        """Return this result with the outcomes of the shards that were read."""
        read = {
            shard_id: outcome
            for shard_id, outcome in self.outcomes.items()
            if outcome.facts.millis_behind_latest is not None
        }
        return replace(self, outcomes=read)


def shards_with_news(plan: RunPlan, result: RunResult) -> list[str]:
    """Return the shards that a run moved, finished or read for the first time, and those that failed."""
    return [
        shard_id
        for shard_id, outcome in result.outcomes.items()
        if outcome.error is not None or _is_news(plan.expected.shards.get(shard_id), outcome)
    ]


def _is_news(before: ShardPosition | None, outcome: ShardOutcome) -> bool:
    if before is None or outcome.stats is None:
        return True
    if before.finished:
        return False
    return (
        before.seen_until is None
        or outcome.state is ShardState.FINISHED
        or outcome.stats.through != before.position
        or bool(outcome.facts.gaps)
    )


def shard_outcome(
    plan: RunPlan,
    shard_id: str,
    shard: ShardLanding | None,
    result: CommitResult,
    *,
    after: ShardPosition | None,
    now: datetime,
) -> ShardOutcome:
    """Return the outcome of a requested shard.

    Args:
        shard: The result of reading it; None if it was not read.
        result: The run's commit.
        after: Its position after it was read; None if it was not.
        now: The service's time after the shards were read.
    """
    state, error = _state(plan, shard_id, shard, result)
    before = plan.expected.shards.get(shard_id)
    if before is None:
        return ShardOutcome(shard_id, state, error=error)
    if shard is None or after is None or state is ShardState.CONFLICT:
        return ShardOutcome(
            shard_id=shard_id,
            state=state,
            stats=RangeStats.unread(before.position),
            facts=ReadingFacts.unread(
                gaps=plan.given_up[shard_id].gaps[-1:] if shard_id in plan.given_up and not error else (),
                throttles=0 if shard is None else shard.facts.throttles,
            ),
            lag_ms=_milliseconds(lag_of(before, now)) if state is ShardState.FAILED else None,
            time_to_loss_ms=(
                None if shard_id in plan.given_up else _time_to_loss_ms(plan, shard_id, before, now)
            ),
            error=error,
        )
    if shard.facts.millis_behind_latest is None:
        after = before
    if shard.tip_time is not None:
        now = after.seen_until or now  # the clock of its responses has whole seconds
    tried = shard.error is not None or shard.facts.millis_behind_latest is not None
    finished = state is ShardState.FINISHED
    return ShardOutcome(
        shard_id=shard_id,
        state=state,
        stats=shard.stats,
        facts=shard.facts,
        files=sum(shard_id in file.rows_by_shard for file in result.files),
        lag_ms=0 if finished else _milliseconds(lag_of(after, now)) if tried else None,
        time_to_loss_ms=_time_to_loss_ms(plan, shard_id, after, now),
        error=error,
    )


def _state(
    plan: RunPlan, shard_id: str, shard: ShardLanding | None, result: CommitResult
) -> tuple[ShardState, ShardError | None]:
    if shard_id in plan.refused:
        return ShardState.FAILED, plan.refused[shard_id]
    if shard_id in result.conflicts:
        return ShardState.CONFLICT, result.conflicts[shard_id]
    if shard is not None:
        state = ShardState.FINISHED if shard.end is RangeEnd.SHARD_END else ShardState.COMMITTED
        return (ShardState.FAILED if shard.error else state), shard.error
    if shard_id in plan.given_up or plan.expected.shards[shard_id].finished:
        return ShardState.FINISHED, None
    if shard_id in plan.ranges:
        return ShardState.WAITING, _unfinished_parents_error(plan, shard_id)
    return ShardState.FAILED, ShardLeftOut(
        shard_id,
        "the asset's body removed the shard from the plan, so nothing was read; to read it, return a plan "
        "that has it",
    )


def _time_to_loss_ms(plan: RunPlan, shard_id: str, shard: ShardPosition, now: datetime) -> int | None:
    remaining = time_to_loss(shard, now, plan.to_fill.get(shard_id, ()))
    return None if remaining is None else _milliseconds(max(remaining, timedelta(0)))


def _milliseconds(time: timedelta | None) -> int | None:
    return None if time is None else time // _MILLISECOND


def _unfinished_parents_error(plan: RunPlan, shard_id: str) -> ParentUnfinished:
    parents = plan.expected.waits_for(shard_id)
    vanished = set(parents) - {shard.shard_id for shard in plan.listing.shards}
    if vanished:
        return ParentUnfinished(
            shard_id,
            f"waits for {', '.join(sorted(vanished))}, which is no longer listed and was not read to the "
            "end; run that shard to see which records are lost",
        )
    return ParentUnfinished(
        shard_id,
        f"waits for {', '.join(parents)} to be read to the end; nothing to do, a later run reads this shard",
    )


@dataclass(slots=True)
class RunTotals:
    """The totals of what a run committed, and the last outcome of each of its shards.

    Attributes:
        bytes: Payload bytes of the rows.
        bad_records: How many of the rows are damaged records.
        seconds: Wall-clock seconds of the run, or of the iterations of a continuous run.
        last_arrival: Arrival time of the newest record that was committed; None if there was none.
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
            outcomes: The last outcome of each shard of the run, by shard id.
            failing: The shards whose last run failed.
            losses: When records that are still to be read may expire, by shard id, see `loss_times`.
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
                may_have_records = shard_id in failing or is_behind(shard)
                lag = _milliseconds(lag_of(shard, now)) if may_have_records else 0
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


def record_outcomes(stream: str, result: RunResult) -> None:
    """Record the outcomes of a run, or of an iteration of a continuous run."""
    for shard_id, outcome in result.outcomes.items():
        shard = {STREAM: stream, SHARD: shard_id}
        measure(ROWS, outcome.rows, shard)
        measure(PAYLOAD, outcome.stats.bytes if outcome.stats else 0, shard)
        measure(BAD_RECORDS, outcome.facts.bad_records, shard)
        measure(THROTTLES, outcome.facts.throttles, shard)
        measure(CONFLICTS, int(outcome.state is ShardState.CONFLICT), shard)
        # The sensor knows since when a shard that failed waits to be read.
        if outcome.lag_ms is not None and outcome.error is None:
            measure(LAG, outcome.lag_ms / 1000, shard)
        if outcome.time_to_loss_ms is not None:
            measure(TIME_TO_LOSS, outcome.time_to_loss_ms / 1000, shard)
