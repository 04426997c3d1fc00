"""Reads data files as a Spark DataFrame.

Tasks open the files themselves, so neither Spark nor a cluster needs a library for Delta or for S3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from kinesis_assets.derive.cursor import RECORD_COLUMNS, Selection, are_among
from kinesis_assets.derive.row_order import ORDER_COLUMN
from kinesis_assets.spark.arrow_steps import map_in_arrow
from kinesis_assets.spark.session import balanced, parallelism
from kinesis_assets.table.data_file import TABLE_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.derive.row_order import RowOrder
    from kinesis_assets.spark.arrow_steps import ArrowStep
    from kinesis_assets.table.data_file import TableFile
    from kinesis_assets.table.store.storage import TableFolder
    from kinesis_assets.table.stored_table import ReadableVersion

FILE_COLUMN = "__file"
"""The column with the number of each row's file, where it is requested."""

POSITION_COLUMN = "__position"
"""The column with the number of rows before a row in its file, where it is requested."""

_ALL = Selection()

TASK_BYTES = 128 << 20
"""Target size of the files that one task reads, together."""

_SHUFFLE_BYTES = 32 << 20
"""Target size of the files whose rows one task gets in a shuffle."""

BATCH_ROWS = 1024
"""Maximum number of rows that are passed to Spark at once."""


