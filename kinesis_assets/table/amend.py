"""Rows behind the positions and an entry of the past in one commit.

As in `commit`, each try looks at the table afresh and commits through that same snapshot. Nothing may have
touched the attempt's rows since it looked: another replay or a rewind may have changed what it compared with.
"""

from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from kinesis_assets.errors import CommitUnknown, PastChanged, PositionsUnreadable
from kinesis_assets.table.amendments import following
from kinesis_assets.table.commit import check_files
from kinesis_assets.table.commit_loop import until_told

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.amendments import ClearedGap, Past
    from kinesis_assets.table.data_file import DataFile
    from kinesis_assets.table.positions import Landed
    from kinesis_assets.table.table import PositionedTable, TableSnapshot


def fill_in(
    table: PositionedTable,
    *,
    identity: StreamIdentity,
    version: int,
    past: Past | None,
    not_before: datetime,
    batch_id: int,
    files: Sequence[DataFile],
    filled: Mapping[str, Landed],
    cleared: Mapping[str, Sequence[ClearedGap]] = MappingProxyType({}),
    by: str | None = None,
) -> int | None:
    """Commit rows that the table lacked behind its positions.

    A restore or an overwrite may have added or removed some of the same rows, without an entry of the past:
    the log's entries since the attempt's version are examined for one, and one that comes between that and
    the commit makes Delta refuse the commit.

    Args:
        table: The table.
        identity: Which stream.
        version: The table's version that the attempt compared with.
        past: The past as it stood when the attempt looked at the table's rows; None if there was none.
        not_before: No row of its files arrived before.
        batch_id: The attempt's; every row of its files carries it.
        files: What it writes.
        filled: What these rows are, by shard.
        cleared: The gaps that are filled with them, by shard.
        by: Who fills them in.

    Returns:
        The table's version that holds them; None if it has left the log's newest hundred.

    Raises:
        PastChanged: The past is another one by now, or the table was restored or overwritten; nothing was
            committed.
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
        other = _rewrite(table, snapshot, identity, current, version)
        if other is None and not _same_rows(snapshot, current, past, not_before):
            other = "another commit" if current is None else f"batch {current.batch_id}"
        if other is not None:
            raise PastChanged(
                table.uri,
                f"{other} changed rows behind the positions "
                f"while batch {batch_id} was reading; nothing of this batch was committed, run again",
            )
        if and_try:
            check_files(table, batch_id, files)
            change = following(
                current,
                batch_id=batch_id,
                at=datetime.now(UTC),
                by=by,
                filled=filled,
                cleared=_cleared(current, cleared),
            )
            snapshot.commit(files, identity=identity, past=change)
        return None

    (landed,) = until_told(table, look)
    return landed


def _rewrite(
    table: PositionedTable,
    snapshot: TableSnapshot,
    identity: StreamIdentity,
    current: Past | None,
    version: int,
) -> str | None:
    """The restore or overwrite since a version, or that there may have been one; None if there was none."""
    if current is not None and current.accepted is not None and current.accepted > version:
        return f"version {current.accepted}, which was accepted by hand,"
    # Up to the version that the newest positions were based on, runs have found none but what was accepted.
    positions = snapshot.positions(identity, or_older=True)
    examined = None if positions is None else positions.examined
    rewrites = table.rewrites.between(max(version, examined or 0), snapshot.version)
    if rewrites is None:
        return "a version that the log no longer has may have"
    return str(rewrites[0]) if rewrites else None


def _cleared(
    current: Past | None, cleared: Mapping[str, Sequence[ClearedGap]]
) -> dict[str, tuple[ClearedGap, ...]]:
    """The gaps that are filled by now, each once."""
    before = {} if current is None else current.cleared
    added = {
        shard_id: tuple(dict.fromkeys([*before.get(shard_id, ()), *gaps]))
        for shard_id, gaps in cleared.items()
    }
    return before | added


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
