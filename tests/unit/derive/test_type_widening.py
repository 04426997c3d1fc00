"""The copies of a table's files with wider columns: what is recorded, and how they replace the files."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kinesis_assets.derive.commit import Attempt, commit
from kinesis_assets.derive.data_files import GROWTH_FOLDER, CopiedFile, Manifest
from kinesis_assets.derive.derived_table import refuse_rewritten
from kinesis_assets.derive.type_widening import MAX_COPY_AGE, recorded_copies
from kinesis_assets.derive.write import writing_job
from kinesis_assets.derive.writing_task import copying_task
from kinesis_assets.errors import UpsertOvertaken
from kinesis_assets.ingest.manifest import decode_all
from kinesis_assets.table.column_schemas import arrow_schema
from kinesis_assets.table.commit_ids import new_id
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
    assert set(recorded_copies(derived.table, with_note(schema))) == {"a", "b", "c"}


def test_maintenance_deletes_records_after_a_day(derived):
    record(derived, derived.table.snapshot().schema, "a")
    steps = steps_of(derived)
    assert ("prune", GROWTH_FOLDER) not in steps
    (info,) = files_in(derived.table.files, GROWTH_FOLDER)
    assert ("prune", GROWTH_FOLDER) in steps_of(derived, info.mtime + timedelta(hours=25))
    assert files_in(derived.table.files, GROWTH_FOLDER) == []
