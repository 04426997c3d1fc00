"""What others do to an Iceberg table: programs that write and change it, and maintenance at any moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

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


def remove_unreferenced(table: Table) -> list[Path]:
    """Delete the files on this machine's disk to which no snapshot refers, whatever their age.

    This is what S3 Tables does after days. The table's current metadata file and those in its log stay.

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
    paths = {_path(location) for location in kept}
    removed = [path for path in _path(table.location()).rglob("*") if path.is_file() and path not in paths]
    for path in removed:
        path.unlink()
    return removed


def _path(location: str) -> Path:
    return Path(urlsplit(location).path)
