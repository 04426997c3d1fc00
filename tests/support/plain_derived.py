"""A derived table whose rows a test writes itself, without Spark, as a derivation does."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from copy import copy as copy_of
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kinesis_assets.dagster.table_rows import new_rows
from kinesis_assets.derive.commit import Attempt, commit, named_files
from kinesis_assets.derive.commit_entry import Redriven
from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.derive.data_files import (
    BATCH_COLUMN,
    CHANGES_FOLDER,
    ERRORS_FOLDER,
    DerivedFileWriter,
    Manifest,
)
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.maintenance import maintain
from kinesis_assets.derive.new_rows import rows_since
from kinesis_assets.derive.read import rows_of_file
from kinesis_assets.derive.write import writing_job
from kinesis_assets.table.commit_ids import new_id
from support.formats import delta_columns, derived_at, derived_format, derived_rows
from support.table_folder import folder_of
from support.timing import WRITING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.derive.data_files import DerivedFile, RecordCounts, WritingJob
    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.kinesis.role import AssumedRole
    from kinesis_assets.table.data_file import TableFile
    from kinesis_assets.table.format import DerivedIn
    from kinesis_assets.table.maintenance.steps import Step
    from kinesis_assets.table.policy import TablePolicy

Row = tuple[int, int, str | None]
"""Key, value and part of a row."""

COLUMNS = ("key", "value", "part")

_ERRORS = pa.schema({"data": pa.binary(), BATCH_COLUMN: pa.int64()})

_TYPES = {"key": "long", "value": "long", "part": "string", BATCH_COLUMN: "long"}


class PlainDerived:
    """A derived table with rows of `COLUMNS`.

    Args:
        path: The path or URI of its folder. The table is created.
        source: The id of its source.
        partitioned: Whether `part` is a partition column.
        role: The role that accesses the table.
        format: Its format; by default that of the tests.
    """

    def __init__(
        self,
        path: Path | str,
        source: str = "source",
        *,
        partitioned: bool = True,
        policy: TablePolicy = WRITING,
        role: AssumedRole | None = None,
        format: DerivedIn | None = None,  # noqa: A002  # as that of a table
    ) -> None:
        format_ = format or derived_format(str(path))
        self.table = DerivedTable(str(path), policy, role, format_)
        self.table.open_or_create(source, delta_columns(_TYPES), ["part"] if partitioned else [])
        self._format = format_
        self._source = source
        self._commits = 0

    def copied(self, path: Path) -> PlainDerived:
        """Copy the table to a folder, which may already contain its first versions, and return the copy."""
        shutil.copytree(folder_of(self.table), path, dirs_exist_ok=True)
        copy = copy_of(self)
        copy.table = derived_at(str(path), self.table.policy)
        return copy

    # Commits

    def append(
        self,
        *rows: Row,
        cursor: Cursor | None = None,
        counts: RecordCounts | None = None,
        errors: Iterable[bytes] | None = None,
        redriven: Iterable[bytes] | None = None,
        consumed: int | None = None,
    ) -> DerivedCommit:
        """Append rows, and separate records that could not be decoded, also of those that were redriven."""
        return self.planned(
            rows, cursor=cursor, counts=counts, errors=errors, redriven=redriven, consumed=consumed
        )()

    def upsert(self, *rows: Row) -> DerivedCommit:
        """Write rows in place of those with their keys."""
        return self.planned(rows, replacing=True)()

    def planned(
        self,
        rows: Iterable[Row],
        *,
        replacing: bool = False,
        cursor: Cursor | None = None,
        counts: RecordCounts | None = None,
        errors: Iterable[bytes] | None = None,
        redriven: Iterable[bytes] | None = None,
        consumed: int | None = None,
    ) -> Callable[[], DerivedCommit]:
        """Write the files of a commit, and return the function that commits them."""
        base, batch_id = self.table.snapshot(), new_id(self.table.clock)
        rows = list(rows)
        job = writing_job(self.table, base.file_schema, base.partition_by, batch_id)
        kept, changed = (
            DerivedFileWriter(job),
            DerivedFileWriter(replace(job, partition_by=(), prefix=f"{CHANGES_FOLDER}/")),
        )
        removed = self._files_with(base, {key for key, _, _ in rows}) if replacing else []
        for file in removed:
            for batch in self.read(base, file):
                new = pc.is_in(batch["key"], pa.array([key for key, _, _ in rows], pa.int64()))
                kept.write(batch.filter(pc.invert(new)))
                changed.write(batch.filter(new))
        kept.write(_batch(base.file_schema, rows, batch_id))
        job_apart = replace(job, schema=_ERRORS, partition_by=())
        errors_files = None if errors is None else _separated(errors, job_apart)
        again = None
        if redriven is not None:
            files = named_files(_separated(redriven, job_apart))
            left = sum(file.rows for file in errors_files or ())
            again = Redriven(records=files[0].rows, decoded=files[0].rows - left, files=files)
        self._commits += 1
        position = cursor or Cursor(source=self._source, commit=self._commits)
        manifest = Manifest(tuple(kept.close()), tuple(changed.close()))
        return lambda: commit(
            self.table,
            Attempt(
                cursor=position,
                batch_id=batch_id,
                manifest=manifest,
                counts=counts,
                errors=errors_files,
                redriven=again,
                consumed=consumed,
            ),
            expected=base.commit_id,
            removed=removed,
            base=base if replacing else None,
        )

    def rebuild(self) -> DerivedCommit:
        """Delete all rows, and start a new chain of entries."""
        base = self.table.snapshot()
        return commit(
            self.table,
            Attempt(cursor=Cursor(source=self._source), batch_id=new_id(self.table.clock)),
            expected=base.commit_id,
            removed=base.data_files(),
            base=base,
            restarts=True,
        )

    def consume(self, source: PlainDerived, max_bytes: int = 1 << 30) -> DerivedCommit | None:
        """Append what is new in another table, as a table that is derived from it does."""
        newest = self.table.snapshot().newest
        cursor = None if newest is None else newest.cursor
        opened = open_source(source.table.uri, format=source._format)
        rows = rows_since(opened, cursor, max_bytes)
        if newest is not None and rows.cursor == cursor:
            return None
        snapshot = source.table.snapshot()
        found = [
            (row["key"], row["value"], row["part"])
            for file in rows.files
            for batch in source.read(snapshot, file)
            for row in batch.to_pylist()
            if rows.selection.includes(row[BATCH_COLUMN])
        ]
        return self.append(*found, cursor=rows.cursor)

    def consume_all(self, source: PlainDerived, max_bytes: int = 1 << 30) -> None:
        """Consume all rows of another table, step by step."""
        while self.consume(source, max_bytes) is not None:
            pass

    # Contents

    @property
    def id(self) -> str:
        """The table's id."""
        return self.table.snapshot().id

    @property
    def rows(self) -> Counter[Row]:
        """The rows of the table."""
        found = derived_rows(self.table).select(COLUMNS).to_pydict()
        return Counter(zip(*(found[name] for name in COLUMNS), strict=True))

    @property
    def batch_ids(self) -> Counter[int]:
        """The number of rows by batch id."""
        return Counter(derived_rows(self.table)[BATCH_COLUMN].to_pylist())

    @property
    def active(self) -> set[str]:
        """The paths of the data files of the newest version."""
        return {file.path for file in self.table.snapshot().data_files()}

    def replaced(self, cursor: Cursor) -> list[int]:
        """Return the values of the rows that commits after a position replaced, as a roll-up reads them."""
        values: list[int] = []
        for file in new_rows(self.table.uri, cursor).replaced:
            with self.table.files.open_input_file(file.path) as source:
                values += pq.read_table(source)["value"].to_pylist()
        return sorted(values)

    def read(self, snapshot: DerivedSnapshot, file: TableFile) -> Iterable[pa.RecordBatch]:
        """Read a file of a version of the table."""
        return rows_of_file(self.table.files, file, snapshot.file_schema)

    def _files_with(self, snapshot: DerivedSnapshot, keys: set[int]) -> list[TableFile]:
        return [
            file
            for file in snapshot.data_files()
            if any(keys & {*batch["key"].to_pylist()} for batch in self.read(snapshot, file))
        ]


