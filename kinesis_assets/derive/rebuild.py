"""Starts a derived table again: without its rows, and then with other columns if need be.

Each of the two is one commit. After the first, the table has no rows, and the next step continues. A run does
it if a policy says so; an operator by `rebuild`, for which no entry of the table's commits need be readable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from kinesis_assets.derive.commit import Attempt, commit, until_not_overtaken
from kinesis_assets.derive.derived_table import refuse_unknown_rows
from kinesis_assets.derive.losses import lost_rows
from kinesis_assets.errors import CommitOvertaken, InvalidInput, PositionsUnreadable, UpsertOvertaken
from kinesis_assets.table.commit_ids import new_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.derive.commit_entry import Definition, DerivedCommit
    from kinesis_assets.derive.cursor import Cursor
    from kinesis_assets.derive.derived_table import DerivedSnapshot, DerivedTable
    from kinesis_assets.derive.policy import DeletedRows, OnDeleted
    from kinesis_assets.derive.source import Source


@dataclass(frozen=True, slots=True)
class Rebuild:
    """An explicit rebuild of a table, or its plan.

    Attributes:
        lost: How many rows of the source the table has consumed that the source no longer has, see
            `lost_rows`; None if that is unknown.
        recorded: The owner and the definition that the table had; None if they are unknown.
        unreadable: Why the entry of the table's newest commit cannot be read; None if it can.
        commit: The commit that started the table again; None if that is only planned.
    """

    rows: int
    lost: int | None
    recorded: Definition | None
    unreadable: str | None = None
    commit: DerivedCommit | None = None


def rebuild(
    table: DerivedTable,
    source: Source,
    definition: Definition,
    partition_by: Sequence[str],
    *,
    by: str,
    apply: bool,
) -> Rebuild:
    """Empty a table because an operator asks for it, whatever its rows and commit entries are.

    Args:
        definition: The owner and the definition that it has from now on.

    Raises:
        CursorConflict: A run has committed meanwhile; nothing was changed.
        TableUnsuitable: It is not a derived table, has other partition columns, or a feature with which its
            files cannot be removed.
    """
    snapshot = table.snapshot()
    snapshot.check_identity(source.origin_id, partition_by)
    snapshot.refuse_irreplaceable()
    newest, unreadable = None, None
    try:
        newest = snapshot.newest
    except PositionsUnreadable as error:
        unreadable = error.reason
    planned = Rebuild(
        rows=_rows(snapshot),
        lost=lost_rows(source, newest) if unreadable is None else None,
        recorded=None if newest is None else newest.definition,
        unreadable=unreadable,
    )
    if not apply:
        return planned
    return replace(planned, commit=emptied(table, source, snapshot.commit_id, definition, by=by))


def take_over(table: DerivedTable, definition: Definition, *, by: str, apply: bool) -> Rebuild:
    """Make an asset the owner of a table, with its rows and its position, because it was renamed.

    Args:
        definition: The definition with the new owner, which otherwise must be that of the table.

    Raises:
        CursorConflict: A run has committed meanwhile; nothing was changed.
        InvalidInput: No other asset owns the table.
    """
    snapshot = table.snapshot()
    refuse_unknown_rows(snapshot)
    newest = snapshot.newest
    recorded = None if newest is None else newest.definition
    if newest is None or recorded is None or recorded.owner in (None, definition.owner):
        raise InvalidInput(f"table {table.uri}: no other asset owns it, so there is nothing to take over")
    msgspec.structs.replace(definition, owner=recorded.owner).after(table.uri, newest)
    planned = Rebuild(rows=_rows(snapshot), lost=0, recorded=recorded)
    if not apply:
        return planned
    made = commit(
        table,
        Attempt(
            cursor=newest.cursor,
            batch_id=new_id(table.clock),
            definition=definition,
            consumed=newest.consumed,
            by=by,
        ),
        expected=newest.commit_id,
    )
    return replace(planned, commit=made)


def emptied(
    table: DerivedTable,
    source: Source,
    expected: int | None,
    definition: Definition,
    *,
    by: str | None,
    on_deleted: OnDeleted | None = None,
    given_up: tuple[DeletedRows, ...] = (),
) -> DerivedCommit:
    """Delete all rows of a table, so that it starts again with the source's present rows.

    Args:
        expected: The id of the table's newest commit, which must be the newest still.
        definition: The owner and the definition that the table has from now on.
        on_deleted: The policy that decided; None if an operator did, or the table is to get other columns.
        given_up: The rows of the source whose deletion is the reason.
    """
    cursor, consumed = position_after(source, None)

    def attempt() -> DerivedCommit:
        snapshot = table.snapshot()
        snapshot.refuse_irreplaceable()
        return commit(
            table,
            Attempt(
                cursor=cursor,
                batch_id=new_id(table.clock),
                on_deleted=on_deleted,
                given_up=given_up,
                definition=definition,
                consumed=consumed,
                by=by,
            ),
            expected=expected,
            removed=snapshot.data_files(),
            base=snapshot,
            restarts=True,
        )

    return until_not_overtaken(table, attempt)


def restarted(
    source: Source, present: DerivedSnapshot, columns: dict[str, Any], definition: Definition, by: str | None
) -> DerivedCommit | None:
    """Delete the rows of a table that is to get other columns; or, if it has none, replace its columns.

    Args:
        present: The version of the table without these columns.
        columns: The schema that it is to get, see `table_schema`.

    Returns:
        The commit; None if another one has added rows to the empty table.
    """
    table = present.table
    if not present.is_empty:
        return emptied(table, source, present.commit_id, definition, by=by)
    cursor, consumed = position_after(source, present.newest)

    def attempt() -> DerivedCommit | None:
        prepare_columns(table.snapshot(), columns)
        base = table.snapshot()
        if not base.is_empty:
            return None
        return commit(
            table,
            Attempt(
                cursor=cursor,
                batch_id=new_id(table.clock),
                definition=definition,
                consumed=consumed,
                by=by,
            ),
            expected=present.commit_id,
            base=base,
            columns=columns,
        )

    return until_not_overtaken(table, attempt)


def position_after(source: Source, newest: DerivedCommit | None) -> tuple[Cursor, int | None]:
    """Return the position of a table in its source after a commit, and the rows that it has consumed then.

    Without a commit, these are the start of the source and no rows, see `DerivedCommit`.
    """
    if newest is None:
        return source.start, 0 if source.keeps_rows else None
    return newest.cursor, newest.consumed


def _rows(snapshot: DerivedSnapshot) -> int:
    return sum(file.rows or 0 for file in snapshot.data_files())


def prepare_columns(snapshot: DerivedSnapshot, columns: dict[str, Any]) -> None:
    """Make the table's properties and features those that a table with other columns needs.

    Raises:
        UpsertOvertaken: Another commit was made after this version.
    """
    try:
        snapshot.prepare_columns(columns)
    except CommitOvertaken as error:
        raise UpsertOvertaken(snapshot.table.uri, error.reason) from None
