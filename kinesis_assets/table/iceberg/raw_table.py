"""The raw table in the format Iceberg. Properties of the table and its snapshots point at the positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kinesis_assets.errors import TableUnsuitable
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.format import DESCRIPTION, TableFormat
from kinesis_assets.table.iceberg.columns import PARTITIONING, PROPERTIES, READ_SCHEMA, SCHEMA, difference
from kinesis_assets.table.iceberg.manifests import added_file
from kinesis_assets.table.iceberg.opening import TableInCatalog
from kinesis_assets.table.iceberg.rows import count_rows, newest_rows, rewrite
from kinesis_assets.table.iceberg.version import IcebergVersion
from kinesis_assets.table.ownership import OWNER, is_application
from kinesis_assets.table.positions.positions_chain import POSITIONS_FOLDER
from kinesis_assets.table.snapshot import TableSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.data_file import DataFile
    from kinesis_assets.table.iceberg.catalog import IcebergCatalog
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.row_predicates import RowPredicate
    from kinesis_assets.table.snapshot import ChainedTable, NewestRow, Pointers
    from kinesis_assets.table.stored_table import Rewrite


class IcebergSnapshot(IcebergVersion, TableSnapshot):
    """One version of a raw Iceberg table."""

    table: ChainedTable

    @property
    def created(self) -> float:
        """When the oldest of its rows was read, since the metadata keeps no time; now if there are none."""
        oldest = (file.smallest["batch_id"] for file in self.data_files(["batch_id"]))
        times = [time_of_id(batch_id) for batch_id in oldest if batch_id is not None]
        return min(times, default=self.table.clock.time())

    @property
    def schema(self) -> Mapping[str, Any]:
        """The columns of its rows, see `READ_SCHEMA`."""
        return READ_SCHEMA

    def applications(self) -> frozenset[str]:
        """Return the application ids for which the table points at a commit id."""
        return frozenset(filter(is_application, self.properties))

    def version_of(self, commit_id: int) -> int | None:
        """Return the version whose commit points at a commit id, if its snapshot is kept."""
        return next(
            (entry.version for entry in self.entries() if commit_id in entry.transactions.values()), None
        )

    def later_version_of(self, commit_id: int) -> int | None:
        """Return the version that this one has committed, see `TableSnapshot`."""
        return self._committed.get(commit_id)

    def rewrites(self) -> list[Rewrite]:
        """Return the rollbacks and overwrites that the snapshots still show."""
        return self._rollbacks(0) + self._overwrites(0)

    def rewrites_since(self, positions: StreamPositions) -> list[Rewrite]:
        """Return the rollbacks and overwrites after positions, see `TableSnapshot`."""
        return self.rewrites_of(positions.examined or 0, positions.commit_id)

    def rewrites_between(self, base: int) -> list[Rewrite] | None:
        """Return the rollbacks and overwrites after a version, see `TableSnapshot`."""
        return None if self._cut(base) is not None else self._rollbacks(base) + self._overwrites(base)

    def deleted_since(self, positions: StreamPositions) -> int | None:
        """Return the newest version whose snapshot was expired, see `TableSnapshot`."""
        return self._cut(positions.examined or 0)

    def count(self, predicate: RowPredicate) -> dict[str, int]:
        """Count the rows that match a predicate, by shard id, see `TableSnapshot`."""
        return count_rows(self.table, self.file_stats(), predicate)

    def newest_rows(self) -> Mapping[str, Mapping[str, NewestRow]]:
        """Return the newest row of each shard, see `TableSnapshot`."""
        return newest_rows(self.table, self.file_stats())

    def accept_rows(self) -> bool:
        """Return that the schema does not need a change."""
        return False

    def claim(self, identity: StreamIdentity) -> None:
        """Set a stream as the table's owner, see `TableSnapshot`."""
        self._commit({OWNER: identity.arn}, {})

    def _add(self, files: Sequence[DataFile], pointers: Pointers) -> None:
        location = self.iceberg.location()
        self._commit({}, pointers.commit_ids, [added_file(location, file) for file in files])

    def _delete(self, predicate: RowPredicate, pointers: Pointers) -> int:
        found = rewrite(self.table, self.iceberg.location(), self.file_stats(), predicate)
        if not found.deleted:
            return 0
        self._commit({}, pointers.commit_ids, found.written, self._files_at(found.replaced))
        return found.deleted


class IcebergFormat(TableFormat):
    """Raw tables in the format Iceberg."""

    field_ids: ClassVar = True

    def __init__(self, table: ChainedTable, catalog: IcebergCatalog) -> None:
        self._table = table
        self._in_catalog = TableInCatalog(table, catalog, POSITIONS_FOLDER)

    def open(self) -> IcebergSnapshot:
        """Open the newest version, see `TableFormat`."""
        found = self._in_catalog.load()
        wrong = difference(found.schema(), found.spec())
        if wrong:
            raise TableUnsuitable(
                self._table.uri,
                f"not a raw Kinesis table (wrong or missing: {', '.join(wrong)}); "
                "use a separate table for the stream",
            )
        return IcebergSnapshot(self._table, found, self._in_catalog.catalog)

    def create(self, opened: Callable[[], TableSnapshot], owner: StreamIdentity | None) -> TableSnapshot:
        """Open the table, or create an empty one, see `TableFormat`."""
        properties = {**PROPERTIES, "comment": DESCRIPTION, **({} if owner is None else {OWNER: owner.arn})}
        return self._in_catalog.open_or_create(opened, SCHEMA, PARTITIONING, properties)
