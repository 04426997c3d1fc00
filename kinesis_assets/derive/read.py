"""Reads data files as a Spark DataFrame.

Tasks open the files themselves, so neither Spark nor a cluster needs a library for Delta or for S3.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kinesis_assets.derive.cursor import Selection
from kinesis_assets.spark.session import parallelism

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem
    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.derive.files import TableFile
    from kinesis_assets.table.storage import TableFolder

    _Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

FILE_COLUMN = "__file"
"""The column with the path of each row's file, where it is requested."""

_ALL = Selection()

_TASK_BYTES = 128 << 20
"""Target size of the files that one task reads, together."""

_BATCH_ROWS = 1024
"""Maximum number of rows that are passed to Spark at once."""


def read(
    spark: SparkSession,
    folder: TableFolder,
    delta: DeltaTable,
    files: Sequence[TableFile],
    *,
    columns: Sequence[str] | None = None,
    selection: Selection = _ALL,
    batch_column: str | None = None,
    with_file: bool = False,
) -> DataFrame:
    """Return rows of some files of a table as a DataFrame.

    Args:
        spark: The session.
        folder: The table's folder.
        delta: The version of the table to which the files belong.
        files: The files.
        columns: The columns; None for all.
        selection: The batches whose rows are read.
        batch_column: The column with the batch id. Required with a selection.
        with_file: Add the column `FILE_COLUMN`.
    """
    from pyspark.sql.types import StringType, StructType  # noqa: PLC0415  # tasks do not need them

    fields = StructType.fromJson(json.loads(delta.schema().to_json()))
    schema = pa.schema(delta.schema().to_arrow())
    if columns is not None:
        fields = StructType([fields[name] for name in columns])
        schema = pa.schema([schema.field(name) for name in columns])
    if with_file:
        fields = fields.add(FILE_COLUMN, StringType())
        schema = schema.append(pa.field(FILE_COLUMN, pa.string()))
    size = sum(file.size for file in files)
    groups = _groups(files, max(parallelism(spark), size // _TASK_BYTES)) or [[]]
    numbers = spark.range(0, len(groups), 1, len(groups))
    return numbers.mapInArrow(_reading(folder, groups, schema, selection, batch_column), fields)


def with_null_for_empty(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return rows with null in place of empty texts in some columns.

    In a partition column Delta stores both in the same way.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  # tasks do not need it
    from pyspark.sql.types import StringType  # noqa: PLC0415  # likewise

    for field in rows.schema:
        if field.name in columns and isinstance(field.dataType, StringType):
            rows = rows.withColumn(field.name, F.nullif(F.col(f"`{field.name}`"), F.lit("")))
    return rows


def _groups(files: Sequence[TableFile], limit: int) -> list[list[TableFile]]:
    """Distribute files over groups of about the same size, at most `limit` of them."""
    groups: list[list[TableFile]] = [[] for _ in range(min(len(files), limit))]
    sizes = [0] * len(groups)
    for file in sorted(files, key=lambda each: each.size, reverse=True):
        smallest = sizes.index(min(sizes))
        groups[smallest].append(file)
        sizes[smallest] += file.size
    return groups


def _reading(
    folder: TableFolder,
    groups: Sequence[Sequence[TableFile]],
    schema: pa.Schema,
    selection: Selection,
    batch_column: str | None,
) -> _Task:
    """Return the function that reads the files of each task number."""

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filesystem = folder.open()
        for number in (number for batch in numbers for number in batch["id"].to_pylist()):
            for file in groups[number]:
                yield from rows_of_file(filesystem, file, schema, selection, batch_column)

    return run


def rows_of_file(
    filesystem: FileSystem,
    file: TableFile,
    schema: pa.Schema,
    selection: Selection = _ALL,
    batch_column: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield rows of a data file with the columns of a schema.

    Args:
        filesystem: The table's folder.
        file: The file.
        schema: The columns. Those that the file lacks are partition columns, `FILE_COLUMN` or null.
        selection: The batches whose rows are read.
        batch_column: The column with the batch id. Required with a selection.
    """
    constants = {**file.partition, FILE_COLUMN: file.path}
    with filesystem.open_input_file(file.path) as opened:
        parquet = pq.ParquetFile(opened)
        wanted = {*schema.names, *([batch_column] if batch_column else [])}
        stored = [name for name in parquet.schema_arrow.names if name in wanted]
        for batch in _batches(parquet, stored):
            rows = batch
            if batch_column is not None:
                rows = _selected(batch, selection, batch_column)
            if rows.num_rows:
                yield _in_schema(rows, schema, constants)


def _batches(parquet: pq.ParquetFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, never of two row groups at once: writers bound the bytes of a row group."""
    for group in range(parquet.num_row_groups):
        yield from parquet.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group], columns=columns)


def _selected(batch: pa.RecordBatch, selection: Selection, batch_column: str) -> pa.RecordBatch:
    ids = pc.unique(batch[batch_column]).to_pylist()
    if None in ids:
        raise ValueError(f"{batch.num_rows} rows of a file, of which some have no {batch_column}")
    chosen = [batch_id for batch_id in ids if selection.includes(batch_id)]
    if len(chosen) == len(ids):
        return batch
    return batch.filter(pc.is_in(batch[batch_column], pa.array(chosen, pa.int64())))


def _in_schema(batch: pa.RecordBatch, schema: pa.Schema, constants: Mapping[str, Any]) -> pa.RecordBatch:
    """Return a batch with the columns of a schema. A column that is in neither place is null."""
    columns = [
        batch[field.name].cast(field.type)
        if field.name in batch.schema.names
        else pa.repeat(pa.scalar(constants.get(field.name), field.type), batch.num_rows)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
