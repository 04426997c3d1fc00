"""What others do to an Iceberg table: programs that write and change it, and maintenance at any moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.typedef import EMPTY_DICT

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

    from support.iceberg.catalogs import TestCatalog
    from support.iceberg.spark import IcebergSpark


def append(table: Table, rows: pa.Table) -> None:
    """Append rows with pyiceberg."""
    table.refresh().append(rows)


def delete(table: Table, condition: BooleanExpression) -> None:
    """Delete rows with pyiceberg."""
    table.refresh().delete(condition)


def roll_back(table: Table, snapshot_id: int) -> None:
    """Make an earlier snapshot the current one again. The properties of the table stay."""
    table.refresh().manage_snapshots().rollback_to_snapshot(snapshot_id).commit()


def restore_catalog(table: Table, commits: int) -> None:
    """Let the catalog name the version before the last commits, as one that was restored does."""
    older = table.metadata.metadata_log[-commits].metadata_file
    table.catalog.drop_table(table.name())
    table.catalog.register_table(table.name(), older)


def add_column(table: Table, name: str, kind: IcebergType) -> None:
    """Add a column with pyiceberg."""
    with table.refresh().update_schema() as update:
        update.add_column(name, kind)


def expire_all_but_current(table: Table) -> None:
    """Expire all snapshots but the current one with pyiceberg, which deletes no file."""
    table = table.refresh()
    current = table.metadata.current_snapshot_id
    old = [each.snapshot_id for each in table.snapshots() if each.snapshot_id != current]
    if old:
        table.maintenance.expire_snapshots().by_ids(old).commit()


class _Compaction(_OverwriteFiles):
    """A commit that replaces files by others with the same rows, which pyiceberg does not make by itself."""

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        found = super()._summary(snapshot_properties)
        return Summary(Operation.REPLACE, **found.additional_properties)


def compact(table: Table) -> None:
    """Write all rows to one new file for each partition with pyiceberg, as Spark's procedure does."""
    table = table.refresh()
    rows = table.scan().to_arrow()
    if not rows.num_rows:  # for which pyiceberg fails
        return
    with (
        table.transaction() as transaction,
        _Compaction(Operation.OVERWRITE, transaction, table.io) as compaction,
    ):
        for task in table.scan().plan_files():
            compaction.delete_data_file(task.file)
        for file in _dataframe_to_data_files(table.metadata, rows, table.io):
            compaction.append_data_file(file)


class SparkMaintenance:
    """The procedures of Iceberg's runtime for Spark, on one table."""

    def __init__(self, spark: IcebergSpark, catalog: TestCatalog, table: Table) -> None:
        self._spark, self._catalog, self._table = spark, catalog, table

    def rewrite_data_files(self) -> int:
        """Write the rows of each partition to one new file, and return how many files were replaced."""
        options = "map('rewrite-all', 'true', 'min-input-files', '1')"
        (result,) = self._call("rewrite_data_files", f"options => {options}")
        return int(result["rewritten_data_files_count"])

    def rewrite_manifests(self) -> None:
        """Write the entries of all manifests to new ones."""
        self._call("rewrite_manifests")

    def expire_all_but_current(self) -> None:
        """Expire all snapshots but the current one, and delete the files that only they have."""
        later = datetime.now(UTC) + timedelta(days=1)
        self._call("expire_snapshots", f"older_than => {_timestamp(later)}, retain_last => 1")

    def roll_back(self, snapshot_id: int) -> None:
        """Make an earlier snapshot the current one again. The properties of the table stay."""
        self._call("rollback_to_snapshot", f"snapshot_id => {snapshot_id}")

    def remove_orphan_files(self) -> list[str]:
        """Delete the files older than a day that no snapshot has, and return their locations."""
        day_ago = datetime.now(UTC) - timedelta(days=1, minutes=1)
        rows = self._call("remove_orphan_files", f"older_than => {_timestamp(day_ago)}")
        return [row["orphan_file_location"] for row in rows]

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Execute a statement in which {} stands for the table."""
        return self._spark.sql(self._catalog, statement.format(".".join(self._table.name())))

    def _call(self, procedure: str, arguments: str = "") -> list[dict[str, Any]]:
        words = ", ".join(filter(None, ["table => '{}'", arguments]))
        return self.sql(f"CALL {self._catalog.name}.system.{procedure}({words})")


def _timestamp(moment: datetime) -> str:
    return f"timestamp '{moment:%Y-%m-%d %H:%M:%S}'"


def remove_unreferenced(table: Table, *, keeps_hidden: bool = False) -> list[Path]:
    """Delete the files on this machine's disk to which no snapshot refers, whatever their age.

    This is what S3 Tables does after days. The table's current metadata file and those in its log stay.

    Args:
        keeps_hidden: Whether files stay whose folder begins with an underscore, as Spark leaves them.

    Returns:
        What was deleted.
    """
    table = table.refresh()
    kept = {table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)}
    for snapshot in table.snapshots():
        kept.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            kept.add(manifest.manifest_path)
            kept.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))
    paths, folder = {_path(location) for location in kept}, _path(table.location())
    removed = [
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path not in paths
        and not (keeps_hidden and path.relative_to(folder).parts[0].startswith("_"))
    ]
    for path in removed:
        path.unlink()
    return removed


def _path(location: str) -> Path:
    return Path(urlsplit(location).path)
