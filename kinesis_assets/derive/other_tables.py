"""Tables of other systems as DataFrames: a Delta table by its files, and whatever Spark itself can read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kinesis_assets.derive.read import read
from kinesis_assets.errors import InvalidInput, TableMissing
from kinesis_assets.table.delta.opening import open_delta
from kinesis_assets.table.delta.version import TableVersion
from kinesis_assets.table.stored_table import StoredTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.kinesis.role import AssumedRole

DELTA = "delta"

_UNKNOWN_FORMAT = ("DATA_SOURCE_NOT_FOUND", "ClassNotFoundException")
"""What occurs in Spark's error if no library reads a format."""


class OtherTable(StoredTable):
    """A Delta table that another system writes."""

    def snapshot(self) -> TableVersion:
        """Open the newest version of the table.

        Raises:
            InvalidInput: There is no Delta table.
            TableUnsuitable: It has deletion vectors or column mapping.
        """
        try:
            opened = TableVersion(self, open_delta(self.uri, self.folder))
        except TableMissing:
            raise InvalidInput(
                f"table {self.uri}: there is no Delta table; correct the path, or give its format"
            ) from None
        opened.refuse_unreadable()
        return opened


def read_other_table(
    spark: SparkSession,
    table: str,
    format_: str | None,
    *,
    needed: Callable[[Sequence[str]], Sequence[str]],
    role: AssumedRole | None = None,
) -> DataFrame:
    """Return the rows that a table has now.

    Spark's tasks open the files of a Delta table themselves, so no library for Delta or for S3 is needed.

    Args:
        table: A path or URI; without a format, a text without a slash is a name that Spark knows.
        format_: The format of the files at a path, as for `DataFrameReader.format`; by default Delta.
        needed: Returns which of the columns of a Delta table are read.

    Raises:
        InvalidInput: Spark knows no such table, path or format, or there is no Delta table.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415  # takes long to import

    from kinesis_assets.spark.session import first_line, spark_errors  # noqa: PLC0415

    if (format_ or DELTA) == DELTA and (format_ or "/" in table):
        version = OtherTable(table, role=role).snapshot()
        columns = [field["name"] for field in version.schema["fields"]]
        return read(spark, version, version.data_files(), columns=needed(columns))
    # The Java of Spark may have another working directory.
    is_here = "://" not in table and Path(table).exists()
    path = str(Path(table).absolute()) if is_here else table
    try:
        rows = spark.table(table) if format_ is None else spark.read.format(format_).load(path)
        _ = rows.schema  # on Spark Connect, analyzed only here
    except AnalysisException as error:
        raise InvalidInput(f"table {table}: {first_line(error)}") from error
    except spark_errors() as error:
        # Of an unknown format, Spark and Py4J raise no error of their own class.
        if format_ is None or not any(sign in str(error) for sign in _UNKNOWN_FORMAT):
            raise
        raise InvalidInput(
            f"table {table}: Spark knows no format {format_!r}; correct it, or add the library that reads it "
            "with spark_config"
        ) from error
    return rows
