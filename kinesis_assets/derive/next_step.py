"""What the next run of a derived table does with its source: it consumes rows, starts again, or is refused.

The checks ask the same question between runs. So this does not import Spark.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kinesis_assets.derive.derived_table import REBUILD_COMMAND, Kind, refuse_rewritten
from kinesis_assets.derive.losses import refuse_loss, restored_rows
from kinesis_assets.derive.new_rows import rows_added_again, rows_since
from kinesis_assets.derive.policy import MAX_BYTES, OnDeleted
from kinesis_assets.errors import (
    SourceCommitsMissing,
    SourceRowsDeleted,
    SourceRowsMissing,
    TableError,
    TableRewritten,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.derive.derived_table import DerivedCommit, DerivedSnapshot
    from kinesis_assets.derive.new_rows import NewRows
    from kinesis_assets.derive.policy import DeletedRows
    from kinesis_assets.derive.source import Source


class Restart(NamedTuple):
    """Why a table must start again.

    Attributes:
        cause: The error that says so.
        lost: The rows of the source that were deleted, if that is the reason.
    """

    cause: TableError
    lost: tuple[DeletedRows, ...] = ()


def next_rows(
    table: str,
    present: DerivedSnapshot | None,
    newest: DerivedCommit | None,
    source: Source,
    *,
    on_deleted: OnDeleted,
    max_bytes: float,
    is_rollup: bool,
) -> NewRows | Restart:
    """Return the next rows that a table consumes; or why it must start again instead.

    Args:
        table: The table's URI.
        present: Its newest version; None if it does not exist.
        newest: Its newest commit; None if it has none.
        source: The newest version of its source.
        on_deleted: What to do if rows of the source were deleted.
        max_bytes: The size of files in bytes after which no further commit is included.
        is_rollup: Whether it has aggregates of groups.

    Raises:
        SourceRowsDeleted: Rows of the source were deleted, and the policy does not accept that.
        TableError: The source or the table cannot be used, see `new_rows` and `refuse_rewritten`.
    """
    try:
        if present is not None:
            refuse_rewritten(present)
        rows = rows_since(source, None if newest is None else newest.cursor, max_bytes)
    except (SourceCommitsMissing, SourceRowsMissing, TableRewritten) as error:
        if on_deleted is not OnDeleted.REBUILD:
            raise
        return Restart(error)
    if is_rollup:
        rows = replace(rows, again=())  # groups are computed from all rows that the source has now
    again = [*rows_added_again(source, rows.again), *restored_rows(source, rows, newest)]
    rows = replace(rows.without_again(), lost=[*rows.lost, *again])
    if rows.lost and newest is not None and on_deleted is OnDeleted.REBUILD:
        lost = tuple(rows.lost)
        return Restart(deleted_error(table, source, lost), lost)
    refuse_deleted(table, source, rows.lost, on_deleted)
    return rows


def refuse_next_run(
    present: DerivedSnapshot, newest: DerivedCommit, source: Source, on_deleted: OnDeleted
) -> TableError | None:
    """Check that the next run of a table is not refused because of its source, or of what replaced its rows.

    A roll-up also needs the first rows of its groups, which is not checked.

    Returns:
        Why the run starts the table again; None if it continues.

    Raises what the run raises, see `next_rows` and `refuse_loss`.
    """
    is_rollup = newest.definition is not None and newest.definition.kind is Kind.ROLLUP
    rows = next_rows(
        present.table.uri,
        present,
        newest,
        source,
        on_deleted=on_deleted,
        max_bytes=MAX_BYTES,
        is_rollup=is_rollup,
    )
    if not isinstance(rows, Restart):
        return None
    refuse_loss(present, source, rows.cause)
    return rows.cause


def refuse_deleted(table: str, source: Source, lost: Sequence[DeletedRows], on_deleted: OnDeleted) -> None:
    """Refuse that rows of the source were deleted, if the policy is to fail.

    Raises:
        SourceRowsDeleted: They were.
    """
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
