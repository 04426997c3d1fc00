"""Catch up: move shards to their newest records, and add the skipped ones while runs continue.

The jump is a seek, whose commit records the skipped range of each shard as a gap that is to be filled. The
backfill replays these gaps in steps of a limited time. The commit of a step's rows also records how far a gap
is filled, and that of the last step clears it, if no record of the gap can have expired before it was read;
otherwise the gap shrinks to its lost part. So a catch-up that ends at any point is continued by the next one,
which finds what is still to be filled; a replay adds only rows that the table lacks.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.catch_up.expired_shards import expired_gaps
from kinesis_assets.catch_up.lost_gaps import lost_parts, record_lost
from kinesis_assets.errors import DataLost
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.relist import retry_listing
from kinesis_assets.replay.outcome import ReplayOutcome, ReplayResult, ReplayState
from kinesis_assets.replay.run import RETRIES, replay
from kinesis_assets.replay.window import ReplayWindow
from kinesis_assets.seek.run import SeekResult, seek
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions.amendments import ranges_to_fill

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kinesis_assets.catch_up.lost_gaps import Parts
    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.stream import StreamIdentity, StreamListing
    from kinesis_assets.replay.run import Fill
    from kinesis_assets.retry import RetryPolicy
    from kinesis_assets.table.positions.positions import ShardPosition
    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.table.table import PositionedTable

STEP_SECONDS = 600.0
"""How long a step reads each shard after its first record, before it is committed."""

_LATEST = Position(PositionKind.LATEST)
_TRIM_HORIZON = Position(PositionKind.TRIM_HORIZON)


def jump(
    client: StreamClient, table: PositionedTable, shard_ids: Collection[str] = (), *, by: str, apply: bool
) -> SeekResult:
    """Move shards to their newest records, and record what they skip as gaps that are to be filled.

    Args:
        client: The stream.
        table: Its table.
        shard_ids: The shards; all shards if empty. Those that are finished stay.
        by: Id of the Dagster run or name of the person, recorded with the positions.
        apply: Commit the moves; otherwise only plan them.

    Raises what `seek.run.seek` raises.
    """
    if not shard_ids:
        return seek(client, table, to=_LATEST, shard_ids=None, by=by, apply=apply, to_fill=True)
    finished = _finished(client, table)
    unfinished = [shard_id for shard_id in shard_ids if shard_id not in finished]
    if not unfinished:
        return SeekResult({})
    return seek(client, table, to=_LATEST, shard_ids=unfinished, by=by, apply=apply, to_fill=True)


def backfill(
    fill: Fill,
    client: StreamClient,
    table: PositionedTable,
    shard_ids: Collection[str] = (),
    *,
    report: Callable[[ReplayResult], object] = lambda _: None,
    by: str | None = None,
    retries: RetryPolicy = RETRIES,
) -> dict[str, ShardError]:
    """Add the records of the gaps that are to be filled, step by step, and clear those that are filled.

    Args:
        fill: Reads ranges and writes the missing records.
        client: The stream.
        table: Its table.
        shard_ids: The shards; all shards if empty.
        report: Called with the result of each step after its commit.
        by: Id of the Dagster run or name of the person, recorded with the commits.
        retries: The attempts of each step, if rows behind the positions change.

    Returns:
        By shard id, why a gap is not filled.

    Raises what `replay.run.replay` raises. The steps that were reported are committed.
    """
    errors: dict[str, ShardError] = {}
    gaps = gaps_to_fill(client, table, shard_ids)
    while gaps:
        result, failed = _step(fill, client, table, gaps, by=by, retries=retries)
        in_part = {shard_id for shard_id, outcome in result.outcomes.items() if outcome.in_part}
        left = gaps_to_fill(client, table, list(in_part)) if in_part else {}
        # A step without progress would be repeated forever.
        stuck = {shard_id for shard_id, each in left.items() if each == gaps[shard_id]}
        failed = {
            shard_id: error
            for shard_id, error in failed.items()
            if shard_id not in in_part - stuck or isinstance(error, DataLost)
        }
        report(_with_errors(result, failed))
        errors |= failed
        gaps = {shard_id: each for shard_id, each in left.items() if shard_id not in stuck}
    return errors


def _step(
    fill: Fill,
    client: StreamClient,
    table: PositionedTable,
    gaps: Mapping[str, Mapping[Gap, Gap]],
    *,
    by: str | None,
    retries: RetryPolicy,
) -> tuple[ReplayResult, dict[str, ShardError]]:
    """Read the gaps of each shard for a limited time, and record what is added and what is lost."""
    listing = _listing(client)
    oldest = listing.summary.service_time - timedelta(hours=listing.summary.retention_hours)
    first = {
        shard_id: readable[0]
        for shard_id, each in gaps.items()
        if (readable := [gap for gap in each if gap.until > oldest])
    }
    result = ReplayResult(new_id(table.clock), {})
    if first:
        starts = {shard_id: _start(gaps[shard_id][gap]) for shard_id, gap in first.items()}
        window = ReplayWindow(_TRIM_HORIZON, starts=starts, max_seconds=STEP_SECONDS)
        result = replay(fill, client, table, window, list(starts), by=by, retries=retries)
    left: dict[str, dict[Gap, Gap]] = {}
    for shard_id, each in gaps_to_fill(client, table, list(gaps)).items():
        outcome = result.outcomes.get(shard_id)
        if outcome is not None and outcome.in_part:
            # The other gaps may not have been reached. Of a gap whose first part was filled, nothing is lost.
            gap = first[shard_id]
            checked = {gap} if each.get(gap) == gaps[shard_id][gap] else set()
        elif outcome is None or outcome.error is None or isinstance(outcome.error, DataLost):
            checked = set(gaps[shard_id])  # another catch-up may have recorded more gaps meanwhile
        else:
            continue  # the next catch-up reads it again
        left[shard_id] = {gap: part for gap, part in each.items() if gap in checked}
    lost, unread = lost_parts(client, listing, left, result.outcomes)
    gone, kept = expired_gaps(client, table, listing, left)
    lost |= gone
    if lost:
        record_lost(client, table, lost, by=by)
    losses = {shard_id: found for shard_id, parts in lost.items() if (found := _losses(parts))}
    return result, result.errors | {key: _lost(key, each) for key, each in losses.items()} | unread | kept


def _start(part: Gap) -> Position:
    """Return where a replay of a gap starts. If it finds this record, no later one has expired."""
    if part.after.sequence_number is None:
        return part.after
    return Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=part.after.sequence_number)


def _with_errors(result: ReplayResult, errors: Mapping[str, ShardError]) -> ReplayResult:
    """Return the result of a step with these errors alone: that a shard is read in part is no error."""
    outcomes = {shard_id: ReplayOutcome(shard_id, ReplayState.WHOLE) for shard_id in errors} | dict(
        result.outcomes
    )
    for shard_id, outcome in outcomes.items():
        error = errors.get(shard_id)
        state = ReplayState.FILLED if outcome.rows else ReplayState.WHOLE
        if error is not None or outcome.error is not None:
            outcomes[shard_id] = replace(outcome, state=ReplayState.FAILED if error else state, error=error)
    return replace(result, outcomes=outcomes)


def gaps_to_fill(
    client: StreamClient, table: PositionedTable, shard_ids: Collection[str] = ()
) -> dict[str, dict[Gap, Gap]]:
    """Return the gaps that are still to be filled, each with its unfilled part, by shard id.

    Args:
        client: The stream.
        table: Its table.
        shard_ids: The shards; all shards if empty.
    """
    identity, snapshot = client.describe().identity, table.snapshot()
    amendment = snapshot.amendment(identity)
    found = ranges_to_fill(amendment, _shards(snapshot, identity))
    return {shard_id: gaps for shard_id, gaps in found.items() if not shard_ids or shard_id in shard_ids}


def _finished(client: StreamClient, table: PositionedTable) -> Mapping[str, object]:
    shards = _shards(table.snapshot(), client.describe().identity)
    return {shard_id: shard for shard_id, shard in shards.items() if shard.finished}


def _shards(snapshot: TableSnapshot, identity: StreamIdentity) -> Mapping[str, ShardPosition]:
    """Return the position of each shard by its id, also of archived ones."""
    positions = snapshot.positions(identity)
    return {} if positions is None else snapshot.with_all_archived(positions).shards


def _listing(client: StreamClient) -> StreamListing:
    return retry_listing(client, lambda listing: listing)


def _losses(parts: Mapping[Gap, Parts]) -> list[Gap]:
    return [part for each in parts.values() for part in each if not part.to_fill]


def _lost(shard_id: str, gaps: Sequence[Gap]) -> ShardError:
    return DataLost(
        shard_id,
        f"records may have expired before they were read, so a gap stays recorded: "
        f"{'; '.join(map(str, gaps))}. The records after it were added, or are added next; to get the lost "
        "ones, have the producer send them again",
    )
