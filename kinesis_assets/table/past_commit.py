"""Rows behind the positions and an entry of the past in one commit.

As in `commit`, each try looks at the table afresh and commits through that same snapshot. Nothing may have
touched the attempt's rows since it looked: another replay or a rewind may have changed what it compared with.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kinesis_assets.errors import CommitUnknown, PastChanged, PositionsUnreadable
from kinesis_assets.table.commit import check_files, until_told
from kinesis_assets.table.past import FORMAT, Past
from kinesis_assets.table.tokens import draw_token

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.delta import PositionedTable, TableSnapshot
    from kinesis_assets.table.files import DataFile
    from kinesis_assets.table.positions import Landed


def fill_in(
    table: PositionedTable,
    *,
    identity: StreamIdentity,
    past: Past | None,
    not_before: datetime,
    batch_id: int,
    files: Sequence[DataFile],
    filled: Mapping[str, Landed],
    by: str | None = None,
) -> int | None:
    """Commit rows that the table lacked behind its positions.

    Args:
        table: The table.
        identity: Which stream.
        past: The past as it stood when the attempt looked at the table's rows; None if there was none.
        not_before: No row of its files arrived before.
        batch_id: The attempt's; every row of its files carries it.
        files: What it writes.
        filled: What these rows are, by shard.
        by: Who fills them in.

    Returns:
        The table's version that holds them; None if it has left the log's newest hundred.

    Raises:
        PastChanged: The past is another one by now; nothing was committed.
        AttemptExpired: The attempt is too old.
        DataFileInvalid: A file is not there or not with its rows.
        CommitFailed: The tries are used up.
        CommitUnknown: The chain of the past is broken, or the table could not be looked at after a try.
    """

    def look(*, and_try: bool) -> tuple[int | None] | None:
        snapshot = table.snapshot_for_rows() if files and and_try else table.snapshot()
        current = snapshot.past(identity)
        token = _landed(table, snapshot, current, past, batch_id)
        if token is not None:
            return (snapshot.version_of(token),)
        if not _same_rows(snapshot, current, past, not_before):
            other = f"batch {current.batch_id}" if current else "a restore"
            raise PastChanged(
                table.uri,
                f"{other} changed rows behind the positions "
                f"while batch {batch_id} was reading; nothing of this batch was committed, run again",
            )
        if and_try:
            check_files(table, batch_id, files)
            following = Past(
                format=FORMAT,
                token=draw_token(),
                previous=_token(current),
                batch_id=batch_id,
                at=datetime.now(UTC),
                by=by,
                floor=None if current is None else current.floor,
                filled=dict(filled),
            )
            snapshot.commit(files, identity=identity, past=following)
        return None

    (version,) = until_told(table, look)
    return version


def _same_rows(
    snapshot: TableSnapshot, current: Past | None, past: Past | None, not_before: datetime
) -> bool:
    """Whether nothing since then touched rows that arrived from a time on; the floor may rise up to it."""
    link = current
    while _token(link) != _token(past):
        if link is None or link.filled or link.rewound or (link.floor and link.floor > not_before.date()):
            return False
        link = None if link.previous is None else snapshot.past_at(link.previous)
    return True


def _token(past: Past | None) -> int | None:
    return None if past is None else past.token


def _landed(
    table: PositionedTable,
    snapshot: TableSnapshot,
    current: Past | None,
    expected: Past | None,
    batch_id: int,
) -> int | None:
    """The token under which a batch landed since *expected*, if it did."""
    link = current
    while _token(link) != _token(expected) and link is not None:
        if link.batch_id == batch_id:
            return link.token
        try:
            link = None if link.previous is None else snapshot.past_at(link.previous)
        except PositionsUnreadable as error:
            raise CommitUnknown(
                table.uri,
                f"whether batch {batch_id} landed cannot be told: {error}. "
                "Look for rows of that batch_id before the next replay",
            ) from error
    return None
