"""The outcome of a run: the state of each shard, and what was committed of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from kinesis_assets.errors import ParentUnfinished, ShardLeftOut
from kinesis_assets.kinesis.reading.reading import RangeEnd

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kinesis_assets.errors import ShardError
    from kinesis_assets.ingest.manifest import ShardLanding
    from kinesis_assets.ingest.plan import RunPlan
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.table.commit import CommitResult
    from kinesis_assets.table.positions import ShardPosition


class ShardState(StrEnum):
    """What became of a shard in a run."""

    COMMITTED = "committed"
    """Everything read is committed, if only that nothing was new, or nothing left of the run's allowance."""
    FINISHED = "finished"
    """It has been read to its end, now or before."""
    WAITING = "waiting"
    """Its parents are not finished; nothing was read."""
    CONFLICT = "conflict"
    """Another run moved it first; nothing of it was added."""
    FAILED = "failed"
    """Its range ended before a failure; what was read before it is committed."""


@dataclass(frozen=True, slots=True)
class ShardOutcome:
    """What became of one shard.

    Attributes:
        shard_id: The shard.
        state: See `ShardState`.
        start: Where the range began; None for a shard that has no position.
        through: Where the run left the shard; on a conflict, where it began.
        rows: Records committed by this run.
        bytes: Their payload bytes.
        first_sequence_number: Of the first of them; None if there are none, likewise below.
        last_sequence_number: Of the last of them.
        checksum: Over them all, see `checksums.checksum`.
        files: Data files that hold some of them.
        bad_records: Those of the rows that are damaged aggregates, as they came.
        outside_hash_range: Those of the rows that belong to another shard.
        lag_ms: How far `through` is behind the tip; None if that was not seen.
        time_to_loss_ms: How long until the first unread record may expire; None for a finished shard, or if
            that is not known.
        gaps: Where records may be missing, if the run went on past that.
        error: Why the state is waiting, conflict or failed; None otherwise.
    """

    shard_id: str
    state: ShardState
    start: Position | None = None
    through: Position | None = None
    rows: int = 0
    bytes: int = 0
    first_sequence_number: str | None = None
    last_sequence_number: str | None = None
    checksum: int | None = None
    files: int = 0
    bad_records: int = 0
    outside_hash_range: int = 0
    lag_ms: int | None = None
    time_to_loss_ms: int | None = None
    gaps: Sequence[Gap] = ()
    error: ShardError | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """What became of a run.

    Attributes:
        batch_id: The attempt's.
        outcomes: By shard id, one for each asked shard.
        version: The table's version that holds the run's commit; None if there was nothing to commit.
        seconds: From the plan's execution to the commit, wall clock.
    """

    batch_id: int
    outcomes: Mapping[str, ShardOutcome]
    version: int | None = None
    seconds: float = field(default=0.0, compare=False)

    @property
    def errors(self) -> dict[str, ShardError]:
        """The shards that are not committed, each with its reason."""
        return {shard_id: outcome.error for shard_id, outcome in self.outcomes.items() if outcome.error}

    def only(self, shard_ids: Collection[str]) -> RunResult:
        """Return the result with the outcomes of these shards alone."""
        return replace(self, outcomes={shard_id: self.outcomes[shard_id] for shard_id in shard_ids})

    def read(self) -> RunResult:
        """Without the shards that it did not come to."""
        read = {
            shard_id: outcome for shard_id, outcome in self.outcomes.items() if outcome.lag_ms is not None
        }
        return replace(self, outcomes=read)


def shard_outcome(
    plan: RunPlan, shard_id: str, shard: ShardLanding | None, result: CommitResult
) -> ShardOutcome:
    """Return the outcome of an asked shard.

    Args:
        plan: The run's plan.
        shard_id: The shard.
        shard: What was landed of it; None if nothing was read.
        result: The run's commit.
    """
    state, error = _verdict(plan, shard_id, shard, result)
    before = plan.expected.shards.get(shard_id)
    if before is None:
        return ShardOutcome(shard_id, state, error=error)
    unfinished = state is not ShardState.FINISHED
    if shard is None or state is ShardState.CONFLICT:
        return ShardOutcome(
            shard_id=shard_id,
            state=state,
            start=before.position,
            through=before.position,
            time_to_loss_ms=_time_to_loss_ms(plan, before, None) if unfinished else None,
            gaps=plan.given_up[shard_id].gaps[-1:] if shard_id in plan.given_up and not error else (),
            error=error,
        )
    lag_ms = shard.millis_behind_latest
    return ShardOutcome(
        shard_id=shard_id,
        state=state,
        start=before.position,
        through=shard.position,
        rows=shard.rows,
        bytes=shard.bytes,
        first_sequence_number=shard.first_sequence_number,
        last_sequence_number=shard.position.sequence_number if shard.rows else None,
        checksum=shard.checksum if shard.rows else None,
        files=sum(shard_id in file.rows_by_shard for file in result.files),
        bad_records=shard.bad_records,
        outside_hash_range=shard.outside_hash_range,
        lag_ms=lag_ms,
        time_to_loss_ms=_time_to_loss_ms(plan, before, lag_ms) if unfinished else None,
        gaps=shard.gaps,
        error=error,
    )


def _verdict(
    plan: RunPlan, shard_id: str, shard: ShardLanding | None, result: CommitResult
) -> tuple[ShardState, ShardError | None]:
    if shard_id in plan.refused:
        return ShardState.FAILED, plan.refused[shard_id]
    if shard_id in result.conflicts:
        return ShardState.CONFLICT, result.conflicts[shard_id]
    if shard is not None:
        ended = ShardState.FINISHED if shard.end is RangeEnd.SHARD_END else ShardState.COMMITTED
        return (ShardState.FAILED if shard.error else ended), shard.error
    if shard_id in plan.given_up or plan.expected.shards[shard_id].finished:
        return ShardState.FINISHED, None
    if shard_id in plan.ranges:
        return ShardState.WAITING, _waiting(plan, shard_id)
    return ShardState.FAILED, ShardLeftOut(
        shard_id, "left out of the plan by the asset's body; nothing was read"
    )


def _time_to_loss_ms(plan: RunPlan, before: ShardPosition, lag_ms: int | None) -> int | None:
    """The retention less the age of the first unread record, or of the last one read where none was seen."""
    summary = plan.listing.summary
    if lag_ms is not None:
        left = timedelta(hours=summary.retention_hours, milliseconds=-lag_ms)
    elif before.safe_until is not None:
        left = before.safe_until - summary.service_time
    else:
        return None
    return max(0, left // timedelta(milliseconds=1))


def _waiting(plan: RunPlan, shard_id: str) -> ParentUnfinished:
    parents = plan.expected.waits_for(shard_id)
    vanished = set(parents) - {shard.shard_id for shard in plan.listing.shards}
    if vanished:
        return ParentUnfinished(
            shard_id,
            f"waits for {', '.join(sorted(vanished))}, which is no longer listed and was not read to the "
            "end; a run of that shard tells what is lost",
        )
    return ParentUnfinished(
        shard_id,
        f"waits for {', '.join(parents)} to be read to the end; nothing to do, a later run reads it",
    )
