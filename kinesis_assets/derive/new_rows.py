"""The rows of a table that a consumer has not consumed yet, for any engine; or why it must start again.

The checks ask between runs how far a derived table is behind, and what its next run does. So this starts no
Spark, and the backlog is found without reading a row, from a bounded number of commits. It costs about the
same however far the table is behind.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kinesis_assets.derive.commit_entry import Kind
from kinesis_assets.derive.cursor import Selection
from kinesis_assets.derive.derived_table import refuse_rewritten
from kinesis_assets.derive.losses import (
    deleted_error,
    deleted_rows,
    missing_rows,
    refuse_deleted,
    refuse_loss,
    restored_rows,
    rows_added_again,
)
from kinesis_assets.derive.policy import MAX_BYTES, DeletedRows, Deletion, OnDeleted
from kinesis_assets.derive.read import read
from kinesis_assets.derive.row_order import RowOrder, end_between_commits
from kinesis_assets.errors import SourceCommitsMissing, SourceRowsMissing, TableError, TableRewritten
from kinesis_assets.table.commit_ids import time_of_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.derive.cursor import BatchRecords, Cursor
    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.derive.losses import Missing
    from kinesis_assets.derive.source import RankedFile, Source, SourceCommit
    from kinesis_assets.table.data_file import TableFile


Recorded = Callable[["Cursor"], "Sequence[int]"]
"""Returns the batch ids of the commits that are recorded, oldest first, for a position in the history."""


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows of one version of a table.

    Attributes:
        source: The version of the table.
        files: The files with these rows. Some may have other rows too.
        selection: Which rows of the files.
        order: The order of the rows, and the column with the batch id to which the selection applies.
        cursor: The position after these rows.
        commits: The number of commits that are consumed with them; 0 while rows of the history are.
        more: Whether the version has rows after these.
        replaced: Files with rows that the same commits replaced or deleted. They are not part of the table.
        lost: The rows of the source that were deleted since the last position, or before they were read.
        again: Those of the rows that were deleted and added again, and may have been read before the last
            position. `without_again` leaves them out.
    """

    source: Source = field(repr=False)
    files: Sequence[TableFile]
    selection: Selection
    order: RowOrder
    cursor: Cursor
    more: bool
    commits: int = 0
    replaced: Sequence[TableFile] = ()
    lost: Sequence[DeletedRows] = ()
    again: Sequence[BatchRecords] = ()

    @property
    def table(self) -> str:
        """The URI of the table's folder."""
        return self.source.folder.uri

    @property
    def version(self) -> int:
        """The number of the version."""
        return self.source.snapshot.version

    @property
    def deleted(self) -> list[str]:
        """Which rows of the source were deleted, each as a clause of a message."""
        return [str(each) for each in self.lost]

    def without_again(self) -> NewRows:
        """Return the rows without those that may have been read before."""
        selection = msgspec.structs.replace(self.selection, without_records=tuple(self.again))
        return replace(self, selection=selection, again=())

    @property
    def condition(self) -> str:
        """The selection as a condition in SQL."""
        return self.selection.condition(self.order.batch_column)

    @property
    def bytes(self) -> int:
        """The size of the files in bytes, together."""
        return sum(file.size for file in self.files)

    def partitions(self, column: str) -> list[Any]:
        """Return the values of a partition column in these files, each once, in order."""
        values = {file.partition[column] for file in self.files}
        return sorted(values, key=lambda value: (value is None, value))

    def read(
        self, spark: SparkSession, *, columns: Sequence[str] | None = None, in_order: bool = False
    ) -> DataFrame:
        """Return the rows as a DataFrame with the columns that the table has in this version.

        Spark's tasks open the files themselves. A column that a file does not have is null.

        Args:
            spark: The session. Its executors need this package.
            columns: The columns that are read; None for all.
            in_order: Add the column of the order of the rows, see `derive.read`.
        """
        return read(
            spark,
            self.source.snapshot,
            self.files,
            schema=self.source.schema,
            columns=columns,
            selection=self.selection,
            batch_column=self.order.batch_column,
            order=self.order if in_order else None,
        )


