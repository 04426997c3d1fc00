"""How a table of any format is opened, or created if there is none.

A table is never created in the folder of one that is lost. What commits write beside the table stays if its
log is deleted, or if the catalog no longer has it. A new table in the folder would be filled from the start,
and maintenance would delete the files of the old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kinesis_assets.errors import (
    RoleNotAssumed,
    TableError,
    TableMissing,
    TableUnreachable,
    TableUnsuitable,
    reason_of,
)
from kinesis_assets.retry import Backoff
from kinesis_assets.table.store.storage import files_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.table.stored_table import StoredTable

_Opened = TypeVar("_Opened")

_CREATIONS = 5
"""How often to try to create a table that cannot be opened."""

_BACKOFF = Backoff(0.1, 1.0)
"""The waits between the tries."""


def open_or_create(
    table: StoredTable,
    opened: Callable[[], _Opened],
    create: Callable[[], TableError | None],
    *,
    commits: str,
    lost: str,
    way_out: str,
) -> _Opened:
    """Open a table; create it if it does not exist. Of several processes, one creates it.

    Args:
        opened: Opens the table, and raises `TableMissing` if it does not exist.
        create: Creates it. Returns why that was refused, perhaps because another process has created the
            table; None if it was not refused. Raises a refusal that no other try can change.
        commits: The folder, relative to that of the table, with what commits write after it was created.
        lost: What a table that is lost lacks, for the error.
        way_out: How to get it back.

    Raises:
        TableError: What `opened` and `create` raise; or the table can be neither opened nor created.
        TableUnsuitable: The folder is that of a table that is lost. Nothing was created.
    """
    failures, refused = 0, None
    while True:
        try:
            return opened()
        except TableMissing as missing:
            error = refused or missing
        has_commits = _has_files(table, commits)
        if failures == _CREATIONS:
            if not has_commits:
                raise error
            raise TableUnsuitable(
                table.uri,
                f"{lost}, but its folder has the positions and perhaps the rows of a table; nothing was "
                f"changed. {way_out}. To start again without these rows, use another folder",
            )
        if failures:
            table.clock.sleep(_BACKOFF.wait(failures))
        failures += 1
        if not has_commits:  # or another process has just created the table
            refused = create()


def _has_files(table: StoredTable, folder: str) -> bool:
    try:
        return bool(files_in(table.files, folder))
    except (OSError, RoleNotAssumed) as error:
        raise TableUnreachable(table.uri, f"cannot be opened: {reason_of(error)}") from None
