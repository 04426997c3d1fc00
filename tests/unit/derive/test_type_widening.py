"""The copies of a table's files with wider columns: what is recorded, how old they are, and how they replace
the files.
"""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import count
from types import SimpleNamespace
from typing import ClassVar

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kinesis_assets.derive.commit import Attempt, commit
from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.derive.data_files import (
    BATCH_COLUMN,
    GROWTH_FOLDER,
    CopiedFile,
    DerivedFileWriter,
    Manifest,
)
from kinesis_assets.derive.derived_table import DerivedTable, refuse_rewritten
from kinesis_assets.derive.type_widening import MAX_COPY_AGE, grow, recorded_copies, usable_copies
from kinesis_assets.derive.write import writing_job
from kinesis_assets.derive.writing_task import copying_task
from kinesis_assets.errors import UpsertOvertaken
from kinesis_assets.ingest.manifest import decode_all
from kinesis_assets.spark.local_settings import TASKS
from kinesis_assets.table.column_schemas import arrow_schema
from kinesis_assets.table.commit_ids import new_id, time_of_id
from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.store.storage import files_in
from support.plain_derived import PlainDerived, steps_of
from support.shifted_clock import ShiftedClock

pytestmark = pytest.mark.slow


@pytest.fixture
def derived(tmp_path):
    """A table with rows of two commits."""
    derived = PlainDerived(tmp_path / "derived", partitioned=False)
    derived.append((1, 1, "a"), (2, 2, None))
    derived.append((3, 3, "b"))
    return derived


def copied(derived, files, schema):
    """Copy files to others with a schema, as the tasks of a growth do."""
    job = writing_job(derived.table, arrow_schema(schema), (), new_id())
    numbers = iter([pa.record_batch({"id": pa.array([0], pa.int64())})])
    contents = [
        content
        for batch in copying_task(job, [list(enumerate(files))])(numbers)
        for content in batch["copied"].to_pylist()
    ]
    return decode_all("test", contents, CopiedFile)


def with_note(schema):
    note = {"name": "note", "type": "string", "nullable": True, "metadata": {}}
    return {"type": "struct", "fields": [*schema["fields"], note]}


def planned(derived):
    """Copy all files with a further column, and return the function that commits the copies."""
    base = derived.table.snapshot()
    schema = with_note(base.schema)
    copies = [copy for file in copied(derived, base.data_files(), schema) for copy in file.copies]
    return lambda: commit(
        derived.table,
        Attempt(cursor=base.newest.cursor, batch_id=new_id(), manifest=Manifest(tuple(copies))),
        expected=base.commit_id,
        removed=base.data_files(),
        base=base,
        columns=schema,
    )


def test_one_commit_replaces_all_files_and_the_columns(derived):
    rows, batch_ids, newest = derived.rows, derived.batch_ids, derived.table.snapshot().newest
    before = derived.active
    made = planned(derived)()
    assert (made.rows, made.cursor, made.previous) == (0, newest.cursor, newest.commit_id)
    assert (derived.rows, derived.batch_ids) == (rows, batch_ids)
    assert derived.active.isdisjoint(before)
    assert "note" in DeltaTable(derived.table.uri).to_pyarrow_table().column_names


def test_that_commit_is_not_taken_for_an_overwrite_of_another_program(derived):
    planned(derived)()
    refuse_rewritten(derived.table.snapshot())
    derived.append((4, 4, "c"))
    assert derived.rows.total() == 4


def test_a_table_below_consumes_no_row_again(derived, tmp_path):
    below = PlainDerived(tmp_path / "below", derived.id, partitioned=False)
    below.consume_all(derived)
    planned(derived)()
    derived.append((4, 4, "c"))
    below.consume_all(derived)
    assert below.rows == derived.rows


@pytest.mark.parametrize("interferes", ["compact", "append"])
def test_files_of_another_commit_are_not_removed(derived, interferes):
    grow = planned(derived)
    if interferes == "compact":
        DeltaTable(derived.table.uri).optimize.compact()
    else:
        derived.table.snapshot().set_properties({"delta.appendOnly": "false"})
    before, rows = derived.active, derived.rows
    with pytest.raises(UpsertOvertaken):
        grow()
    assert (derived.active, derived.rows) == (before, rows)


# Records


def record(derived, schema, *paths, age=timedelta()):
    """Record that files were copied, as a step of a growth does."""
    clock = ShiftedClock()
    clock.offset = -age.total_seconds()
    batch_id = new_id(clock)
    files = [{"path": path, "copies": []} for path in paths]
    content = msgspec.json.encode({"columns": schema, "files": files})
    write(derived, f"{batch_id}.json", content)


