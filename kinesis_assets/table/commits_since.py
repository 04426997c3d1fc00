"""The commits since an attempt's start, and whether its own is among them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from kinesis_assets.errors import CommitUnknown, PositionsUnreadable
from kinesis_assets.table.positions_file import CommitRef

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.table.positions import StreamPositions
    from kinesis_assets.table.table import PositionedTable, TableSnapshot

_FEW_FILES = 4
"""Positions files that may be read between opening the table and the try: more take so long that another
commit is likely to have landed meanwhile."""

_WALKS = 5
"""Times that the table is opened again for that: each time what is left to read is less."""


def caught_up(
    table: PositionedTable, expected: StreamPositions, batch_id: int, *, for_rows: bool
) -> tuple[TableSnapshot, StreamPositions, int | None]:
    """The table and its positions, just opened; and under which token a batch landed, if it did."""
    walks = 0
    while True:
        walks += 1
        snapshot = table.snapshot_for_rows() if for_rows else table.snapshot()
        files_read = table.chain.files_read
        current = snapshot.positions(expected.identity)
        if current is None:
            raise CommitUnknown(
                table.uri,
                f"the positions of {expected.identity.name} that batch {batch_id} began from are gone; "
                "was the table replaced? Look at its history before the next run",
            )
        token = landed_since(table, current, expected, batch_id)
        if token is not None or table.chain.files_read - files_read <= _FEW_FILES or walks == _WALKS:
            return snapshot, current, token


def landed_since(
    table: PositionedTable, current: StreamPositions, expected: StreamPositions, batch_id: int
) -> int | None:
    """The token under which a batch landed since *expected*, if it did.

    Raises:
        CommitUnknown: The chain of positions is broken.
    """
    return next(
        (
            commit.token
            for commit in commits_since(table, current, expected, batch_id)
            if commit.batch_id == batch_id
        ),
        None,
    )


def commits_since(
    table: PositionedTable, current: StreamPositions, expected: StreamPositions, batch_id: int
) -> Iterator[CommitRef]:
    """The commits since *expected*, newest first.

    Raises:
        CommitUnknown: The chain of positions is broken.
    """
    commits = itertools.chain(
        [CommitRef(current.token, current.batch_id)], table.chain.commits_before(current)
    )
    try:
        for commit in commits:
            if commit.token == expected.token:
                return
            yield commit
    except PositionsUnreadable as error:
        raise CommitUnknown(
            table.uri,
            f"it is not known whether batch {batch_id} landed: {error}. "
            "Look for rows of that batch_id before the next run",
        ) from error
    raise CommitUnknown(
        table.uri,
        f"the positions that batch {batch_id} began from (token {expected.token}) are not among "
        "those before the present ones; was the table restored? Look at its history before the next "
        "run",
    )


def links_since(
    table: PositionedTable,
    snapshot: TableSnapshot,
    current: StreamPositions,
    expected: StreamPositions,
    batch_id: int,
) -> Iterator[StreamPositions]:
    """The positions of the commits since *expected*, newest first, and those, as far as they can be read.

    Raises as `commits_since`.
    """
    yield current
    for commit in commits_since(table, current, expected, batch_id):
        if commit.token != current.token:
            try:
                yield snapshot.positions_at(commit.token)
            except PositionsUnreadable:  # they only name who moved a shard
                return
    yield expected
