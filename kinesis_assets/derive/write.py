"""Writes a DataFrame to data files of a derived table, without committing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import StructType

from kinesis_assets.derive.data_files import (
    BATCH_COLUMN,
    CHANGES_FOLDER,
    REPLACED_COLUMN,
    Manifest,
    WritingJob,
    is_new_file,
    writing_task,
)
from kinesis_assets.ingest.manifest import decode_all, invalid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kinesis_assets.derive.derived_table import DerivedSnapshot


def write(snapshot: DerivedSnapshot, rows: DataFrame, batch_id: int) -> Manifest:
    """Write rows to new files in the table's folder.

    Only files whose manifest is returned count: an attempt of a task that was repeated or killed leaves files
    that no version of the table refers to.

    Args:
        snapshot: The version of the table whose columns the files get.
        rows: The rows. Those without a batch id get the attempt's. Those that are marked by
            `REPLACED_COLUMN` are written to files that are not part of the table.
        batch_id: The attempt's batch id.

    Returns:
        The files of all tasks.

    Raises:
        LandingFailed: A task returned an invalid manifest.
        DataFileInvalid: A file is missing, or does not have its rows.
    """
    columns = []
    for field in StructType.fromJson(snapshot.schema):
        column = F.col(f"`{field.name}`") if field.name in rows.columns else F.lit(None)
        if field.name == BATCH_COLUMN:
            column = F.coalesce(column, F.lit(batch_id))
        columns.append(column.cast(field.dataType).alias(field.name))
    is_replaced = F.col(REPLACED_COLUMN) if REPLACED_COLUMN in rows.columns else F.lit(False)
    written = rows.select(*columns, is_replaced.alias(REPLACED_COLUMN))
    task = writing_task(writing_job(snapshot, batch_id))
    contents = [row[0] for row in written.mapInArrow(task, "manifest binary").collect()]
    manifest = sum(decode_all(f"table {snapshot.table.uri}", contents, Manifest), Manifest())
    check_names(snapshot, manifest, batch_id)
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
