"""Derived tables in the format Iceberg.

Never import this module for a table of another format: it loads pyiceberg.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from kinesis_assets.derive.commit_entry import ENTRIES_FOLDER
from kinesis_assets.derive.data_files import BATCH_COLUMN
from kinesis_assets.derive.derived_table import SOURCE_PROPERTY, DerivedFormat, DerivedSnapshot, DerivedTable
from kinesis_assets.errors import InvalidInput
from kinesis_assets.table.column_schemas import arrow_schema
from kinesis_assets.table.format import DerivedIn
from kinesis_assets.table.iceberg.columns import COPY_ON_WRITE, evolved, grows, other_name, storable, with_ids
from kinesis_assets.table.iceberg.derived_version import CREATED_PROPERTY, IcebergDerivedVersion
from kinesis_assets.table.iceberg.opening import TableInCatalog
from kinesis_assets.table.iceberg.partitions import specification
from kinesis_assets.table.iceberg.raw_table import IcebergFormat
from kinesis_assets.table.maintenance import iceberg_steps
from kinesis_assets.table.partition_field import partition_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from kinesis_assets.kinesis.role import AssumedRole
    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.format import SourceFormat
    from kinesis_assets.table.iceberg.catalog import IcebergCatalog
    from kinesis_assets.table.maintenance.steps import Step


class IcebergDerivedSnapshot(IcebergDerivedVersion, DerivedSnapshot):
    """One version of a derived Iceberg table."""

    table: DerivedTable


class IcebergDerived(DerivedFormat):
    """Derived tables in the format Iceberg.

    Args:
        catalog: The catalog that names the newest version of the table.
    """

    has_partition_columns: ClassVar = True  # pyiceberg finds no rows by a column that files lack

    def __init__(self, table: DerivedTable, catalog: IcebergCatalog) -> None:
        self._table = table
        self._in_catalog = TableInCatalog(table, catalog, ENTRIES_FOLDER)

    def open(self) -> IcebergDerivedSnapshot:
        """Open the newest version, see `DerivedFormat`."""
        return IcebergDerivedSnapshot(self._table, self._in_catalog.load(), self._in_catalog.catalog)

    def create(
        self, properties: Mapping[str, str], schema: Mapping[str, Any], partition_by: Sequence[str]
    ) -> DerivedSnapshot:
        """Open the table; create it if it does not exist, see `DerivedFormat`."""
        columns = evolved(None, schema)
        named = {
            **properties,
            **COPY_ON_WRITE,
            f"write.metadata.metrics.column.{BATCH_COLUMN}": "full",  # other programs must keep it exact
            CREATED_PROPERTY: str(self._table.clock.time()),
        }
        partitions = specification(partition_fields(partition_by), columns)
        return self._in_catalog.open_or_create(self._table.snapshot, columns, partitions, named)

    def check_store(self) -> None:
        """Check nothing: the catalog compares and sets."""

    def storable(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return columns with wider types in place of those that Iceberg lacks, see `DerivedFormat`.

        Raises:
            InvalidInput: Other programs would give one of them another name when they write files again.
        """
        widened: dict[str, Any] = storable(schema)
        if (pair := other_name(evolved(None, widened))) is not None:
            raise InvalidInput(
                f"table {self._table.uri}: the column {pair[0]} would be called {pair[1]} in files that "
                "other programs write, as in a compaction. Nothing was written. In Iceberg tables, use "
                "letters, digits and underscores, and no digit first"
            )
        return widened

    def can_grow(self, old: Any, new: Any) -> bool:
        """Return whether Iceberg's evolution lets a type become another one, see `DerivedFormat`."""
        return grows(old, new)

    def needs_files(self, old: Any, new: Any) -> bool:
        """Return that no file is rewritten, see `DerivedFormat`."""
        del old, new
        return False

    def file_schema(self, schema: Mapping[str, Any], present: DerivedSnapshot | None) -> pa.Schema:
        """Return the columns with the ids that the table has or gets, see `DerivedFormat`."""
        if isinstance(present, IcebergDerivedSnapshot):
            return with_ids(arrow_schema(schema), present.evolved(schema))
        return with_ids(arrow_schema(schema), evolved(None, schema))

    def steps_before(self, clock: AgreedClock, *, dry_run: bool) -> Iterator[Step]:
        """Delete files that no snapshot names, see `DerivedFormat`. Commits expire snapshots.

        Readers may still use what the later steps remove, so that is left for the next maintenance.
        """
        yield from iceberg_steps.vacuum(self._table, clock, dry_run=dry_run)


def format_in(catalog: IcebergCatalog, uri: str, role: AssumedRole | None) -> SourceFormat:
    """Return the format of an Iceberg table of which it is unknown whether it is raw or derived.

    Args:
        catalog: The catalog that names its newest version.
        uri: Its path or URI.
        role: The role that accesses a table on S3; None for the credentials of the process.

    Raises as `TableInCatalog.load`.
    """
    derived = DerivedIn(partial(IcebergDerived, catalog=catalog))
    table = DerivedTable(uri, role=role, format=derived)
    found = TableInCatalog(table, catalog, ENTRIES_FOLDER).load()
    return derived if SOURCE_PROPERTY in found.properties else partial(IcebergFormat, catalog=catalog)