def _separated(records: Iterable[bytes], job: WritingJob) -> list[DerivedFile]:
    writer = DerivedFileWriter(replace(job, prefix=f"{ERRORS_FOLDER}/"))
    for data in records:
        writer.write(pa.RecordBatch.from_pylist([{"data": data, BATCH_COLUMN: job.batch_id}], _ERRORS))
    return writer.close()


def _batch(schema: pa.Schema, rows: Iterable[Row], batch_id: int) -> pa.RecordBatch:
    values: list[Mapping[str, Any]] = [
        {**dict(zip(COLUMNS, row, strict=True)), BATCH_COLUMN: batch_id} for row in rows
    ]
    return pa.RecordBatch.from_pylist(values, schema=schema)


def steps_of(
    derived: PlainDerived,
    service: datetime | None = None,
    machine: datetime | Callable[[], datetime] | None = None,
    **options: Any,
) -> dict[tuple[str, str], Step]:
    """Run maintenance of a table, and return its steps by name and object.

    Args:
        derived: The table.
        service: The time of the service; now by default.
        machine: The time of the machine, or a clock; the time of the service by default.
        options: Other arguments of `maintain`.
    """
    time = service or datetime.now(UTC)
    clock = machine if callable(machine) else lambda: machine or time
    return {(step.step, step.of): step for step in maintain(derived.table, time, machine=clock, **options)}


def flatten(derived: PlainDerived) -> None:
    """Move all data files of a table's first versions out of their folders, as older releases wrote them."""
    folder = folder_of(derived.table)
    for entry in (folder / "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in entry.read_text().splitlines()]
        for file in (line[kind] for line in lines for kind in ("add", "remove") if kind in line):
            path, file["path"] = unquote(file["path"]), file["path"].rpartition("/")[2]
            if (folder / path).exists():
                (folder / path).rename(folder / file["path"])
        entry.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
