"""Refuse rows that the positions have not passed: the next run would add them again.

A seek that goes back removes the rows after the new position. A restore of an older version adds them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.adopt.newest_rows import newest_rows
from kinesis_assets.errors import TableUnsuitable
from kinesis_assets.kinesis.relist import retry_listing
from kinesis_assets.table.row_predicates import at, passed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.adopt.newest_rows import NewestRow
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.table.log.rewrites import Rewrite
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.row_predicates import PassedRecord
    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.table.table import PositionedTable

_NAMED = 5
"""Maximum number of shards that an error names; the others are counted."""


def refuse_rows_ahead(
    client: StreamClient,
    table: PositionedTable,
    snapshot: TableSnapshot,
    positions: StreamPositions,
    rewrites: Sequence[Rewrite],
) -> None:
    """Check that the next run reads no record that is already in the table.

    Args:
        client: The stream.
        table: Its table.
        snapshot: The table at one version.
        positions: The positions of that version.
        rewrites: The restores and overwrites since these positions, oldest first; at least one.

    Raises:
        TableUnsuitable: It would read some.
        StreamError: The shards cannot be listed.
        TableUnreachable: The rows cannot be read.
    """
    listing = retry_listing(client, lambda listing: listing)
    starts = {shard.shard_id: at(shard.starting_sequence_number) for shard in listing.shards}
    rows = newest_rows(table.uri, snapshot).get(client.stream, {})
    ahead = {
        shard_id: row.sequence_number
        for shard_id, row in rows.items()
        if (shard := positions.shards.get(shard_id)) is not None
        and not shard.finished
        and _is_ahead(row, shard.position, starts.get(shard_id))
    }
    if ahead:
        named = ", ".join(f"{shard_id} up to {number}" for shard_id, number in sorted(ahead.items())[:_NAMED])
        more = f" and {len(ahead) - _NAMED} more shards" if len(ahead) > _NAMED else ""
        raise TableUnsuitable(
            table.uri,
            f"{rewrites[-1]} left rows that the positions have not passed, of {named}{more}: the next run "
            "would add them again. Nothing was changed. Restore the version before it, in which rows and "
            "positions agree, or delete these rows; then run `kinesis-assets adopt` again",
        )


def _is_ahead(row: NewestRow, position: Position, start: PassedRecord | None) -> bool:
    """Whether a run that starts at a position reads a row again.

    Args:
        row: The newest row of a shard.
        position: The position of the shard.
        start: Position before the first record of the shard; rows before it belong to an older stream. None
            if the shard is not listed, so that it cannot be read from its start.
    """
    place = (int(row.sequence_number), row.sub_sequence_number)
    current = passed(position)
    if current is not None:
        return place > current
    in_time = position.timestamp is None or row.last_arrival >= position.timestamp
    return start is not None and place > start and in_time