def rows_since(
    source: Source, since: Cursor | None, max_bytes: float, recorded: Recorded | None = None
) -> NewRows:
    """Return the next rows of an open source after a position; without one, those that it has now, in steps.

    Args:
        since: The `cursor` of the last rows; None for the first.
        max_bytes: The size of files in bytes after which no further commit is included.
        recorded: Lets steps end between two commits, for a consumer of which the order of rows matters.

    Raises:
        TableOfAnotherSource: The position belongs to another table.
        SourceCommitsMissing: The commits since the position are no longer recorded.
        SourceRowsMissing: The table has fewer rows than its commits added, and no amendment says why.
        TableUnsuitable: The table has more rows than its commits added.
    """
    start = source.start if since is None else source.accepted(since)
    commits = source.commits_since(start)
    if start.history is not None:
        return _history(source, start, start.history, commits, max_bytes, recorded=recorded)
    rows = _increment(source, start, commits, max_bytes)
    return rows if since is not None else replace(rows, lost=[*source.forgotten, *rows.lost])


def _history(
    source: Source,
    start: Cursor,
    above: int,
    commits: Sequence[SourceCommit],
    max_bytes: float,
    *,
    recorded: Recorded | None,
) -> NewRows:
    """Return rows that the source had when its consumer started, in the order of their batch ids.

    A restore may bring back rows of the batches that are consumed, or others with the same records.
    """
    was_restored = above >= 0 and source.was_restored(start, source.end)
    selection = Selection(without=frozenset(commit.batch_id for commit in commits), above=above)
    files = source.ranked_files(selection)
    through = _limit(files, max_bytes)
    if through is not None and recorded is not None:
        batch_ids = [each for each in recorded(start) if each not in selection.without]
        through = _unless_last(files, end_between_commits(through, batch_ids))
    selection = msgspec.structs.replace(selection, through=through)
    return NewRows(
        source=source,
        files=[each.file for each in files if selection.may_include(each.first, each.last)],
        selection=selection,
        order=RowOrder(source.batch_column, None, source.order_columns),
        cursor=msgspec.structs.replace(start, history=through, unread=_first_date(source, files, through)),
        more=through is not None or bool(commits),
        lost=[
            *([DeletedRows(deletion=Deletion.ADDED_AGAIN)] if was_restored else []),
            *(
                each
                for commit in commits
                if commit.rewound or _has_unread(start, commit)
                for each in commit.deleted
            ),
            *_expired(commits, selection),
        ],
    )


def _has_unread(start: Cursor, commit: SourceCommit) -> bool:
    """Return whether the rows that expired may include some of the history that were not consumed before."""
    return commit.floor is not None and (start.unread is None or commit.floor > start.unread)


def _expired(commits: Sequence[SourceCommit], selection: Selection) -> list[DeletedRows]:
    """Return the rows of selected batches that a derived source has deleted because of their age since.

    Those of several batches are lost to the step that takes the last of them.
    """
    last = (
        (each, each.batch_id if each.through is None else each.through)
        for commit in commits
        for each in commit.expired
    )
    return [each for each, batch_id in last if batch_id is not None and selection.includes(batch_id)]


def _first_date(source: Source, files: Sequence[RankedFile], through: int | None) -> date | None:
    """Return the first date of the rows in files that are left after a step; None if it is unknown."""
    if source.date_column is None or through is None:
        return None
    left = [each for each in files if each.last is None or each.last > through]
    dates = {each.file.partition[source.date_column] for each in left}
    return None if None in dates else min(dates, default=None)


def _limit(files: Sequence[RankedFile], max_bytes: float) -> int | None:
    """Return the batch id up to which rows are read in this step; None for all.

    Files whose batches are unknown may have rows of any, so those that are left of them are read in one step.
    """
    total = 0
    for each in sorted(files, key=lambda each: (each.last is None, each.last)):
        total += each.file.size
        if total >= max_bytes:
            return None if each.last is None else _unless_last(files, each.last)
    return None


def _unless_last(files: Sequence[RankedFile], batch_id: int) -> int | None:
    """Return a batch id if there may be rows with a greater one; None otherwise."""
    return batch_id if any(each.last is None or each.last > batch_id for each in files) else None


