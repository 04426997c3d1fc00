"""One run of a plan: land, commit, and what became of each shard.

Knows nothing of Dagster, and of Spark only how a landing looks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import ParentUnfinished, ShardLeftOut, StreamRecreated
from kinesis_assets.ingest.land import Landing, LandingJob, ShardLanding
from kinesis_assets.ingest.shard_ends import with_confirmed_ends
from kinesis_assets.kinesis.limits import Allowance
from kinesis_assets.kinesis.reading.call_pacing import BYTES_PER_SECOND
from kinesis_assets.kinesis.reading.range import RangeEnd, ShardRange
from kinesis_assets.kinesis.relist import confirmed
from kinesis_assets.kinesis.shards import unfinished_parents
from kinesis_assets.kinesis.stream import CLOCK_STEP
from kinesis_assets.table.commit import CommitResult, commit, read_until
from kinesis_assets.table.positions import Landed, ShardPosition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kinesis_assets.errors import ShardError
    from kinesis_assets.ingest.plan import RunPlan
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.table.table import PositionedTable

Land = Callable[[LandingJob, Sequence[ShardRange], Allowance], Landing]
"""Lands ranges that do not depend on each other, as `land` does in Spark."""

TIP_REFRESH = timedelta(hours=1)
"""An idle shard's tip time is committed anew at this age: well within the shortest retention, 24 h."""


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

    def read(self) -> RunResult:
        """Without the shards that it did not come to."""
        read = {
            shard_id: outcome for shard_id, outcome in self.outcomes.items() if outcome.lag_ms is not None
        }
        return replace(self, outcomes=read)


def execute_run(
    land: Land,
    client: StreamClient,
    table: PositionedTable,
    plan: RunPlan,
    *,
    by: str | None = None,
    repeated: bool = False,
    tip_refresh: timedelta = TIP_REFRESH,
) -> RunResult:
    """Land a plan's ranges and commit them with their positions.

    Parents are landed before their children, each generation by a landing of its own; a child whose parents
    are not at their end by then waits. One commit holds all of it.

    Args:
        land: Lands ranges.
        client: The stream.
        table: Its table.
        plan: What to read.
        by: Who runs it, kept with the commit.
        repeated: It is one of many, so whether the stream is still the same is asked before a commit alone.
        tip_refresh: A later tip alone is worth a commit at this age of the one in the table.

    Raises:
        LandingFailed: What came back of a landing cannot be true; nothing was committed.
        StreamRecreated: The stream was recreated since the plan; nothing was committed.
        TableError: Nothing was committed, or (`CommitUnknown`) that cannot be told.
    """
    began = time.monotonic()
    until = read_until(plan.batch_id)
    job = LandingJob(str(client.address), client.settings, table.folder, plan.batch_id, until)
    landing = Landing()
    finished = plan.expected.finished | plan.given_up.keys()
    pending = dict(plan.ranges)
    while ready := [
        range_
        for shard_id, range_ in pending.items()
        if not unfinished_parents(
            plan.expected.shards[shard_id].parents, known=plan.expected.shards, finished=finished
        )
    ]:
        left = plan.allowance.less(landing.rows, landing.bytes, time.monotonic() - began)
        generation = with_confirmed_ends(client, plan.listing, land(job, ready, left))
        landing += generation
        finished |= {shard.shard_id for shard in generation.shards if shard.end is RangeEnd.SHARD_END}
        for range_ in ready:
            del pending[range_.shard_id]
    landed = {shard.shard_id: shard for shard in landing.shards}
    read = {
        shard_id: position
        for shard_id, shard in landed.items()
        if _worth_a_commit(plan.expected.shards[shard_id], position := _moved(plan, shard), tip_refresh)
    }
    brought = {
        shard_id: proof for shard_id, shard in landed.items() if (proof := _brought(plan, shard)) is not None
    }
    result, moved, listing = CommitResult(None), read, plan.listing
    if read or plan.given_up or plan.lowered or not repeated:
        # After the reading, so that all of it was of the stream that was planned.
        summary = confirmed(client, plan.listing.summary)
        if summary.identity != plan.identity:
            raise StreamRecreated(
                client.stream, "deleted and created again since the plan; nothing committed"
            )
        hours = max(listing.summary.retention_hours, summary.retention_hours)
        lowered = plan.lowered if hours == listing.summary.retention_hours else {}
        moved = {**lowered, **plan.given_up} | {
            shard_id: _confirmed(position, summary.service_time, hours) for shard_id, position in read.items()
        }
        listing = listing.with_retention(hours)
    if moved:
        result = commit(
            table,
            expected=plan.expected,
            listing=listing,
            batch_id=plan.batch_id,
            moved=moved,
            files=landing.files,
            landed=brought,
            by=by,
        )
    outcomes = {shard_id: _outcome(plan, shard_id, landed.get(shard_id), result) for shard_id in plan.asked}
    return RunResult(plan.batch_id, outcomes, result.version, time.monotonic() - began)


def _moved(plan: RunPlan, shard: ShardLanding) -> ShardPosition:
    before = plan.expected.shards[shard.shard_id]
    after = msgspec.structs.replace(
        before,
        position=shard.position,
        finished=shard.end is RangeEnd.SHARD_END,
        tip_time=shard.tip_time or before.tip_time,
        last_arrival=shard.last_arrival or before.last_arrival,
        retention_hours=plan.listing.summary.retention_hours,
        gaps=before.gaps + shard.gaps,
    )
    since, until = before.seen_until or shard.first_arrival, after.seen_until
    if since is None or until is None or until <= since:
        return after
    rate = min(shard.bytes / (until - since).total_seconds(), BYTES_PER_SECOND)
    return msgspec.structs.replace(after, bytes_per_second=round(rate))


def _confirmed(position: ShardPosition, now: datetime, retention_hours: int) -> ShardPosition:
    """A position with no time after that of a second response, and the retention that both have."""

    def capped(time: datetime | None, most: datetime) -> datetime | None:
        return None if time is None else min(time, most)

    return msgspec.structs.replace(
        position,
        tip_time=capped(position.tip_time, now),
        last_arrival=capped(position.last_arrival, now + CLOCK_STEP),
        retention_hours=retention_hours,
    )


def _brought(plan: RunPlan, shard: ShardLanding) -> Landed | None:
    first, last = shard.first_sequence_number, shard.position.sequence_number
    if first is None or last is None:
        return None
    return Landed(
        start=plan.expected.shards[shard.shard_id].position,
        through=shard.position,
        first_sequence_number=first,
        last_sequence_number=last,
        rows=shard.rows,
        bytes=shard.bytes,
        checksum=shard.checksum,
    )


def _worth_a_commit(before: ShardPosition, after: ShardPosition, tip_refresh: timedelta) -> bool:
    if not after.same_place(before):
        return True
    if after.tip_time is None or after.tip_time == before.tip_time:
        return False
    return before.tip_time is None or after.tip_time - before.tip_time >= tip_refresh


def _outcome(plan: RunPlan, shard_id: str, shard: ShardLanding | None, result: CommitResult) -> ShardOutcome:
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
