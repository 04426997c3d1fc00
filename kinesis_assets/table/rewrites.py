"""Which restores and overwrites of a table are refused.

A table that was restored or overwritten is refused until an operator accepts its rows. That is also detected
from the rows, if another engine has deleted the log entry of the restore: a restore to a version before the
newest commit with rows removes all rows of that commit. Other operations that may have removed them either
leave some of them or are recorded: then no restore is assumed.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from kinesis_assets.errors import PositionsUnreadable, TableRewritten
from kinesis_assets.table.stored_table import Rewrite

if TYPE_CHECKING:
    from datetime import date

    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.snapshot import TableSnapshot

_DELETED = "or one before it, whose entry the log no longer has"


def unaccepted_rewrites(
    table: PositionedTable, snapshot: TableSnapshot, positions: StreamPositions
) -> list[Rewrite]:
    """Return the rewrites after positions that no operator has accepted, newest first.

    If another engine has deleted log entries, the rows of the newest version are examined instead.

    Raises:
        PositionsUnreadable: The amendment that names the accepted version cannot be read.
        TableUnreachable: The log cannot be read.
    """
    rewrites = snapshot.rewrites_since(positions)
    deleted = snapshot.deleted_since(positions)
    if deleted is not None and newest_rows_are_missing(table, snapshot, positions):
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


_MAX_COMMITS = 100
"""Maximum number of commits that are searched for one with rows; each may take reading a file."""


def newest_rows_are_missing(
    table: PositionedTable, snapshot: TableSnapshot, positions: StreamPositions
) -> bool:
    """Return whether all rows of the newest commit with rows are missing without a recorded explanation.

    Rows count as present if a file has no statistics, or if it was compacted from older and newer rows.

    Raises:
        PositionsUnreadable: An amendment cannot be read.
    """
    newest = _newest_with_rows(table, positions)
    if newest is None or _may_be_explained(table, snapshot, newest):
        return False
    bounds = (
        (file.smallest["batch_id"], file.greatest["batch_id"]) for file in snapshot.data_files(["batch_id"])
    )
    return not any(low is None or high is None or low <= newest.batch_id <= high for low, high in bounds)


def _newest_with_rows(table: PositionedTable, positions: StreamPositions) -> StreamPositions | None:
    commits = islice(table.chain.back_from(positions), _MAX_COMMITS)
    try:
        return next((commit for commit in commits if commit.added), None)
    except PositionsUnreadable:  # it was pruned
        return None


def _may_be_explained(table: PositionedTable, snapshot: TableSnapshot, newest: StreamPositions) -> bool:
    """Return whether an operator accepted the loss, or a seek or the retention may have deleted the rows.

    They may also have done so by an amendment that was pruned.
    """
    amendment = snapshot.amendment(newest.identity)
    if amendment is None:
        return False
    if amendment.accepted is not None and amendment.accepted > (newest.examined or 0):
        return True
    floors = [amendment.floor]
    try:
        for each in table.amendments.back_from(amendment):
            if each.commit_id <= newest.commit_id:
                break
            if each.rewound:
                return True
            floors += [each.floor, each.lowered_from]
    except PositionsUnreadable:  # an earlier one was pruned
        return True
    return _may_have_expired(newest, max((floor for floor in floors if floor is not None), default=None))


def _may_have_expired(newest: StreamPositions, floor: date | None) -> bool:
    arrivals = [newest.shards[shard_id].last_arrival for shard_id in newest.added]
    return floor is not None and all(arrival is None or arrival.date() < floor for arrival in arrivals)
