"""What a derived table would lose if it started again: rows that the source no longer has.

Each commit of a derived table records how many rows of its source have been consumed. A source that keeps its
rows should still have all of them, but for those that a seek back deleted, since they are read again, and
those that a replay has added again since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

from kinesis_assets.derive.cursor import Selection
from kinesis_assets.derive.derived_table import REBUILD_COMMAND
from kinesis_assets.derive.files import files_of
from kinesis_assets.derive.policy import DeletedRows, Deletion
from kinesis_assets.errors import SourceCommitsMissing, SourceRowsDeleted, TableUnreachable

if TYPE_CHECKING:
    from kinesis_assets.derive.derived_table import DerivedCommit, DerivedSnapshot
    from kinesis_assets.derive.new_rows import NewRows
    from kinesis_assets.derive.source import Source
    from kinesis_assets.errors import TableError


def consumed_after(source: Source, rows: NewRows, before: DerivedCommit | None) -> int | None:
    """Return the number of rows of a source that are consumed after a step, see `DerivedCommit`.

    Args:
        source: The source.
        rows: The rows that the step consumes.
        before: The commit before the step; None if there is none.
    """
    consumed = 0 if before is None else before.consumed
    if consumed is None or not source.keeps_rows:
        return None
    return consumed + (_count(source, rows.selection) if rows.files else 0)


def restored_rows(source: Source, rows: NewRows, newest: DerivedCommit | None) -> list[DeletedRows]:
    """Return the rows that a restore of a source has brought back and that a table has not consumed.

    They are in batches that the table's position has passed, so no step would consume them. They are found
    by their number: those that have expired or were deleted since they were consumed can hide as many.

    Args:
        source: The source.
        rows: The rows of the next step.
        newest: The newest commit of the table; None if there is none.

    Raises:
        TableUnreachable: The rows cannot be counted at present.
    """
    if newest is None or newest.consumed is None or not source.was_restored(newest.cursor, rows.cursor):
        return []
    later = frozenset(commit.batch_id for commit in source.commits_since(newest.cursor))
    present = _count(source, Selection(without=later, through=newest.cursor.history))
    found = present - newest.consumed
    return [DeletedRows(deletion=Deletion.ADDED_AGAIN, rows=found)] if found > 0 else []


def lost_rows(source: Source, newest: DerivedCommit | None) -> int | None:
    """Return how many rows a table has consumed that its source no longer has; None if it is unknown.

    Of a derived source they are not counted: what it no longer has is not part of it, unless it has forgotten
    records that it had set apart.

    Args:
        source: The source.
        newest: The newest commit of the table; None if there is none.

    Raises:
        TableUnreachable: The rows cannot be counted at present.
        TableUnsuitable: Another program has added rows to the source.
    """
    if newest is None:
        return 0
    if not source.keeps_rows:
        return None if source.forgotten else 0
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
    deleted_unread = sum(commit.rows or 0 for commit in commits) - _count(source, Selection(only=later))
    back = sum(commit.rows or 0 for commit in commits if commit.amends) + source.rewound_rows(commits)
    return max(0, newest.consumed - present - max(0, back - deleted_unread))


def refuse_loss(snapshot: DerivedSnapshot, source: Source, cause: TableError) -> None:
    """Check that a table can start again without losing rows that its source no longer has.

    Args:
        snapshot: The newest version of the table.
        source: Its source.
        cause: The error because of which it would start again.

    Raises:
        SourceRowsDeleted: It would lose some, or that is unknown.
        TableError: What `lost_rows` raises.
    """
    lost = lost_rows(source, snapshot.newest) if files_of(snapshot.delta) else 0
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
    query = f"SELECT count(*) AS found FROM rows WHERE {selection.condition(source.batch_column)}"  # noqa: S608
    try:
        result = QueryBuilder().register("rows", source.delta).execute(query).read_all()
    except (DeltaError, OSError) as error:
        raise TableUnreachable(source.uri, f"its rows cannot be counted: {error}") from None
    return int(result["found"][0].as_py())
