"""Refuses a table that was restored or overwritten, until an operator accepts its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.errors import TableRewritten
from kinesis_assets.table.log.deleted_entries import newest_rows_are_missing
from kinesis_assets.table.log.rewrites import Rewrite

if TYPE_CHECKING:
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.table.table import PositionedTable

_DELETED = "or one before it, whose entry the log no longer has"


def unaccepted_rewrites(
    table: PositionedTable, snapshot: TableSnapshot, positions: StreamPositions
) -> list[Rewrite]:
    """Return the rewrites after positions that no operator has accepted, newest first.

    If another engine has deleted log entries, the rows are examined instead.

    Args:
        table: The table.
        snapshot: Its newest version.
        positions: The positions in that version.

    Raises:
        PositionsUnreadable: The amendment that names the accepted version cannot be read.
        TableUnreachable: The log cannot be read.
    """
    rewrites = table.rewrites.since(positions, snapshot.version)
    deleted = table.rewrites.deleted_since(positions, snapshot.version)
    if deleted is not None and newest_rows_are_missing(snapshot, positions):
        rewrites.append(Rewrite(deleted, _DELETED, None))
    if not rewrites:
        return []
    amendment = snapshot.amendment(positions.identity)
    accepted = -1 if amendment is None or amendment.accepted is None else amendment.accepted
    return [rewrite for rewrite in rewrites if rewrite.version > accepted]


def refuse_rewritten(table: PositionedTable, snapshot: TableSnapshot, positions: StreamPositions) -> None:
    """Check that every rewrite after positions was accepted.

    Raises:
        TableRewritten: A rewrite was not accepted.
        TableUnreachable: The log cannot be read.
    """
    left = unaccepted_rewrites(table, snapshot, positions)
    if left:
        raise TableRewritten(
            table.uri,
            f"{', '.join(map(str, reversed(left)))} replaced rows but not the positions, so records that the "
            "positions have passed may be missing; nothing was read or changed. Add the missing records with "
            "`kinesis-assets replay`, check the rows with `kinesis-assets doctor --rows`, and then accept "
            "the table with `kinesis-assets adopt --apply`",
        )
