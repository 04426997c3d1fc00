"""Finds restores and overwrites after a table's positions that nobody has accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.errors import TableRewritten
from kinesis_assets.table.deleted_entries import newest_rows_are_gone
from kinesis_assets.table.rewrites import Rewrite

if TYPE_CHECKING:
    from kinesis_assets.table.positions import StreamPositions
    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.table.table import PositionedTable

_DELETED = "or one before it, whose entry the log no longer has"


def unaccepted(table: PositionedTable, snapshot: TableSnapshot, positions: StreamPositions) -> list[Rewrite]:
    """The rewrites after positions that nobody has accepted, newest first.

    Where another engine has deleted entries of the log, the rows are examined instead.

    Raises:
        PositionsUnreadable: The table's record of what was accepted cannot be read.
        TableUnreachable: The log cannot be read.
    """
    rewrites = table.rewrites.since(positions, snapshot.version)
    deleted = table.rewrites.deleted_since(positions, snapshot.version)
    if deleted is not None and newest_rows_are_gone(snapshot, positions):
        rewrites.append(Rewrite(deleted, _DELETED, None))
    if not rewrites:
        return []
    past = snapshot.past(positions.identity)
    accepted = -1 if past is None or past.accepted is None else past.accepted
    return [rewrite for rewrite in rewrites if rewrite.version > accepted]


def refuse_rewritten(table: PositionedTable, snapshot: TableSnapshot, positions: StreamPositions) -> None:
    """See that no rewrite came after positions, unless it was accepted.

    Raises:
        TableRewritten: One did.
        TableUnreachable: The log cannot be read.
    """
    left = unaccepted(table, snapshot, positions)
    if left:
        raise TableRewritten(
            table.uri,
            f"{', '.join(map(str, reversed(left)))} replaced rows but left the positions where they were, so "
            "records that the positions have passed may be missing; nothing was read or changed. Fill in "
            "what is missing with `kinesis-assets replay`, check the rows with `kinesis-assets doctor "
            "--rows`, and accept the table as it is then with `kinesis-assets adopt --apply`",
        )
