"""One run over some of a stream's shards: plan, land, commit, and what became of each shard.

Knows nothing of Dagster; the I/O manager calls `plan_run` where the asset is loaded and `execute_run` where
it is stored.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import (
    InvalidInput,
    ParentUnfinished,
    ShardLeftOut,
    ShardUnknown,
    ShardVanished,
    StreamRecreated,
    TableMissing,
)
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reader import Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.shards import unfinished_parents
from kinesis_assets.spark.land import Landing, LandingJob, ShardLanding, land
from kinesis_assets.table.commit import CommitResult, commit, freeze
from kinesis_assets.table.positions import initial_positions
from kinesis_assets.table.tokens import draw_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.shards import Shard
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.delta import PositionedTable
    from kinesis_assets.table.positions import ShardPosition, StreamPositions

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TIP_REFRESH = timedelta(hours=1)
"""An idle shard's tip time is committed anew at this age: well within the shortest retention, 24 h."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run reads: the value that goes through the asset's body.

    Attributes:
        identity: Which stream.
        batch_id: Names this attempt; every row it lands carries it.
        expected: The positions it begins from, with every listed shard.
        listed: The stream's shards, parents before children.
        asked: The shards the run was asked for.
        ranges: By shard id, what is to be read: the asked shards that are neither finished nor refused.
        refused: The asked shards that cannot be read at all.
    """

    identity: StreamIdentity
    batch_id: int
    expected: StreamPositions
    listed: Sequence[Shard]
    asked: Sequence[str]
    ranges: Mapping[str, ShardRange]
    refused: Mapping[str, ShardError]

    def narrowed(self, bounds: Bounds) -> RunPlan:
        """The same plan with tighter bounds. Fields that are None keep the plan's; none can be widened."""

        def tighter(planned: Bounds) -> Bounds:
            names = Bounds.__struct_fields__
            both = {name: (getattr(planned, name), getattr(bounds, name)) for name in names}
            return Bounds(
                **{
                    name: min((value for value in values if value is not None), default=None)
                    for name, values in both.items()
                }
            )

        ranges = {
            shard_id: msgspec.structs.replace(range_, bounds=tighter(range_.bounds))
            for shard_id, range_ in self.ranges.items()
        }
        return replace(self, ranges=ranges)


