"""What a format of raw tables provides.

Above the folder `table`, only `derive.derived_table` and `derive.iceberg_table` know the formats of tables.
The versions that a format opens read the table's log and files, and make one attempt to commit, see
`TableSnapshot`: by compare-and-set, and without repetition. `commits.commit_loop` repeats attempts and
resolves lost responses for all formats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.snapshot import ChainedTable, TableSnapshot

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
        """Open the table, or create an empty one if none exists, see `creation.open_or_create`.

        Args:
            owner: The stream that a new table belongs to. By default, the first stream that claims the table.

        Raises:
            StoreUnsuitable: The store ignores the condition of a conditional put. Nothing was created.
            TableNotWritable: The table cannot be created because writing is refused.
            TableUnreachable: The table can be neither opened nor created.
        """


RawFormat = Callable[["ChainedTable"], TableFormat]
"""Returns the format of a raw table."""


class DerivedIn(NamedTuple):
    """A format of derived tables, other than Delta Lake.

    Attributes:
        of: Returns the format of a derived table, see `derive.derived_table.DerivedFormat`.
    """

    of: Callable[[Any], Any]


SourceFormat = RawFormat | DerivedIn
"""The format of a raw or derived table that is not a Delta table."""
