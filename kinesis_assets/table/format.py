"""What a format of raw tables provides, and how a table of any format is opened or created.

Nothing above the folder `table` knows the format of a table. The versions that a format opens read the
table's log and files, and make one attempt to commit, see `TableSnapshot`: by compare-and-set, and without
repetition. `commits.commit_loop` repeats attempts and resolves lost responses for all formats.

A table is never created in the folder of one that is lost. What commits write beside the table stays if its
log is deleted, or if the catalog no longer has it. A new table in the folder would be filled from the start,
and maintenance would delete the files of the old one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

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
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.snapshot import TableFiles, TableSnapshot
    from kinesis_assets.table.stored_table import StoredTable

DESCRIPTION = "Kinesis records as received, with the positions up to which they are in the table."
"""The description of a new table."""


class TableFormat(ABC):
    """Opens and creates one raw table. `field_ids` of its data files is that of `FileLayout`."""

    field_ids: ClassVar = False

    @abstractmethod
    def open(self) -> TableSnapshot:
        """Open the newest version of the table.

        Raises:
            TableMissing: The table does not exist.
            TableUnreachable: The table's log cannot be read.
            TableUnsuitable: The table has another schema or partitioning.
        """

    @abstractmethod
    def create(self, opened: Callable[[], TableSnapshot], owner: StreamIdentity | None) -> TableSnapshot:
        """Open the table, or create an empty one if none exists, see `open_or_create`.

        Args:
            owner: The stream that a new table belongs to. By default, the first stream that claims the table.

        Raises:
            StoreUnsuitable: The store ignores the condition of a conditional put. Nothing was created.
            TableNotWritable: The table cannot be created because writing is refused.
            TableUnreachable: The table can be neither opened nor created.
        """


RawFormat = Callable[["TableFiles"], TableFormat]
"""Returns the format of a raw table."""


class DerivedIn(NamedTuple):
    """A format of derived tables, other than Delta Lake.

    Attributes:
        of: Returns the format of a derived table, see `derive.derived_table.DerivedFormat`.
    """

    of: Callable[[Any], Any]


SourceFormat = RawFormat | DerivedIn
"""The format of a raw or derived table that is not a Delta table."""


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