class ShardState(StrEnum):
    """What became of a shard in a run."""

    COMMITTED = "committed"
    """Everything read is committed, if only that there was nothing new."""
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
        files: Data files that hold some of them.
        lag_ms: How far `through` is behind the tip; None if that was not seen.
        error: Why the state is waiting, conflict or failed; None otherwise.
    """

    shard_id: str
    state: ShardState
    start: Position | None = None
    through: Position | None = None
    rows: int = 0
    bytes: int = 0
    files: int = 0
    lag_ms: int | None = None
    error: ShardError | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """What became of a run.

    Attributes:
        outcomes: By shard id, one for each asked shard.
        version: The table's version that holds the run's commit; None if there was nothing to commit.
        seconds: From the plan's execution to the commit, wall clock.
    """

    outcomes: Mapping[str, ShardOutcome]
    version: int | None = None
    seconds: float = field(default=0.0, compare=False)

    @property
    def errors(self) -> dict[str, ShardError]:
        """The shards that are not committed, each with its reason."""
        return {shard_id: outcome.error for shard_id, outcome in self.outcomes.items() if outcome.error}


def standing_shards(client: StreamClient, table: PositionedTable) -> dict[str, ShardPosition]:
    """Every shard that is listed or was ever recorded, as it stands; parents before children.

    One that no run has planned yet is at TRIM_HORIZON. Raises what `plan_run` raises.
    """
    unread = initial_positions(client.list_shards(), Position(PositionKind.TRIM_HORIZON))
    try:
        snapshot = table.snapshot()
    except TableMissing:
        return unread
    positions = snapshot.positions(client.describe().identity)
    recorded = {} if positions is None else positions.shards
    return recorded | {shard_id: shard for shard_id, shard in unread.items() if shard_id not in recorded}


def plan_run(
    client: StreamClient,
    table: PositionedTable,
    *,
    asked: Iterable[str],
    start: Position,
    bounds: Bounds,
) -> RunPlan:
    """Plan the next range of each asked shard.

    The first plan of a stream freezes every listed shard at `start` in the table, before anything is read.

    Args:
        client: The stream.
        table: Its table; created if missing.
        asked: Shard ids, in any order.
        start: TRIM_HORIZON, LATEST or AT_TIMESTAMP; only the first plan of the stream looks at it.
        bounds: For each shard's range.

    Raises:
        InvalidInput: The start is a time in the future.
        StreamError: The stream cannot be reached, was recreated, or its list of shards is not whole.
        TableError: The table cannot be used.
    """
    summary = client.describe()
    listed = client.list_shards()
    # The Date header has whole seconds, rounded down: what has arrived by now arrived before the next one.
    now = summary.service_time + timedelta(seconds=1)
    if start.timestamp is not None and not _EPOCH <= start.timestamp < now:
        raise InvalidInput(
            f"stream {client.stream}: start {start} is not in the past; the stream's clock says {now}"
        )
    if start.kind is PositionKind.LATEST:
        start = Position.at_timestamp(summary.service_time)
    expected = freeze(table, summary.identity, listed, start).with_listed(listed)
    bounds = msgspec.structs.replace(bounds, until=min(bounds.until or now, now))
    present = {shard.shard_id: shard for shard in listed}
    asked = list(dict.fromkeys(asked))
    refused: dict[str, ShardError] = {}
    ranges: dict[str, ShardRange] = {}
    for shard_id in asked:
        position = expected.shards.get(shard_id)
        if position is None:
            refused[shard_id] = ShardUnknown(
                shard_id, f"stream {client.stream} has no such shard; remove the partition"
            )
        elif position.finished:
            continue
        elif shard_id not in present:
            refused[shard_id] = ShardVanished(
                shard_id,
                f"no longer listed by stream {client.stream}, and read only up to {position.position}; "
                "what came after is past the stream's retention",
            )
        else:
            ranges[shard_id] = ShardRange(shard_id, position.position, bounds, present[shard_id].closed)
    return RunPlan(summary.identity, draw_token(), expected, listed, asked, ranges, refused)


def execute_run(
    spark: SparkSession, client: StreamClient, table: PositionedTable, plan: RunPlan
) -> RunResult:
    """Land a plan's ranges and commit them with their positions.

    Parents are landed before their children, each generation by a Spark job of its own; a child whose parents
    are not at their end by then waits. One commit holds all of it.

    Raises:
        StreamRecreated: The stream was recreated since the plan; nothing was committed.
        TableError: Nothing was committed, or (`CommitUnknown`) that cannot be told.
    """
    began = time.monotonic()
    job = LandingJob(client.stream, client.settings, table.folder, plan.batch_id)
    landing = Landing()
    finished = set(plan.expected.finished)
    pending = dict(plan.ranges)
    while ready := [
        range_
        for shard_id, range_ in pending.items()
        if not unfinished_parents(
            plan.expected.shards[shard_id].parents, known=plan.expected.shards, finished=finished
        )
    ]:
        generation = land(spark, job, ready)
        landing += generation
        finished |= {shard.shard_id for shard in generation.shards if shard.end is RangeEnd.SHARD_END}
        for range_ in ready:
            del pending[range_.shard_id]
    # After the reading, so that all of it was of the stream that was planned.
    if client.describe().identity != plan.identity:
        raise StreamRecreated(client.stream, "deleted and created again since the plan; nothing committed")
    landed = {shard.shard_id: shard for shard in landing.shards}
    moved = {
        shard_id: position
        for shard_id, shard in landed.items()
        if _worth_a_commit(plan.expected.shards[shard_id], position := _moved(plan, shard))
    }
    result = CommitResult(None)
    if moved:
        result = commit(
            table,
            expected=plan.expected,
            listed=plan.listed,
            batch_id=plan.batch_id,
            moved=moved,
            files=landing.files,
        )
    outcomes = {shard_id: _outcome(plan, shard_id, landed.get(shard_id), result) for shard_id in plan.asked}
    return RunResult(outcomes, result.version, time.monotonic() - began)


def _moved(plan: RunPlan, shard: ShardLanding) -> ShardPosition:
    before = plan.expected.shards[shard.shard_id]
    return msgspec.structs.replace(
        before,
        position=shard.position,
        finished=shard.end is RangeEnd.SHARD_END,
        tip_time=shard.tip_time or before.tip_time,
        last_arrival=shard.last_arrival or before.last_arrival,
    )


def _worth_a_commit(before: ShardPosition, after: ShardPosition) -> bool:
    if not after.same_place(before):
        return True
    if after.tip_time is None:
        return False
    return before.tip_time is None or after.tip_time - before.tip_time >= TIP_REFRESH


def _outcome(plan: RunPlan, shard_id: str, shard: ShardLanding | None, result: CommitResult) -> ShardOutcome:
    if shard_id in plan.refused:
        return ShardOutcome(shard_id, ShardState.FAILED, error=plan.refused[shard_id])
    start = plan.expected.shards[shard_id].position
    if shard is None:
        if plan.expected.shards[shard_id].finished:
            return ShardOutcome(shard_id, ShardState.FINISHED, start, start)
        if shard_id not in plan.ranges:
            left_out = ShardLeftOut(shard_id, "left out of the plan by the asset's body; nothing was read")
            return ShardOutcome(shard_id, ShardState.FAILED, start, start, error=left_out)
        return ShardOutcome(shard_id, ShardState.WAITING, start, start, error=_waiting(plan, shard_id))
    if shard_id in result.conflicts:
        return ShardOutcome(shard_id, ShardState.CONFLICT, start, start, error=result.conflicts[shard_id])
    if shard.error is not None:
        state = ShardState.FAILED
    else:
        state = ShardState.FINISHED if shard.end is RangeEnd.SHARD_END else ShardState.COMMITTED
    return ShardOutcome(
        shard_id=shard_id,
        state=state,
        start=start,
        through=shard.position,
        rows=shard.rows,
        bytes=shard.bytes,
        files=sum(shard_id in file.rows_by_shard for file in result.files),
        lag_ms=shard.millis_behind_latest,
        error=shard.error,
    )


def _waiting(plan: RunPlan, shard_id: str) -> ParentUnfinished:
    parents = plan.expected.waits_for(shard_id)
    vanished = set(parents) - {shard.shard_id for shard in plan.listed}
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
