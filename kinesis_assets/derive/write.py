"""Writes the changed rows of a step to data files of a derived table, without committing them.

Rows are cast to the columns of the table, also the fields of structs, which Spark casts only in their order.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import ArrayType, MapType, StringType, StructType

from kinesis_assets.derive.data_files import (
    BATCH_COLUMN,
    CHANGES_FOLDER,
    DerivedFileWriter,
    Manifest,
    WritingJob,
    is_new_file,
)
from kinesis_assets.derive.read import FILE_COLUMN, POSITION_COLUMN, in_schema, rows_of_file, shuffle_tasks
from kinesis_assets.derive.schema import table_schema
from kinesis_assets.derive.writing_task import writing_task
from kinesis_assets.errors import DataFileInvalid, TableUnreachable
from kinesis_assets.ingest.manifest import decode_all, invalid
from kinesis_assets.spark.arrow_steps import is_mapped, map_in_arrow
from kinesis_assets.table.column_schemas import arrow_schema
from kinesis_assets.table.data_file import REWRITTEN_FILES
from kinesis_assets.table.partition_field import partition_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from kinesis_assets.derive.data_files import DerivedFile
    from kinesis_assets.derive.derived_table import DerivedSnapshot, DerivedTable
    from kinesis_assets.spark.arrow_steps import ArrowStep
    from kinesis_assets.table.data_file import TableFile


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows that are not written yet.

    Attributes:
        rows: The new rows. If files are replaced, the rows of the table that are replaced or deleted are
            among them: of such a row, only `FILE_COLUMN` and `POSITION_COLUMN` count, its place. A new row
            has no position, and may have a file, after whose rows it is written.
        removed: The files of the table that are replaced by copies without these rows, by their number in
            `FILE_COLUMN`.
        deletions: The deletions that the table is to remember besides, with the columns by which they are
            compared; None if there are none.
    """

    rows: DataFrame
    removed: Mapping[int, TableFile] = field(default_factory=dict)
    deletions: DataFrame | None = None


def removed_files(placed: DataFrame, files: Sequence[TableFile]) -> dict[int, TableFile]:
    """Return the files with rows that are replaced, by their number.

    Args:
        placed: The rows, with their places. They are computed again later, so they should be cached.
    """
    ((found,),) = placed.agg(F.collect_set(replaced_file())).collect()
    return {number: files[number] for number in sorted(found)}


def replaced_file() -> Column:
    """Return the number of the file of a row that is replaced; null for a new row."""
    return F.when(F.col(POSITION_COLUMN).isNotNull(), F.col(FILE_COLUMN))


def without_place(rows: DataFrame) -> DataFrame:
    """Return rows that are in no file."""
    return rows.withColumns({FILE_COLUMN: F.lit(None).cast("int"), POSITION_COLUMN: F.lit(None).cast("long")})


def write(table: DerivedTable, schema: dict[str, Any], changed: ChangedRows, job: WritingJob) -> Manifest:
    """Write rows to new files in the table's folder.

    Only files whose manifest is returned count: an attempt of a task that was repeated or killed leaves files
    that no version of the table refers to.

    Args:
        changed: The rows, and the files that are copied without some of theirs.
        job: What `writing_job` returned. The files that are copied are added to it.

    Raises:
        LandingFailed: A task returned an invalid manifest, or the files lack rows.
    """
    job = replace(job, removed=dict(changed.removed))
    rows = _with_columns(changed, StructType.fromJson(schema), job)
    contents = [row[0] for row in map_in_arrow(rows, writing_task(job), "manifest binary").collect()]
    manifests = decode_all(f"table {table.uri}", contents, Manifest)
    return checked_manifest(table.uri, manifests, job)


def write_beside(table: DerivedTable, rows: DataFrame, folder: str, batch_id: int) -> Manifest:
    """Write rows to files that are not part of the table, in a folder within that of it.

    Raises as `write`.
    """
    schema = table_schema(table.uri, rows, (), ())
    job = replace(writing_job(table, arrow_schema(schema), (), batch_id), prefix=f"{folder}/")
    return write(table, schema, ChangedRows(rows), job)