def _increment(source: Source, start: Cursor, commits: Sequence[SourceCommit], max_bytes: float) -> NewRows:
    """Return the rows of the next commits."""
    all_files = source.files_of(commits)
    taken = _taken(commits, all_files, max_bytes)
    while True:
        selection = Selection(only=frozenset(commit.batch_id for commit in taken))
        files = [each for each in all_files if selection.may_include(each.first, each.last)]
        missing = missing_rows(source, commits, taken, files)
        needed = _through_added_again(commits, missing)
        if needed <= len(taken):
            break
        taken = list(commits[:needed])
    landed = [commit.id for commit in taken if not commit.amends]
    amended = [commit.id for commit in taken if commit.amends]
    return NewRows(
        source=source,
        files=[each.file for each in files],
        selection=selection,
        order=RowOrder(source.batch_column, tuple(commit.batch_id for commit in taken), source.order_columns),
        cursor=msgspec.structs.replace(
            start,
            commit=landed[-1] if landed else start.commit,
            amendment=amended[-1] if amended else start.amendment,
        ),
        more=len(taken) < len(commits),
        commits=len(taken),
        replaced=[file.as_data_file() for commit in taken for file in commit.replaced],
        lost=[
            *(each for commit in taken if commit.rewound for each in commit.deleted),
            *deleted_rows(source, commits, missing),
            *_expired(commits, selection),
        ],
        again=source.added_again(start, taken),
    )


def _through_added_again(commits: Sequence[SourceCommit], missing: Sequence[Missing]) -> int:
    """Return how many of the first commits include the rows that are missing and were added again.

    They are consumed in one step with the commits that lack them. Afterwards, the position could not tell
    them from those that were consumed.
    """
    batch_ids = {batch_id for each in missing for batch_id in each.added_again}
    return max((n for n, commit in enumerate(commits, 1) if commit.batch_id in batch_ids), default=0)


def _taken(
    commits: Sequence[SourceCommit], files: Sequence[RankedFile], max_bytes: float
) -> list[SourceCommit]:
    """Return the first commits, up to the one with which their files reach a size.

    A compacted file has rows of several commits. Each of them gets an equal part of its size. A commit that
    is consumed alone is the first one or none of them. The commits of one batch, such as both of a seek, are
    taken together.
    """
    batch_ids = sorted({commit.batch_id for commit in commits})
    sizes: dict[int, float] = dict.fromkeys(batch_ids, 0)
    for each in files:
        start = 0 if each.first is None else bisect_left(batch_ids, each.first)
        end = len(batch_ids) if each.last is None else bisect_right(batch_ids, each.last)
        for batch_id in batch_ids[start:end]:
            sizes[batch_id] += each.file.size / (end - start)
    totals = accumulate(sizes.pop(commit.batch_id, 0) for commit in commits)
    below = sum(1 for total in totals if total < max_bytes)
    alone = next((number for number, commit in enumerate(commits) if commit.is_alone), below + 1)
    end = min(below + 1, max(alone, 1))
    while end < len(commits) and commits[end].batch_id == commits[end - 1].batch_id:
        end += 1
    return list(commits[:end])


class Restart(NamedTuple):
    """Why a table must start again.

    Attributes:
        lost: The rows of the source that were deleted, if that is the reason.
    """

    cause: TableError
    lost: tuple[DeletedRows, ...] = ()


def next_rows(
    table: str,
    present: DerivedSnapshot | None,
    source: Source,
    *,
    on_deleted: OnDeleted,
    max_bytes: float,
    is_rollup: bool,
    recorded: Recorded | None = None,
) -> NewRows | Restart:
    """Return the next rows that a table consumes; or why it must start again instead.

    Raises:
        SourceRowsDeleted: Rows of the source were deleted, and the policy does not accept that.
        TableError: The source or the table cannot be used, see `rows_since` and `refuse_rewritten`.
    """
    newest = None if present is None else present.newest
    try:
        if present is not None:
            refuse_rewritten(present)
        rows = rows_since(source, None if newest is None else newest.cursor, max_bytes, recorded)
    except (SourceCommitsMissing, SourceRowsMissing, TableRewritten) as error:
        if on_deleted is not OnDeleted.REBUILD:
            raise
        return Restart(error)
    if is_rollup:
        rows = replace(rows, again=())  # groups are computed from all rows that the source has now
    again = [*rows_added_again(source, rows.again), *restored_rows(source, newest, rows.cursor)]
    rows = replace(rows.without_again(), lost=[*rows.lost, *again])
    if rows.lost and newest is not None and on_deleted is OnDeleted.REBUILD:
        lost = tuple(rows.lost)
        return Restart(deleted_error(table, source, lost), lost)
    refuse_deleted(table, source, rows.lost, on_deleted)
    return rows