def read(
    spark: SparkSession,
    version: ReadableVersion,
    files: Sequence[TableFile],
    *,
    schema: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
    selection: Selection = _ALL,
    batch_column: str | None = None,
    order: RowOrder | None = None,
    with_place: bool = False,
) -> DataFrame:
    """Return rows of some files of a table as a DataFrame.

    Args:
        schema: The columns of the files, as in Delta's metadata; None if they are those of the table.
        batch_column: The column with the batch id. Required with a selection.
        order: Add the column `ORDER_COLUMN` with this order of the rows, last. The columns that it needs must
            be read.
        with_place: Add the columns `FILE_COLUMN`, the index of the row's file in *files*, and
            `POSITION_COLUMN`. Not with a selection.
    """
    from pyspark.sql.types import IntegerType, LongType, StringType, StructType  # noqa: PLC0415  # not for tasks

    from kinesis_assets.table.column_schemas import arrow_schema  # noqa: PLC0415  # tasks must not load it

    schema = dict(schema or version.schema)
    fields, columns_read = StructType.fromJson(schema), arrow_schema(schema)
    if columns is not None:
        fields = StructType([fields[name] for name in columns])
        columns_read = pa.schema([columns_read.field(name) for name in columns])
    size = sum(file.size for file in files)
    groups = groups_of_files(files, max(parallelism(spark), size // TASK_BYTES)) or [[]]
    numbers = spark.range(0, len(groups), 1, len(groups))
    task = _reading(version.folder, groups, columns_read, selection, batch_column, with_place=with_place)
    if with_place:
        fields = fields.add(FILE_COLUMN, IntegerType()).add(POSITION_COLUMN, LongType())
    if order is not None:
        task = adding_order(task, order)
        fields = fields.add(ORDER_COLUMN, StringType())
    return map_in_arrow(numbers, task, fields)


def shuffle_tasks(spark: SparkSession, size: int) -> int:
    """Return the number of tasks for a shuffle of the rows of files.

    Spark's default, 200, is far too many for a few rows.

    Args:
        size: The size of the files in bytes.
    """
    return max(parallelism(spark), size // _SHUFFLE_BYTES)


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


def groups_of_files(files: Sequence[TableFile], limit: int) -> list[list[tuple[int, TableFile]]]:
    """Distribute files, with their numbers, over groups of about the same size, at most `limit` of them."""
    assigned = balanced([file.size for file in files], min(len(files), limit))
    return [[(number, files[number]) for number in numbers] for numbers in assigned]


def parts_of(files: Iterable[TableFile], max_bytes: float) -> Iterator[list[TableFile]]:
    """Divide files, in their order, into parts with at most a size in bytes together, or of one file."""
    part: list[TableFile] = []
    for file in files:
        if part and sum(each.size for each in part) + file.size > max_bytes:
            yield part
            part = []
        part.append(file)
    if part:
        yield part


def _reading(
    folder: TableFolder,
    groups: Sequence[Sequence[tuple[int, TableFile]]],
    schema: pa.Schema,
    selection: Selection,
    batch_column: str | None,
    *,
    with_place: bool,
) -> ArrowStep:
    """Return the function that reads the files of each task number."""

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filesystem = folder.open()
        for number, file in files_of_groups(numbers, groups):
            rows = rows_of_file(filesystem, file, schema, selection, batch_column)
            yield from _with_places(rows, number) if with_place else rows

    return run


def _with_places(batches: Iterator[pa.RecordBatch], file: int) -> Iterator[pa.RecordBatch]:
    """Add the place of each row to all rows of a file."""
    position = 0
    for rows in batches:
        places = [
            pa.repeat(pa.scalar(file, pa.int32()), rows.num_rows),
            pa.array(np.arange(position, position + rows.num_rows), pa.int64()),
        ]
        names = [*rows.schema.names, FILE_COLUMN, POSITION_COLUMN]
        yield pa.RecordBatch.from_arrays([*rows.columns, *places], names)
        position += rows.num_rows


def adding_order(step: ArrowStep, order: RowOrder) -> ArrowStep:
    """Return a step that adds the order of the rows that another one returns."""

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(order.adder(), step(numbers))

    return run


def files_of_groups(
    numbers: Iterator[pa.RecordBatch], groups: Sequence[Sequence[tuple[int, TableFile]]]
) -> Iterator[tuple[int, TableFile]]:
    """Yield the files of the groups that `numbers` names, each with its own number."""
    for number in (number for batch in numbers for number in batch["id"].to_pylist()):
        yield from groups[number]


def rows_of_file(
    filesystem: pyarrow.fs.FileSystem,
    file: TableFile,
    schema: pa.Schema,
    selection: Selection = _ALL,
    batch_column: str | None = None,
    *,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Yield rows of a data file with the columns of a schema.

    Args:
        schema: The columns. Those that the file lacks are partition columns or null.
        batch_rows: Maximum number of rows that are yielded at once. They are of one row group in any case,
            since writers bound the bytes of a row group.
    """
    with filesystem.open_input_file(file.path) as opened:
        parquet = pq.ParquetFile(opened)
        wanted = {*schema.names, *([batch_column] if batch_column else [])}
        if selection.without_records:
            wanted.update(RECORD_COLUMNS)
        stored = [name for name in parquet.schema_arrow.names if name in wanted]
        for group in range(parquet.num_row_groups):
            for batch in parquet.iter_batches(batch_size=batch_rows, row_groups=[group], columns=stored):
                rows = in_schema(batch, schema, file.partition)
                selected = _selected(batch, selection, batch_column) if batch_column else None
                if selected is not None:
                    # Filtered in these types: pyarrow cannot filter text as a DELETE of delta-rs writes it.
                    rows = rows.filter(selected)
                if rows.num_rows:
                    yield rows


def _selected(batch: pa.RecordBatch, selection: Selection, batch_column: str) -> pa.BooleanArray | None:
    ids = pc.unique(batch[batch_column]).to_pylist()
    if None in ids:
        raise ValueError(
            f"{batch.num_rows} rows of a file, of which some have no {batch_column}: another program added "
            "them. Move them to another table"
        )
    chosen = [batch_id for batch_id in ids if selection.includes(batch_id)]
    left_out = [records for records in selection.without_records if records.batch_id in chosen]
    if len(chosen) == len(ids) and not left_out:
        return None
    selected = pc.is_in(batch[batch_column], pa.array(chosen, pa.int64()))
    if not left_out:
        return selected
    # Cast from other types: a DELETE of delta-rs writes text in views, which pyarrow does not compare.
    rows = in_schema(batch, pa.schema([TABLE_SCHEMA.field(name) for name in (batch_column, *RECORD_COLUMNS)]))
    return pc.and_not(selected, are_among(rows, left_out))


def in_schema(batch: pa.RecordBatch, schema: pa.Schema, constants: Mapping[str, Any] = {}) -> pa.RecordBatch:
    """Return a batch with the columns of a schema. A column that is in neither place is null."""
    columns = [
        batch[field.name].cast(field.type)
        if field.name in batch.schema.names
        else pa.repeat(pa.scalar(constants.get(field.name), field.type), batch.num_rows)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
