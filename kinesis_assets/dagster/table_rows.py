"""The rows of a table, raw or derived, for assets that are not derived tables, and for other engines.

The catalog of an Iceberg table is named by the same map as in its settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.new_rows import rows_since
from kinesis_assets.derive.policy import MAX_BYTES
from kinesis_assets.derive.read import read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.derive.cursor import Cursor
    from kinesis_assets.derive.new_rows import NewRows
    from kinesis_assets.derive.source import Source
    from kinesis_assets.kinesis.role import AssumedRole


def new_rows(
    table: str,
    since: Cursor | None = None,
    *,
    max_bytes: int = MAX_BYTES,
    role: AssumedRole | None = None,
    catalog: Mapping[str, str] | None = None,
) -> NewRows:
    """Return the next rows of a raw or derived table after a position.

    Without a position, the rows that the table has now are returned first, in steps.

    Args:
        table: The table's path or URI.
        since: The `cursor` of the last rows; None for the first.
        max_bytes: The size of files in bytes after which no further commit is included.
        role: The role that reads the log of a table on S3, as `KinesisResource.role_for` returns it for a
            stream; None for the credentials of this process.
        catalog: The catalog of an Iceberg table, with the settings that the table has in its component, and
            its `name`; None for a Delta table.

    Raises:
        InvalidInput: The path or URI, or the catalog, is invalid.
        RoleNotAssumed: The role cannot be assumed.
        TableError: The table cannot be read, is neither raw nor derived, or was restored or overwritten.
        TableOfAnotherSource: The position belongs to another table.
        SourceCommitsMissing: The commits since the position are no longer recorded.
        SourceRowsMissing: The table has fewer rows than its commits added, and no amendment says why.
        TableUnsuitable: The table has more rows than its commits added.
    """
    return rows_since(_open(table, role, catalog), since, max_bytes)


def read_table(
    spark: SparkSession,
    table: str,
    *,
    role: AssumedRole | None = None,
    catalog: Mapping[str, str] | None = None,
) -> tuple[DataFrame, dict[str, str | int]]:
    """Read the newest version of a raw or derived table, for an asset that is not a derived table itself.

    Spark's tasks open the files themselves, so no library for Delta, for Iceberg or for S3 is needed.

    Args:
        spark: The session. Its executors need this package.
        table: The table's path or URI.
        role: The role that reads a table on S3, as `KinesisResource.role_for` returns it for a stream. The
            tasks of Spark assume it too. None for the credentials of each process.
        catalog: The catalog of an Iceberg table, as for `new_rows`; None for a Delta table.

    Returns:
        All rows of the version, with the columns that the table has now; and what was read, as metadata of a
        materialization: `source_rows`, the number of rows, unless a file of another writer does not say it;
        `source_version`, the version; and `cursor`, the position after these rows, with which `new_rows`
        continues.

    Raises:
        InvalidInput: The path or URI, or the catalog, is invalid.
        RoleNotAssumed: The role cannot be assumed.
        TableError: The table cannot be read by files, is neither raw nor derived, or was restored or
            overwritten.
    """
    source = _open(table, role, catalog)
    files = source.snapshot.data_files()
    counts = [file.rows for file in files if file.rows is not None]
    metadata: dict[str, str | int] = {
        **({"source_rows": sum(counts)} if len(counts) == len(files) else {}),
        "source_version": source.snapshot.version,
        "cursor": str(source.end),
    }
    return read(spark, source.snapshot, files), metadata


def _open(table: str, role: AssumedRole | None, catalog: Mapping[str, str] | None) -> Source:
    if catalog is None:
        return open_source(table, role)
    from kinesis_assets.dagster.settings.catalog_settings import catalog_to_read  # noqa: PLC0415  # only Iceberg

    opened = catalog_to_read(catalog, role)
    from kinesis_assets.derive.iceberg_table import format_in  # noqa: PLC0415  # loads pyiceberg

    return open_source(table, role, format_in(opened, table, role))