def refuse_next_run(present: DerivedSnapshot, source: Source, on_deleted: OnDeleted) -> TableError | None:
    """Check that the next run of a table is not refused because of its source, or of what replaced its rows.

    A roll-up also needs the first rows of its groups, which is not checked.

    Returns:
        Why the run starts the table again; None if it continues.

    Raises what the run raises, see `next_rows` and `refuse_loss`.
    """
    definition = None if present.newest is None else present.newest.definition
    rows = next_rows(
        present.table.uri,
        present,
        source,
        on_deleted=on_deleted,
        max_bytes=MAX_BYTES,
        is_rollup=definition is not None and definition.kind is Kind.ROLLUP,
    )
    if not isinstance(rows, Restart):
        return None
    refuse_loss(present, source, rows.cause)
    return rows.cause


MAX_COMMITS = 200


@dataclass(frozen=True, slots=True)
class Backlog:
    """The commits of a source that are not consumed, from the first one with rows on.

    Attributes:
        since: No commit with rows that is not consumed was made before this time, in seconds since the epoch;
            None if there is none.
        commits: Number of commits; None if it is unknown, because rows are left that the source had when its
            consumer started.
        has_more: Whether there may be more commits, which were not read.
        deleted: Which rows of the source were deleted since the cursor because positions were set back, each
            as a clause of a message.
    """

    since: float | None
    commits: int | None = 0
    has_more: bool = False
    deleted: tuple[str, ...] = ()


def backlog_of(source: Source, cursor: Cursor | None, *, max_commits: int = MAX_COMMITS) -> Backlog:
    """Return what a consumer has not consumed of a version of its source.

    Args:
        source: The version. The consumer's cursor must not be newer.

    Raises:
        SourceCommitsMissing: The commits since the position are no longer recorded.
        TableOfAnotherSource: The position belongs to another table.
        TableUnreachable: A file cannot be read at present.
    """
    created = source.snapshot.created
    if cursor is None:
        return Backlog(created, None) if source.snapshot.data_files() else Backlog(None)
    cursor = source.accepted(cursor)
    commits = source.commits_since(cursor, max_commits)
    deleted = tuple(str(each) for commit in commits if commit.rewound for each in commit.deleted)
    has_more = sum(not commit.amends for commit in commits) >= max_commits
    if cursor.history is not None:
        since = created if cursor.history < 0 else time_of_id(cursor.history)
        return Backlog(since, None, has_more, deleted)
    if has_more:
        # The first commit that is not consumed came after the last one that is.
        since = created if cursor.commit is None else time_of_id(cursor.commit)
        return Backlog(since, len(commits), has_more, deleted)
    for number, commit in enumerate(commits):
        (counted,) = source.with_rows([commit])
        if counted.rows or counted.replaced:  # others, such as one of an idle shard, may be left
            return Backlog(time_of_id(commit.id), len(commits) - number, deleted=deleted)
    return Backlog(None, deleted=deleted)


def first_unconsumed_date(source: Source, cursor: Cursor) -> date | None:
    """Return the first arrival date of the rows of a raw table that a consumer may not have consumed.

    Returns:
        The date; None if all rows are consumed.

    Raises the errors of `backlog_of`, and `TableUnsuitable` for rows without a batch id.
    """
    commits = source.commits_since(source.accepted(cursor))
    files = source.files_of(commits)
    if cursor.history is not None:
        files += source.ranked_files(Selection(above=cursor.history))
    return min((each.file.partition[str(source.date_column)] for each in files), default=None)
