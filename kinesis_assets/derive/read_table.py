"""A whole table as a DataFrame, with the position up to which it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.derive.files import files_of
from kinesis_assets.derive.read import read
from kinesis_assets.derive.source import open_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.kinesis.role import AssumedRole


def read_table(
    spark: SparkSession, table: str, *, role: AssumedRole | None = None
) -> tuple[DataFrame, dict[str, str | int]]:
    """Read the newest version of a raw or derived table, for an asset that is not a derived table itself.

    Spark's tasks open the files themselves, so no library for Delta or for S3 is needed.

    Args:
        spark: The session. Its executors need this package.
        table: The table's path or URI.
        role: The role that reads a table on S3, as `KinesisResource.role_for` returns it for a stream. The
            tasks of Spark assume it too. None for the credentials of each process.

    Returns:
        All rows of the version; and what was read, as metadata of a materialization: `source_rows`, the
        number of rows, unless a file of another writer does not say it; `source_version`, the version; and
        `cursor`, the position after these rows, with which `new_rows` continues.

    Raises:
        InvalidInput: The path or URI is invalid.
        RoleNotAssumed: The role cannot be assumed.
        TableError: The table cannot be read by files, is neither raw nor derived, or was restored or
            overwritten.
    """
    source = open_source(table, role)
    files = files_of(source.delta)
    counts = [file.rows for file in files if file.rows is not None]
    metadata: dict[str, str | int] = {
        **({"source_rows": sum(counts)} if len(counts) == len(files) else {}),
        "source_version": source.delta.version(),
        "cursor": str(source.end),
    }
    return read(spark, source.folder, source.delta, files), metadata
