"""Replay: a range behind the positions is read again, and what the table lacks of it is filled in.

A replay looks at one version of the table, reads the asked ranges again up to the positions of that version,
and commits the records that its data files lack, together with an entry of the table's past. It never
touches the positions, so live runs go on beside it. Whoever else changes rows behind the positions writes
that same entry, so that of two at once one is refused by Delta, and begins again from what then stands.

Knows nothing of Dagster, and of Spark only how a filling looks.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kinesis_assets.errors import (
    DataLost,
    PastChanged,
    ReplayUnfinished,
    StreamRecreated,
)
from kinesis_assets.ingest.land import LandingJob
from kinesis_assets.kinesis.reading.reading import RangeEnd, ShardRange
from kinesis_assets.replay.filled_gaps import filled_gaps
from kinesis_assets.replay.outcome import ReplayOutcome, ReplayResult, ReplayState
from kinesis_assets.replay.plan import plan_replay
from kinesis_assets.replay.task import Filling, FillJob, ShardFilling
from kinesis_assets.table.amend import fill_in
from kinesis_assets.table.commit import LONGEST_READING, read_until
from kinesis_assets.table.positions import Landed

if TYPE_CHECKING:
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.replay.plan import ReplayPlan
    from kinesis_assets.replay.window import Span
    from kinesis_assets.table.amendments import ClearedGap
    from kinesis_assets.table.table import PositionedTable

Fill = Callable[[FillJob, Sequence[ShardRange]], Filling]
"""Fills ranges of different shards, as `fill` does in Spark."""

_TRIES = 8
"""Attempts of a replay: each other change of the past meanwhile costs one."""

_LONGEST_WAIT = 5.0


def replay(
    fill: Fill,
    client: StreamClient,
    table: PositionedTable,
    span: Span,
    shard_ids: Sequence[str] = (),
    *,
    by: str | None = None,
) -> ReplayResult:
    """Read a span of some shards again, and fill in what the table lacks of it.

    Args:
        fill: Fills ranges.
        client: The stream.
        table: Its table.
        span: What is read again.
        shard_ids: Of which shards; all by default.
        by: Who replays, kept with the commit.

    Raises:
        InvalidInput: A shard is unknown, or the span does not fit the shards; nothing was touched.
        PastChanged: Others changed rows behind the positions each time this was about to; nothing was
            committed.
        StreamError: The stream cannot be reached, or is another one than the table's.
        TableError: Nothing was committed, or (`CommitUnknown`) that cannot be told.
    """
    began = time.monotonic()
    for attempt in range(1, _TRIES + 1):
        plan = plan_replay(client, table, span, shard_ids)
        try:
            outcomes, version = _execute(fill, client, table, plan, by)
        except PastChanged:
            if attempt == _TRIES:
                raise
            time.sleep(random.uniform(0, min(_LONGEST_WAIT, 0.1 * 2**attempt)))  # noqa: S311  # jitter
        else:
            break
    return ReplayResult(plan.batch_id, outcomes, version, time.monotonic() - began)


def _execute(
    fill: Fill, client: StreamClient, table: PositionedTable, plan: ReplayPlan, by: str | None
) -> tuple[dict[str, ReplayOutcome], int | None]:
    filling = Filling()
    cleared: dict[str, tuple[ClearedGap, ...]] = {}
    if plan.ranges:
        until = read_until(plan.batch_id)
        landing = LandingJob(str(client.address), client.settings, table.folder, plan.batch_id, until)
        filling = fill(FillJob(landing, plan.held, plan.not_before), list(plan.ranges.values()))
        cleared = _cleared(plan, filling)
        # After the reading, so that all of it was of the stream that was planned.
        if client.describe().identity != plan.listing.summary.identity:
            raise StreamRecreated(client.stream, "deleted and created again meanwhile; nothing committed")
    version = None
    if filling.files or cleared:
        version = fill_in(
            table,
            identity=plan.listing.summary.identity,
            version=plan.version,
            past=plan.past,
            not_before=plan.not_before,
            batch_id=plan.batch_id,
            files=filling.files,
            filled={shard.shard_id: _filled(shard) for shard in filling.shards if shard.rows},
            cleared=cleared,
            by=by,
        )
    read = {
        shard.shard_id: _outcome(plan, shard, len(cleared.get(shard.shard_id, ())))
        for shard in filling.shards
    }
    asked = [*plan.ranges, *plan.told]
    return {shard_id: read.get(shard_id) or plan.told[shard_id] for shard_id in asked}, version


def _cleared(plan: ReplayPlan, filling: Filling) -> dict[str, tuple[ClearedGap, ...]]:
    found = {
        shard.shard_id: filled_gaps(
            plan.gaps[shard.shard_id],
            shard,
            not_before=plan.not_before,
            up_to_position=plan.up_to_positions,
        )
        for shard in filling.shards
    }
    return {shard_id: gaps for shard_id, gaps in found.items() if gaps}


def _filled(shard: ShardFilling) -> Landed:
    return Landed(
        start=shard.start,
        through=shard.through,
        first_sequence_number=str(shard.first_sequence_number),
        last_sequence_number=str(shard.last_sequence_number),
        rows=shard.rows,
        bytes=shard.bytes,
        checksum=shard.checksum,
    )


def _outcome(plan: ReplayPlan, shard: ShardFilling, gaps_filled: int) -> ReplayOutcome:
    lost = plan.expired.get(shard.shard_id) or _missing_first(plan, shard)
    error = shard.error or _unfinished(shard, lost) or lost
    state = ReplayState.FILLED if shard.rows else ReplayState.WHOLE
    return ReplayOutcome(
        shard_id=shard.shard_id,
        state=ReplayState.FAILED if error else state,
        start=shard.start,
        through=shard.through,
        rows=shard.rows,
        bytes=shard.bytes,
        first_sequence_number=shard.first_sequence_number,
        last_sequence_number=shard.last_sequence_number,
        checksum=shard.checksum if shard.rows else None,
        gaps_filled=gaps_filled,
        error=error,
    )


def _unfinished(shard: ShardFilling, lost: DataLost | None) -> ReplayUnfinished | None:
    """Tell that the time was over before the range was read, and where to go on.

    What is lost is told too: who goes on from there does not come by it again.
    """
    if shard.end is not RangeEnd.LATE:
        return None
    number = shard.through.sequence_number
    return ReplayUnfinished(
        shard.shard_id,
        ("" if lost is None else f"{lost.sentence}. But ")
        + f"not all of it was read within {LONGEST_READING}, and what is read later cannot be committed. "
        f"What was lacking up to {shard.through} is filled in; to go on, replay this shard alone"
        + ("" if number is None else f" from {number}"),
    )


def _missing_first(plan: ReplayPlan, shard: ShardFilling) -> DataLost | None:
    """Tell that the service went on after the asked record, as it does without a word."""
    asked = shard.start.sequence_number
    ended_by_number = plan.ranges[shard.shard_id].up_to is not None and shard.end is not RangeEnd.LATE
    if asked is None or shard.first_read == asked or not (shard.first_read or ended_by_number):
        return None
    return DataLost(
        shard.shard_id,
        f"asked for {shard.start}, but the stream has no such record any more; the first of the range that "
        f"it has is {shard.first_read or 'none'}. What is lacking from there on is filled in",
    )
