"""Rows that positions have not passed, though they are in the table: the next run would add them again.

A seek that goes back removes the rows after the new position, and a restore of a version before it brings
them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.adopt.newest_rows import newest_rows
from kinesis_assets.errors import TableUnsuitable
from kinesis_assets.kinesis.relist import relisted
from kinesis_assets.table.row_predicates import at, passed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.adopt.newest_rows import NewestRow
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.table.positions import StreamPositions
    from kinesis_assets.table.rewrites import Rewrite
    from kinesis_assets.table.row_predicates import Passed
    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.table.table import PositionedTable

_NAMED = 5
"""Shards that an error names; the others are counted."""


def refuse_rows_ahead(
    client: StreamClient,
    table: PositionedTable,
    snapshot: TableSnapshot,
    positions: StreamPositions,
    rewrites: Sequence[Rewrite],
) -> None:
    """See that no row is one that the next run reads again.

    Args:
        client: The stream.
        table: Its table.
        snapshot: The table at one version.
        positions: The stream's in that version.
        rewrites: The restores and overwrites after these positions, oldest first; at least one.

    Raises:
        TableUnsuitable: Some are.
        StreamError: The shards cannot be listed.
        TableUnreachable: The rows cannot be read.
    """
    listing = relisted(client, lambda listing: listing)
    begins = {shard.shard_id: at(shard.starting_sequence_number) for shard in listing.shards}
    rows = newest_rows(table.uri, snapshot).get(client.stream, {})
    ahead = {
        shard_id: row.sequence_number
        for shard_id, row in rows.items()
        if (shard := positions.shards.get(shard_id)) is not None
        and not shard.finished
        and _is_ahead(row, shard.position, begins.get(shard_id))
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


def _is_ahead(row: NewestRow, position: Position, begin: Passed | None) -> bool:
    """Whether a run that begins at a position reads a row.

    Args:
        row: The newest row of a shard.
        position: The shard's.
        begin: Everything before its first record: other rows are of an older stream. None if it is not
            listed, so that nothing of it can be read from its beginning.
    """
    place = (int(row.sequence_number), row.sub_sequence_number)
    there = passed(position)
    if there is not None:
        return place > there
    late = position.timestamp is None or row.last_arrival >= position.timestamp
    return begin is not None and place > begin and late