def writing_job(
    table: DerivedTable, schema: pa.Schema, partition_by: Sequence[str], batch_id: int
) -> WritingJob:
    """Return the settings of the tasks that write an attempt's files.

    Args:
        schema: The columns of the files, see `DerivedFormat.file_schema`.
        partition_by: The setting `partition_by` of the table.
    """
    return WritingJob(
        folder=table.folder,
        schema=schema,
        partition_by=partition_fields(partition_by),
        has_partition_columns=table.format.has_partition_columns,
        batch_id=batch_id,
        layout=table.policy.data_files,
    )


def rewritten(
    snapshot: DerivedSnapshot,
    files: Sequence[TableFile],
    batch_id: int,
    kept: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda rows: rows,
) -> list[DerivedFile]:
    """Write the rows of some files of a version to new files, without Spark.

    Args:
        kept: Returns those of some rows that are written.

    Raises:
        DataFileInvalid: The files do not have the rows that the log names.
        TableUnreachable: A file cannot be read or written at present.
    """
    table, schema = snapshot.table, snapshot.file_schema
    job = writing_job(table, schema, snapshot.partition_by, batch_id)
    writer = DerivedFileWriter(replace(job, compression=REWRITTEN_FILES))
    read = 0
    try:
        for file in files:
            for rows in rows_of_file(table.files, file, schema):
                read += rows.num_rows
                writer.write(kept(rows))
        written = writer.close()
    except (OSError, pa.ArrowException) as error:
        raise TableUnreachable(table.uri, f"its files cannot be written again: {error}") from None
    logged = [file.rows for file in files if file.rows is not None]
    if len(logged) == len(files) and sum(logged) != read:
        raise DataFileInvalid(
            table.uri,
            f"{len(files)} files have {read} rows, but its log says {sum(logged)}. Nothing was changed. "
            "Rebuild the table",
        )
    return written


def checked_manifest(uri: str, manifests: Sequence[Manifest], job: WritingJob) -> Manifest:
    """Return the manifest of all tasks.

    Raises:
        LandingFailed: The attempt cannot have written one of the files, or rows are lost.
    """
    subject = f"table {uri}"
    if any((each.counts is None) != (job.error_column is None) for each in manifests):
        raise invalid(subject, "records are counted, or not counted, against the settings")
    manifest = sum(manifests, Manifest())
    paths = [file.path for file in (*manifest.files, *manifest.replaced)]
    if (
        len(set(paths)) < len(paths)
        or not all(is_new_file(file, job.batch_id, job.prefix) for file in manifest.files)
        or not all(is_new_file(file, job.batch_id, f"{CHANGES_FOLDER}/") for file in manifest.replaced)
    ):
        raise invalid(subject, "a file that this attempt did not write")
    expected = [file.rows for file in job.removed.values()]
    copied = sum(file.rows - file.new_rows for file in manifest.files)
    copied += sum(file.rows for file in manifest.replaced)
    if None not in expected and copied != sum(filter(None, expected)):
        raise invalid(subject, f"{copied} rows in copies of files with {expected} rows")
    counts, new = manifest.counts, sum(file.new_rows for file in manifest.files)
    if counts is not None and new != counts.records - (0 if job.keeps_errors else counts.errors):
        raise invalid(subject, f"{new} new rows of {counts.records} records, {counts.errors} with an error")
    return manifest


def discard(table: DerivedTable, manifest: Manifest) -> None:
    """Delete the files of an attempt that was refused before its commit.

    A run that is tried again and again would fill the store with them. Vacuum deletes what is left.
    """
    for file in manifest.files:
        with suppress(OSError):
            table.files.delete_file(file.path)


