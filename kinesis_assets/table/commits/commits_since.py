"""Opens a table for an attempt's commit, and finds the commits made since it started, including its own."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from kinesis_assets.errors import CommitUnknown, PositionsUnreadable
from kinesis_assets.table.positions.positions_file import CommitRef

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.table.table import PositionedTable

_MAX_FILES_READ = 4
"""Maximum number of positions files to read between opening the table and the try. More take so long that
another commit is likely to come first."""

_MAX_OPENINGS = 5
"""Maximum number of times that the table is opened for that. Each time, fewer files remain to be read."""


def open_with_positions(
    table: PositionedTable, expected: StreamPositions, batch_id: int, *, for_rows: bool
) -> tuple[TableSnapshot, StreamPositions, int | None]:
    """Open the table, read its positions, and search for the commit of a batch.

    Args:
        table: The table.
        expected: The positions that the attempt started from.
        batch_id: The attempt's batch.
        for_rows: Prepare the table's schema for new rows.

    Returns:
        A snapshot of the table, its positions, and the commit id of the batch; None if it is not committed.

    Raises:
        CommitUnknown: The positions are missing, or their chain is broken.
    """
    openings = 0
    while True:
        openings += 1
        snapshot = table.snapshot_for_rows() if for_rows else table.snapshot()
        files_read = table.chain.files_read
        current = snapshot.positions(expected.identity)
        if current is None:
            raise CommitUnknown(
                table.uri,
                f"the positions from which batch {batch_id} of {expected.identity.name} started are missing. "
                "The table may have been replaced: examine its history before the next run",
            )
        commit_id = find_commit(table, current, expected, batch_id)
        if (
            commit_id is not None
            or table.chain.files_read - files_read <= _MAX_FILES_READ
            or openings == _MAX_OPENINGS
        ):
            return snapshot, current, commit_id


def find_commit(
    table: PositionedTable, current: StreamPositions, expected: StreamPositions, batch_id: int
) -> int | None:
    """Return the commit id of a batch that was committed since *expected*; None if it was not.

    Raises:
        CommitUnknown: The chain of positions is broken.
    """
    return next(
        (
            commit.commit_id
            for commit in commits_since(table, current, expected, batch_id)
            if commit.batch_id == batch_id
        ),
        None,
    )


def commits_since(
    table: PositionedTable, current: StreamPositions, expected: StreamPositions, batch_id: int
) -> Iterator[CommitRef]:
    """Yield the commits since *expected*, newest first.

    Raises:
        CommitUnknown: The chain of positions is broken.
    """
    commits = itertools.chain(
        [CommitRef(current.commit_id, current.batch_id)], table.chain.commits_before(current)
    )
    try:
        for commit in commits:
            if commit.commit_id == expected.commit_id:
                return
            yield commit
    except PositionsUnreadable as error:
        raise CommitUnknown(
            table.uri,
            f"it is unknown whether batch {batch_id} was committed: {error}. "
            "Search the table for rows of this batch_id before the next run",
        ) from error
    raise CommitUnknown(
        table.uri,
        f"the positions from which batch {batch_id} started (commit {expected.commit_id}) do not precede the "
        "current ones. The table may have been restored: examine its history before the next run",
    )


def positions_since(
    table: PositionedTable,
    snapshot: TableSnapshot,
    current: StreamPositions,
    expected: StreamPositions,
    batch_id: int,
) -> Iterator[StreamPositions]:
    """Yield the positions of the commits since *expected*, newest first, then *expected*.

    It ends before the first positions file that cannot be read. Raises the errors of `commits_since`.
    """
    yield current
    for commit in commits_since(table, current, expected, batch_id):
        if commit.commit_id != current.commit_id:
            try:
                yield snapshot.positions_at(commit.commit_id)
            except PositionsUnreadable:  # needed only to name the run that moved a shard
                return
    yield expected
