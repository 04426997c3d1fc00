"""The rows of a source that were deleted or added again, and what a table that consumed them loses by it.

A source has as many rows of each commit as the commit recorded, unless an amendment says why.

Each commit of a derived table records how many rows of its source have been consumed. A source that keeps its
rows should still have all of them, but for those that a seek back deleted, since they are read again, and
those that a replay has added again since.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC
from math import inf
from typing import TYPE_CHECKING

import pyarrow as pa

from kinesis_assets.derive.commit_entry import REBUILD_COMMAND
from kinesis_assets.derive.cursor import RECORD_COLUMNS, BatchRecords, Selection, are_among
from kinesis_assets.derive.policy import DeletedRows, Deletion, OnDeleted
from kinesis_assets.derive.read import rows_of_file
from kinesis_assets.errors import (
    SourceCommitsMissing,
    SourceRowsDeleted,
    SourceRowsMissing,
    TableUnreachable,
    TableUnsuitable,
)
from kinesis_assets.table.data_file import TABLE_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date

    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.derive.cursor import Cursor
    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.derive.source import RankedFile, Source, SourceCommit
    from kinesis_assets.errors import TableError


_COUNTED_ROWS = 1 << 16
"""How many rows are counted at once."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Rows of a shard that a batch lacks.

    Attributes:
        commit: The commit that added the batch.
        added_again: How many of them later amendments added again, by their batch id.
    """

    commit: SourceCommit
    shard_id: str
    rows: int
    added_again: Mapping[int, int]


def missing_rows(
    source: Source,
    commits: Sequence[SourceCommit],
    taken: Sequence[SourceCommit],
    files: Sequence[RankedFile],
) -> list[Missing]:
    """Compare the rows of commits with the numbers that the commits recorded.

    Args:
        commits: Its commits since the consumer's position.
        taken: The first of them, which the consumer consumes.

    Raises:
        TableUnsuitable: There are more rows.
    """
    if not source.keeps_rows:
        return []
    found = _by_batch(source, taken, files)
    missing: list[Missing] = []
    for commit in source.with_rows(taken):
        rows, added = found.get(commit.batch_id, 0), commit.rows or 0
        if rows > added:
            raise TableUnsuitable(
                source.uri,
                f"batch {commit.batch_id} added {added} rows, but {rows} are in the table: another program "
                "has added rows to it. Nothing was changed. Examine the table with `kinesis-assets doctor "
                "--rows`",
            )
        if rows < added:
            missing += _missing(source, commit, commits)
    return missing


def _missing(source: Source, commit: SourceCommit, commits: Sequence[SourceCommit]) -> Iterator[Missing]:
    """Yield the rows that a batch lacks.

    An amendment adds only rows that the table lacks. So each row that one adds in a range of the batch was
    missing from it.
    """
    later = [each.batch_id for each in commits if each.amends and each.rows and each.id > commit.id]
    for shard_id, range_ in commit.ranges.items():
        found = _records(source, [BatchRecords(commit.batch_id, shard_id, *range_.places)]).total()
        if found < range_.rows:
            again = _records(source, [BatchRecords(batch_id, shard_id, *range_.places) for batch_id in later])
            yield Missing(commit, shard_id, range_.rows - found, again)


def deleted_rows(
    source: Source, commits: Sequence[SourceCommit], missing: Sequence[Missing]
) -> list[DeletedRows]:
    """Return the rows that are missing, and that no later amendment has added again, by batch.

    Raises:
        SourceRowsMissing: No amendment explains it.
    """
    floor = max((commit.floor for commit in commits if commit.floor is not None), default=None)
    rewound = {shard_id for commit in commits for shard_id in commit.rewound}
    lost: Counter[tuple[int, Deletion]] = Counter()
    for each in missing:
        rows = each.rows - sum(each.added_again.values())
        if not rows:
            continue
        expired = floor is not None and _may_have_expired(source, each, floor)
        if not expired and each.shard_id not in rewound:
            raise SourceRowsMissing(
                source.uri,
                f"batch {each.commit.batch_id} lacks {rows} of the {each.commit.ranges[each.shard_id].rows} "
                f"rows of {each.shard_id} that it added, and no amendment says why. Nothing was changed. Add "
                "them again with `kinesis-assets replay`. If it adds none, because the stream no longer has "
                f"them or a restore has moved them to another batch, run {REBUILD_COMMAND} for the table "
                "that is derived from this one",
            )
        lost[each.commit.batch_id, Deletion.EXPIRED if expired else Deletion.REWOUND] += rows
    return [
        DeletedRows(
            deletion=deletion,
            rows=rows,
            batch_id=batch_id,
            before=floor if deletion is Deletion.EXPIRED else None,
        )
        for (batch_id, deletion), rows in lost.items()
    ]


def _may_have_expired(source: Source, missing: Missing, floor: date) -> bool:
    """Return whether the missing rows may have arrived before a day.

    The records of a shard arrive in order. So they arrived after it was read before, and the first ones of
    a batch expire first.
    """
    commit, shard_id = missing.commit, missing.shard_id
    after, through = source.arrivals(commit, shard_id)
    if after is not None and after.astimezone(UTC).date() >= floor:
        return False
    range_ = commit.ranges[shard_id]
    if missing.rows == range_.rows:
        return through is None or through.astimezone(UTC).date() < floor

    def has(number: int) -> bool:
        record = BatchRecords(commit.batch_id, shard_id, (number, -1), (number, inf))
        return bool(_records(source, [record]))

    first, last = range_.numbers
    return has(last) and not has(first)


def rows_added_again(source: Source, again: Sequence[BatchRecords]) -> list[DeletedRows]:
    """Return the number of records that were added again, for each batch."""
    counts = _records(source, again)
    return [
        DeletedRows(
            deletion=Deletion.ADDED_AGAIN,
            rows=rows,
            batch_id=batch_id,
            shards=tuple(str(each) for each in again if each.batch_id == batch_id),
        )
        for batch_id, rows in sorted(counts.items())
    ]


def _by_batch(
    source: Source, commits: Sequence[SourceCommit], files: Sequence[RankedFile]
) -> Mapping[int, int]:
    if all(each.rows_of_one_batch is not None for each in files):
        counted: Counter[int] = Counter()
        for each in files:
            counted[each.first or 0] += each.rows_of_one_batch or 0
        return counted
    return _counted(source, Selection(only=frozenset(commit.batch_id for commit in commits)))


def _records(source: Source, records: Sequence[BatchRecords]) -> Counter[int]:
    """Return the number of rows of a raw table that are some records, by batch id."""
    batch_ids = frozenset(each.batch_id for each in records)
    return _counted(source, Selection(only=batch_ids), records) if records else Counter()


def _counted(
    source: Source, selection: Selection, records: Sequence[BatchRecords] | None = None
) -> Counter[int]:
    """Return the number of selected rows of a raw table, by batch id.

    Args:
        records: Count only the rows that are one of these.

    Raises:
        TableUnreachable: The rows cannot be read.
    """
    column = source.batch_column
    names = [column] if records is None else [column, *RECORD_COLUMNS]
    schema = pa.schema([TABLE_SCHEMA.field(name) for name in names])
    filesystem = source.folder.open()
    found: Counter[int] = Counter()
    try:
        for file in (each.file for each in source.ranked_files(selection)):
            for rows in rows_of_file(filesystem, file, schema, selection, column, batch_rows=_COUNTED_ROWS):
                batch_ids = rows[column]
                if records is not None:
                    batch_ids = batch_ids.filter(are_among(rows, records))
                found.update(
                    {each["values"]: each["counts"] for each in batch_ids.value_counts().to_pylist()}
                )
    except (OSError, pa.ArrowException) as error:
        raise TableUnreachable(source.uri, f"its rows cannot be read: {error}") from None
    return found


def consumed_after(source: Source, selection: Selection, before: DerivedCommit | None) -> int | None:
    """Return the number of rows of a source that are consumed after a step, see `DerivedCommit`."""
    consumed = 0 if before is None else before.consumed
    if consumed is None or not source.keeps_rows:
        return None
    return consumed + _count(source, selection)


def restored_rows(source: Source, newest: DerivedCommit | None, through: Cursor) -> list[DeletedRows]:
    """Return the rows that a restore of a source has brought back and that a table has not consumed.

    They are in batches that the table's position has passed, so no step would consume them. They are found
    by their number: those that have expired or were deleted since they were consumed can hide as many.

    Args:
        through: The position after the next step.
    """
    if newest is None or newest.consumed is None or not source.was_restored(newest.cursor, through):
        return []
    later = frozenset(commit.batch_id for commit in source.commits_since(newest.cursor))
    present = _count(source, Selection(without=later, through=newest.cursor.history))
    found = present - newest.consumed
    return [DeletedRows(deletion=Deletion.ADDED_AGAIN, rows=found)] if found > 0 else []


def lost_rows(source: Source, newest: DerivedCommit | None) -> int | None:
    """Return how many rows a table has consumed that its source no longer has; None if it is unknown.

    Of a derived source they are not counted: what it no longer has is not part of it, unless rows have
    expired, or it has forgotten records that it had separated.

    Raises:
        TableUnsuitable: Another program has added rows to the source.
    """
    if newest is None:
        return 0
    if not source.keeps_rows:
        return None if source.forgotten or source.expired_rows else 0
    if newest.consumed is None:
        return None
    cursor = newest.cursor
    try:
        commits = source.with_rows(source.commits_since(cursor))
    except SourceCommitsMissing:
        # Ids are drawn from the clock, so later batches have greater ones, but for those of runs at once.
        through = max(cursor.commit or 0, cursor.amendment or 0) if cursor.history is None else cursor.history
        return max(0, newest.consumed - _count(source, Selection(through=through)))
    later = frozenset(commit.batch_id for commit in commits)
    present = _count(source, Selection(without=later, through=cursor.history))
    landed = [commit for commit in commits if not commit.amends]
    unread = Selection(only=frozenset(commit.batch_id for commit in landed))
    deleted_unread = sum(commit.rows or 0 for commit in landed) - _count(source, unread)
    again = rows_added_again(source, source.added_again(cursor, commits))
    back = sum(each.rows or 0 for each in again) + source.rewound_rows(commits)
    return max(0, newest.consumed - present - max(0, back - deleted_unread))


def refuse_loss(snapshot: DerivedSnapshot, source: Source, cause: TableError) -> None:
    """Check that a table can start again without losing rows that its source no longer has.

    Args:
        cause: The error because of which it would start again.

    Raises:
        SourceRowsDeleted: It would lose some, or that is unknown.
    """
    lost = lost_rows(source, snapshot.newest) if snapshot.data_files() else 0
    if lost == 0:
        return
    instead = "Set on_deleted to ignore to keep it, or r" if isinstance(cause, SourceRowsDeleted) else "R"
    raise SourceRowsDeleted(
        snapshot.table.uri,
        f"{cause.reason.partition('. ')[0]}. With on_deleted: rebuild it would start again, but the source "
        f"{source.uri} no longer has {'an unknown number' if lost is None else lost} of the rows that it has "
        "consumed, and what was derived from them would be lost. Nothing was changed. "
        f"{instead}un {REBUILD_COMMAND} to start it again",
    ) from cause


def _count(source: Source, selection: Selection) -> int:
    """Return the number of rows that a source has of some batches; from statistics, if they suffice."""
    files = source.ranked_files(selection)
    counts = [each.file.rows for each in files if selection.includes_all(each.first, each.last)]
    if len(counts) == len(files) and None not in counts:
        return sum(count or 0 for count in counts)
    return sum(_counted(source, selection).values())


def refuse_deleted(table: str, source: Source, lost: Sequence[DeletedRows], on_deleted: OnDeleted) -> None:
    """Refuse that rows of the source were deleted, if the policy is to fail."""
    if lost and on_deleted is OnDeleted.FAIL:
        raise deleted_error(table, source, lost)


def deleted_error(table: str, source: Source, lost: Sequence[DeletedRows]) -> SourceRowsDeleted:
    """Return the error that rows of the source were deleted."""
    return SourceRowsDeleted(
        table,
        f"the source {source.uri} no longer has what this table consumed or was to consume: "
        f"{'; '.join(map(str, lost))}. Nothing was changed. Set on_deleted to ignore to keep what was "
        "derived from them, and to leave out rows that were added again; or to rebuild to start again; or "
        f"run {REBUILD_COMMAND} to start again",
    )