def _with_columns(changed: ChangedRows, fields: StructType, job: WritingJob) -> DataFrame:
    """Return the rows with the columns of the table, and that of errors which are only counted."""
    rows = _grouped_by_file(changed) if changed.removed else changed.rows
    schema = job.schema
    if job.error_column is not None and not job.keeps_errors:
        fields = fields.add(job.error_column, StringType())
        schema = schema.append(pa.field(job.error_column, pa.string()))
    types, wanted = (
        {field.name: field.dataType.simpleString() for field in each} for each in (rows.schema, fields)
    )
    if is_mapped(rows) and types.items() <= wanted.items():  # no value has to be cast
        return map_in_arrow(rows, _adding(schema, job.batch_id), fields)
    columns = []
    for name, kind in ((each.name, each.dataType) for each in fields):
        column = F.lit(None).cast(kind)
        if name in types:
            column = _conformed_column(F.col(f"`{name}`"), rows.schema[name].dataType, kind)
        if name == BATCH_COLUMN:
            column = F.lit(job.batch_id).cast(kind)
        columns.append(column.alias(name))
    if changed.removed:
        columns += [F.col(FILE_COLUMN), F.col(POSITION_COLUMN)]
    return rows.select(columns)


def _adding(schema: pa.Schema, batch_id: int) -> ArrowStep:
    """Return the step that adds the missing columns of a schema: the batch id, and others as null."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield in_schema(batch, schema, {BATCH_COLUMN: batch_id})

    return run


def _grouped_by_file(changed: ChangedRows) -> DataFrame:
    """Return the rows as `writing_task` expects them. New rows without a file stay where they are."""
    rows = changed.rows
    tasks = shuffle_tasks(rows.sparkSession, sum(file.size for file in changed.removed.values()))
    has_file = F.col(FILE_COLUMN).isNotNull()
    grouped = (
        rows.where(has_file)
        .repartition(min(len(changed.removed), tasks), FILE_COLUMN)
        .sortWithinPartitions(FILE_COLUMN, F.col(POSITION_COLUMN).asc_nulls_last())
    )
    return grouped.unionByName(rows.where(~has_file))


def conformed(rows: DataFrame, schema: Mapping[str, Any]) -> DataFrame:
    """Return rows whose columns have the types of those of a table, where it has them.

    Args:
        schema: The columns of the table, as in Delta's metadata. They hold all values of the rows, see
            `column_types.grown`.
    """
    wanted = {field.name: field.dataType for field in StructType.fromJson(dict(schema))}
    changed = {
        field.name: _conformed_column(F.col(f"`{field.name}`"), field.dataType, wanted[field.name])
        for field in rows.schema
        if field.name in wanted and field.dataType.simpleString() != wanted[field.name].simpleString()
    }
    return rows.withColumns(changed) if changed else rows


def _conformed_column(values: Column, kind: DataType, wanted: DataType) -> Column:
    """Return values of one type as those of another. Fields that they lack are null."""
    if kind.simpleString() == wanted.simpleString():
        return values.cast(wanted)
    if isinstance(kind, StructType) and isinstance(wanted, StructType):
        found = {field.name: field.dataType for field in kind}
        fields = [
            _conformed_column(values.getField(field.name), found[field.name], field.dataType)
            if field.name in found
            else F.lit(None).cast(field.dataType)
            for field in wanted
        ]
        named = (column.alias(field.name) for column, field in zip(fields, wanted, strict=True))
        return F.when(values.isNotNull(), F.struct(*named))
    if isinstance(kind, ArrayType) and isinstance(wanted, ArrayType):
        part, wanted_part = kind.elementType, wanted.elementType
        return F.transform(values, lambda value: _conformed_column(value, part, wanted_part))
    if isinstance(kind, MapType) and isinstance(wanted, MapType):
        part, wanted_part = kind.valueType, wanted.valueType
        return F.transform_values(values, lambda _, value: _conformed_column(value, part, wanted_part))
    return values.cast(wanted)
