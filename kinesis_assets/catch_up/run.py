"""Catch up: move shards to their newest records, and add the skipped ones beside the runs.

The jump is a seek, whose commit records the skipped range of each shard as a gap that is to be filled. The
backfill is a replay of these gaps. It clears a gap in the commit of its last rows, if no record of the gap
can have expired before it was read; otherwise the gap shrinks to its lost part. So a catch-up that ends at
any point is continued by the next one, which finds the gaps that are still to be filled; a replay adds only
rows that the table lacks.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.catch_up.expired_shards import expired_gaps
from kinesis_assets.catch_up.lost_gaps import lost_parts, record_lost
from kinesis_assets.errors import DataLost
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.relist import retry_listing
from kinesis_assets.replay.run import RETRIES, replay
from kinesis_assets.replay.window import ReplayWindow
from kinesis_assets.seek.run import SeekResult, seek

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.replay.outcome import ReplayResult
    from kinesis_assets.replay.run import Fill
    from kinesis_assets.retry import RetryPolicy
    from kinesis_assets.table.table import PositionedTable

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
    by: str | None = None,
    retries: RetryPolicy = RETRIES,
) -> tuple[ReplayResult | None, dict[str, ShardError]]:
    """Add the records of the gaps that are to be filled, and clear those that are filled.

    Args:
        fill: Reads ranges and writes the missing records.
        client: The stream.
        table: Its table.
        shard_ids: The shards; all shards if empty.
        by: Id of the Dagster run or name of the person, recorded with the commit.
        retries: The attempts, if rows behind the positions change.

    Returns:
        The result of the replay, None if there was nothing to fill; and by shard id, why a gap is not filled.

    Raises what `replay.run.replay` raises.
    """
    gaps = gaps_to_fill(client, table, shard_ids)
    if not gaps:
        return None, {}
    listing = _listing(client)
    oldest = listing.summary.service_time - timedelta(hours=listing.summary.retention_hours)
    starts = {
        shard_id: _start(readable[0])
        for shard_id, each in gaps.items()
        if (readable := [gap for gap in each if gap.until > oldest])
    }
    result = None
    if starts:
        window = ReplayWindow(_TRIM_HORIZON, starts=starts)
        result = replay(fill, client, table, window, list(starts), by=by, retries=retries)
    errors: dict[str, ShardError] = {} if result is None else dict(result.errors)
    # A shard that was not read to its end is read again by the next catch-up.
    again = {shard_id for shard_id, error in errors.items() if not isinstance(error, DataLost)}
    # Another catch-up may have recorded more gaps meanwhile.
    left = {
        shard_id: [gap for gap in each if gap in gaps[shard_id]]
        for shard_id, each in gaps_to_fill(client, table, list(gaps)).items()
        if shard_id not in again
    }
    first_read = {} if result is None else {key: each.first_read for key, each in result.outcomes.items()}
    lost, unread = lost_parts(client, listing, left, first_read)
    gone, kept = expired_gaps(client, table, listing, left)
    lost |= gone
    if lost:
        record_lost(client, table, lost, by=by)
    return result, errors | {key: _lost(key, parts) for key, parts in lost.items()} | unread | kept


def gaps_to_fill(
    client: StreamClient, table: PositionedTable, shard_ids: Collection[str] = ()
) -> dict[str, Sequence[Gap]]:
    """Return the gaps that are still to be filled, by shard id.

    Args:
        client: The stream.
        table: Its table.
        shard_ids: The shards; all shards if empty.
    """
    identity, snapshot = client.describe().identity, table.snapshot()
    positions = snapshot.positions(identity)
    if positions is None:
        return {}
    amendment = snapshot.amendment(identity)
    found = {
        shard_id: [
            gap
            for gap in shard.gaps
            if gap.to_fill and not (amendment is not None and amendment.has_cleared(shard_id, gap))
        ]
        for shard_id, shard in snapshot.with_archive(positions).shards.items()
        if not shard_ids or shard_id in shard_ids
    }
    return {shard_id: gaps for shard_id, gaps in found.items() if gaps}


def _start(gap: Gap) -> Position:
    """Return where a replay of a gap starts. If it finds this record, no later one has expired."""
    if gap.after.sequence_number is None:
        return gap.after
    return Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=gap.after.sequence_number)


def _finished(client: StreamClient, table: PositionedTable) -> Mapping[str, object]:
    snapshot = table.snapshot()
    positions = snapshot.positions(_listing(client).summary.identity)
    shards = {} if positions is None else snapshot.with_archive(positions).shards
    return {shard_id: shard for shard_id, shard in shards.items() if shard.finished}


def _listing(client: StreamClient) -> StreamListing:
    return retry_listing(client, lambda listing: listing)


def _lost(shard_id: str, parts: Mapping[Gap, Gap]) -> ShardError:
    return DataLost(
        shard_id,
        f"records may have expired before they were read, so a gap stays recorded: "
        f"{'; '.join(map(str, parts.values()))}. The records after it were added",
    )