def write(derived, name, content):
    derived.table.files.create_dir(GROWTH_FOLDER, recursive=True)
    with derived.table.files.open_output_stream(f"{GROWTH_FOLDER}/{name}") as opened:
        opened.write(content)


def test_only_recent_copies_with_the_same_columns_are_used(derived):
    schema = derived.table.snapshot().schema
    record(derived, with_note(schema), "a", "b")
    record(derived, with_note(schema), "c")
    record(derived, schema, "of other columns")
    record(derived, with_note(schema), "old", age=MAX_COPY_AGE + timedelta(minutes=1))
    write(derived, "1.json", b"")
    write(derived, f"{new_id()}.json", b'{"columns": ')
    write(derived, f"{new_id()}.json", b'{"columns": {"\xff": 1}}')
    recorded = recorded_copies(derived.table, with_note(schema))
    assert set(usable_copies(derived.table, recorded)) == {"a", "b", "c"}


def test_maintenance_deletes_records_after_a_day(derived):
    record(derived, derived.table.snapshot().schema, "a")
    steps = steps_of(derived)
    assert ("prune", GROWTH_FOLDER) not in steps
    (info,) = files_in(derived.table.files, GROWTH_FOLDER)
    assert ("prune", GROWTH_FOLDER) in steps_of(derived, info.mtime + timedelta(hours=25))
    assert files_in(derived.table.files, GROWTH_FOLDER) == []


# Steps


class Jobs:
    """A session whose jobs run here.

    Args:
        before: Called before each job.
    """

    conf: ClassVar = {TASKS: "1"}

    def __init__(self, before):
        self._before = before

    def range(self, *_):
        return self

    def mapInArrow(self, step, _):  # noqa: N802  # as in Spark
        return SimpleNamespace(collect=lambda: self._collected(step))

    def _collected(self, step):
        self._before()
        numbers = iter([pa.record_batch({"id": pa.array([0], pa.int64())})])
        return [(content,) for batch in step(numbers) for content in batch["copied"].to_pylist()]


@pytest.fixture
def narrow(tmp_path):
    """A table with two files, whose column is to become a wider one. Its clock can be shifted."""
    table = DerivedTable(str(tmp_path / "narrow"), TablePolicy(clock=ShiftedClock()))
    expected = None
    for value in (1, 2):
        base = table.open_or_create("source", integers("integer"), ())
        batch_id = new_id(table.clock)
        writer = DerivedFileWriter(writing_job(table, base.file_schema, (), batch_id))
        row = {"value": value, BATCH_COLUMN: batch_id}
        writer.write(pa.RecordBatch.from_pylist([row], base.file_schema))
        attempt = Attempt(
            cursor=Cursor(source="source"), batch_id=batch_id, manifest=Manifest(tuple(writer.close()))
        )
        expected = commit(table, attempt, expected=expected).commit_id
    return table


def integers(kind):
    fields = [("value", kind), (BATCH_COLUMN, "long")]
    return {
        "type": "struct",
        "fields": [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in fields],
    }


def grown(table, before_job):
    """Let the columns of a table grow in steps of one file each."""
    newest = table.snapshot().newest
    return grow(
        Jobs(before_job),
        table,
        SimpleNamespace(),
        integers("long"),
        newest.definition,
        expected=newest.commit_id,
        step_bytes=1,
        by=None,
    )


def hours_since_written(table):
    """Return how long ago the attempts began that wrote the files of a table, in hours."""
    batch_ids = [int(re.search(r"part-(\d+)-", file.path)[1]) for file in table.snapshot().data_files()]
    return [(table.clock.time() - time_of_id(batch_id)) / 3600 for batch_id in batch_ids]


def die_at(number):
    """Return a function that raises an error at a call with a number, from 1."""
    calls = count(1)

    def die():
        if next(calls) == number:
            raise OSError("killed")

    return die


def test_a_growth_continues_after_the_copies_of_one_that_was_killed(narrow):
    with pytest.raises(OSError, match="killed"):
        grown(narrow, die_at(2))
    assert grown(narrow, die_at(2)) is not None
    assert narrow.snapshot().schema["fields"][0]["type"] == "long"


def test_copies_that_become_too_old_during_a_growth_are_written_again(narrow):
    with pytest.raises(OSError, match="killed"):
        grown(narrow, die_at(2))
    narrow.clock.advance(hours=MAX_COPY_AGE.total_seconds() / 3600 - 1)
    first = count()
    grown(narrow, lambda: narrow.clock.advance(hours=2 if next(first) == 0 else 0))
    assert max(hours_since_written(narrow)) < MAX_COPY_AGE.total_seconds() / 3600
