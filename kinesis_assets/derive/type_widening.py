"""Lets the types of a table's columns grow without a rebuild: its files are rewritten with the wider types.

The copies are written beside the table in bounded steps, each of which is recorded in a file. A run that was
killed continues after the last of them, also if others have changed the table since: only files that have
no copy are copied again. Then one commit replaces all files and the columns. It is refused if another one
came after the version whose files were copied. A copy has the rows of its file with their batch ids, so
tables that are derived from this one go on where they were.

Readers see either all of it or nothing. Copies that no commit has used are deleted by vacuum, so they are no
longer used when they are old.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from kinesis_assets.derive.commit import Attempt, commit, until_not_overtaken
from kinesis_assets.derive.data_files import GROWTH_FOLDER, CopiedFile, Manifest, is_new_file
from kinesis_assets.derive.read import TASK_BYTES, groups_of_files, parts_of
from kinesis_assets.derive.rebuild import position_after, prepare_columns
from kinesis_assets.derive.schema import accepted_schema, growing
from kinesis_assets.derive.write import writing_job
from kinesis_assets.derive.writing_task import copying_task
from kinesis_assets.errors import AttemptExpired, DataFileInvalid
from kinesis_assets.ingest.manifest import decode_all, invalid
from kinesis_assets.spark.arrow_steps import map_in_arrow
from kinesis_assets.spark.session import parallelism
from kinesis_assets.table.commit_ids import new_id, time_of_id
from kinesis_assets.table.commits.commit import MAX_ATTEMPT_AGE, check_files
from kinesis_assets.table.data_file import REWRITTEN_FILES
from kinesis_assets.table.maintenance.pruning import files_by_id
from kinesis_assets.table.store.chain import write_file
from kinesis_assets.table.store.storage import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from kinesis_assets.derive.commit_entry import Definition, DerivedCommit
    from kinesis_assets.derive.derived_table import DerivedSnapshot, DerivedTable
    from kinesis_assets.derive.source import Source
    from kinesis_assets.table.data_file import TableFile

MAX_COPY_AGE = 2 * MAX_ATTEMPT_AGE
"""Maximum age of a copy that is committed. Spark's VACUUM, with the table's own retention of a day, may soon
delete older ones. It is longer than for rows, so that a large table can be rewritten."""


class _Copies(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    columns: dict[str, Any]
    files: tuple[CopiedFile, ...]


def grow(
    spark: SparkSession,
    table: DerivedTable,
    source: Source,
    wanted: dict[str, Any],
    definition: Definition,
    *,
    expected: int | None,
    step_bytes: float,
    by: str | None,
) -> DerivedCommit | None:
    """Rewrite the files of a table so that new rows fit its columns, and commit them with the columns.

    Args:
        wanted: The schema of the new rows, which the table must accept, see `accepted_schema`.
        expected: The id of the table's newest commit, which must be the newest still.
        step_bytes: Size of the files that are copied in one step.

    Returns:
        The commit; None if another run has made it.

    Raises:
        AttemptExpired: The copies are too old before all are written.
        DataFileInvalid: A file does not have the rows that the log names; nothing was committed.
        CursorConflict: A run has committed meanwhile; its rows are copied by the next run.
    """
    started = table.clock.time()

    def attempt() -> DerivedCommit | None:
        base = table.snapshot()
        base.refuse_irreplaceable()
        schema = accepted_schema(base, wanted)
        columns = growing(base, schema)
        if not columns:
            return None
        prepare_columns(base, schema)
        base = table.snapshot()
        # The values of partition columns are in the log, as texts.
        removed = [] if set(columns) <= set(base.partition_by) else base.data_files()
        recorded = recorded_copies(table, schema)
        while True:
            copied = usable_copies(table, recorded)
            missing = [file for file in removed if file.path not in copied]
            if not missing:
                break
            if table.clock.time() - started > MAX_COPY_AGE.total_seconds():
                raise AttemptExpired(
                    table.uri,
                    f"its files could not be rewritten with wider types within {MAX_COPY_AGE}. Nothing was "
                    "committed. Give the run more cores, or rebuild the table",
                )
            batch_id, files = _copy(spark, base, schema, next(parts_of(missing, step_bytes)))
            recorded[batch_id] = files
        cursor, consumed = position_after(source, base.newest)
        return commit(
            table,
            Attempt(
                cursor=cursor,
                batch_id=new_id(table.clock),
                manifest=Manifest(tuple(copy for file in removed for copy in copied[file.path].copies)),
                definition=definition,
                consumed=consumed,
                by=by,
            ),
            expected=expected,
            removed=removed,
            base=base,
            columns=schema,
        )

    made = until_not_overtaken(table, attempt)
    if made is not None:
        for batch_id in files_by_id(table.files, GROWTH_FOLDER):
            with suppress(OSError):  # maintenance deletes what is left
                table.files.delete_file(_record_path(batch_id))
    return made


def recorded_copies(table: DerivedTable, schema: Mapping[str, Any]) -> dict[int, Sequence[CopiedFile]]:
    """Return the files of a table that steps have copied with a schema, by the batch id of the step.

    Steps whose record is damaged or for other columns are left out.
    """
    found: dict[int, Sequence[CopiedFile]] = {}
    for batch_id in files_by_id(table.files, GROWTH_FOLDER):
        with suppress(FileNotFoundError, *DAMAGED):
            with table.files.open_input_file(_record_path(batch_id)) as opened:
                record = msgspec.json.decode(opened.read(), type=_Copies)
            if record.columns == schema:
                found[batch_id] = record.files
    return found


def usable_copies(table: DerivedTable, recorded: Mapping[int, Sequence[CopiedFile]]) -> dict[str, CopiedFile]:
    """Return the files that steps have copied, by their path. Steps that are too old by now are left out."""
    oldest = table.clock.time() - MAX_COPY_AGE.total_seconds()
    return {
        file.path: file
        for batch_id, files in recorded.items()
        if time_of_id(batch_id) >= oldest
        for file in files
    }


def _record_path(batch_id: int) -> str:
    return f"{GROWTH_FOLDER}/{batch_id}.json"


def _copy(
    spark: SparkSession, base: DerivedSnapshot, schema: dict[str, Any], files: Sequence[TableFile]
) -> tuple[int, Sequence[CopiedFile]]:
    """Copy some files of a version of a table with other columns, and return what it records of them."""
    table, batch_id = base.table, new_id(base.table.clock)
    columns = table.format.file_schema(schema, base)
    job = replace(writing_job(table, columns, base.partition_by, batch_id), compression=REWRITTEN_FILES)
    tasks = max(parallelism(spark), sum(file.size for file in files) // TASK_BYTES)
    groups = groups_of_files(files, tasks)
    numbers = spark.range(0, len(groups), 1, len(groups))
    contents = [row[0] for row in map_in_arrow(numbers, copying_task(job, groups), "copied binary").collect()]
    copied = decode_all(f"table {table.uri}", contents, CopiedFile)
    _check(table, files, copied, batch_id)
    record = _Copies(schema, tuple(copied))
    write_file(table.files, _record_path(batch_id), msgspec.json.encode(record))
    return batch_id, copied


def _check(
    table: DerivedTable, files: Sequence[TableFile], copied: Sequence[CopiedFile], batch_id: int
) -> None:
    """Check that the copies of some files are complete.

    Raises:
        LandingFailed: The tasks cannot have returned them.
        DataFileInvalid: A file does not have the rows that the log names, or a copy is not there.
    """
    found = {each.path: each.copies for each in copied}
    new = [file for each in copied for file in each.copies]
    if sorted(each.path for each in copied) != sorted(file.path for file in files) or not all(
        is_new_file(file, batch_id, compression=REWRITTEN_FILES) and not file.new_rows for file in new
    ):
        raise invalid(f"table {table.uri}", "copies of other files than those to copy")
    for file in files:
        rows = sum(copy.rows for copy in found[file.path])
        if file.rows is not None and rows != file.rows:
            raise DataFileInvalid(
                table.uri,
                f"{file.path} has {rows} rows, but its log says {file.rows}. Nothing was changed. Rebuild "
                "the table",
            )
    check_files(table, batch_id, new)
