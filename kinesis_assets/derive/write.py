"""Writes the changed rows of a step to data files of a derived table, without committing them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import StructType

from kinesis_assets.derive.data_files import (
    BATCH_COLUMN,
    CHANGES_FOLDER,
    Manifest,
    WritingJob,
    is_new_file,
)
from kinesis_assets.derive.read import FILE_COLUMN, POSITION_COLUMN, in_schema, shuffle_tasks
from kinesis_assets.derive.writing_task import writing_task
from kinesis_assets.ingest.manifest import decode_all, invalid
from kinesis_assets.spark.arrow_steps import is_mapped, map_in_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from kinesis_assets.derive.changed_rows import ChangedRows
    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.spark.arrow_steps import ArrowStep


def write(snapshot: DerivedSnapshot, changed: ChangedRows, batch_id: int) -> Manifest:
    """Write rows to new files in the table's folder.

    Only files whose manifest is returned count: an attempt of a task that was repeated or killed leaves files
    that no version of the table refers to.

    Args:
        snapshot: The version of the table whose columns the files get.
        changed: The rows, and the files that are copied without some of theirs.
        batch_id: The attempt's batch id, which new rows get.

    Returns:
        The files of all tasks.

    Raises:
        LandingFailed: A task returned an invalid manifest, or the copies lack rows.
        DataFileInvalid: A file is missing, or does not have its rows.
    """
    job = replace(writing_job(snapshot, batch_id), removed=dict(changed.removed))
    rows = _with_columns(changed, StructType.fromJson(snapshot.schema), job)
    contents = [row[0] for row in map_in_arrow(rows, writing_task(job), "manifest binary").collect()]
    subject = f"table {snapshot.table.uri}"
    manifest = sum(decode_all(subject, contents, Manifest), Manifest())
    check_names(snapshot, manifest, batch_id)
    expected = [file.rows for file in changed.removed.values()]
    copied = sum(file.rows - file.new_rows for file in manifest.files)
    copied += sum(file.rows for file in manifest.replaced)
    if None not in expected and copied != sum(filter(None, expected)):
        raise invalid(subject, f"{copied} rows in copies of files with {expected} rows")
    return manifest


def writing_job(snapshot: DerivedSnapshot, batch_id: int) -> WritingJob:
    """Return the settings of the tasks that write an attempt's files. The arguments are those of `write`."""
    return WritingJob(
        folder=snapshot.table.folder,
        schema=pa.schema(snapshot.delta.schema().to_arrow()),
        partition_by=tuple(snapshot.delta.metadata().partition_columns),
        batch_id=batch_id,
        layout=snapshot.table.policy.data_files,
    )


def check_names(snapshot: DerivedSnapshot, manifest: Manifest, batch_id: int) -> None:
    """Check that an attempt may have written the files of its manifest.

    Raises:
        LandingFailed: It cannot have written one of them.
    """
    paths = [file.path for file in (*manifest.files, *manifest.replaced)]
    if (
        len(set(paths)) < len(paths)
        or not all(is_new_file(file, batch_id) for file in manifest.files)
        or not all(is_new_file(file, batch_id, f"{CHANGES_FOLDER}/") for file in manifest.replaced)
    ):
        raise invalid(f"table {snapshot.table.uri}", "a file that this attempt did not write")


def _with_columns(changed: ChangedRows, fields: StructType, job: WritingJob) -> DataFrame:
    """Return the rows with the columns of the table."""
    rows = _grouped_by_file(changed) if changed.removed else changed.rows
    types, wanted = (
        {field.name: field.dataType.simpleString() for field in each} for each in (rows.schema, fields)
    )
    if is_mapped(rows) and types.items() <= wanted.items():  # no value has to be cast
        return map_in_arrow(rows, _adding(job.schema, job.batch_id), fields)
    columns = []
    for field in fields:
        column = F.col(f"`{field.name}`") if field.name in types else F.lit(None)
        if field.name == BATCH_COLUMN:
            column = F.lit(job.batch_id)
        columns.append(column.cast(field.dataType).alias(field.name))
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
