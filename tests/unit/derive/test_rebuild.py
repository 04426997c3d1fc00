"""A derived table without rows gets other columns; a lost one is not created again."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kinesis_assets.derive.commit import Attempt, commit
from kinesis_assets.derive.commit_entry import Definition, Kind, RememberedDeletions
from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.derive.data_files import DELETIONS_FOLDER, DerivedFileWriter
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.rebuild import prepare_columns, restarted
from kinesis_assets.derive.remembered_deletions import deletion_files
from kinesis_assets.derive.write import writing_job
from kinesis_assets.errors import TableUnsuitable, UpsertOvertaken
from kinesis_assets.table.column_schemas import arrow_schema
from kinesis_assets.table.commit_ids import new_id
from support.plain_derived import PlainDerived

SOURCE = "11111111-2222-3333-4444-555555555555"


def schema(kind):
    fields = [("_batch_id", "long"), ("at", kind)]
    return {
        "type": "struct",
        "fields": [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in fields],
    }


@pytest.fixture
def snapshot(tmp_path):
    return DerivedTable(str(tmp_path / "orders")).open_or_create(SOURCE, schema("string"), ())


def test_the_feature_of_a_new_type_is_added_once(snapshot):
    prepare_columns(snapshot, schema("timestamp_ntz"))
    delta = DeltaTable(snapshot.table.uri)
    assert "timestampNtz" in delta.protocol().writer_features
    prepare_columns(snapshot.table.snapshot(), schema("timestamp_ntz"))
    assert DeltaTable(snapshot.table.uri).version() == delta.version()


def test_a_version_that_another_commit_has_overtaken_is_refused(snapshot):
    DeltaTable(snapshot.table.uri).alter.set_table_properties({"delta.appendOnly": "false"})
    with pytest.raises(UpsertOvertaken):
        prepare_columns(snapshot, schema("timestamp_ntz"))


class Source:
    start = Cursor(source=SOURCE, history=-1)
    keeps_rows = True


def test_a_table_that_only_remembers_deletions_forgets_them_before_it_gets_other_types(snapshot):
    table, definition = snapshot.table, Definition(kind=Kind.UPSERT, key=("at",))
    batch_id = new_id(table.clock)
    job = writing_job(table, arrow_schema(schema("string")), (), batch_id)
    writer = DerivedFileWriter(replace(job, prefix=f"{DELETIONS_FOLDER}/"))
    writer.write(pa.RecordBatch.from_pylist([{"_batch_id": batch_id, "at": "a"}], job.schema))
    files = deletion_files(writer.close(), job.schema, ("at",), datetime.now(UTC))
    commit(
        table,
        Attempt(
            cursor=Cursor(source=SOURCE, commit=7),
            batch_id=batch_id,
            deletions=RememberedDeletions(order_by=("at",), seconds=60, files=files),
        ),
        expected=None,
    )
    assert not table.snapshot().is_empty
    restarted(Source(), table.snapshot(), schema("long"), definition, "a test")
    present = table.snapshot()
    assert (present.is_empty, present.newest.cursor, present.newest.previous) == (True, Source.start, None)
    assert present.schema == schema("string")
    restarted(Source(), present, schema("long"), definition, "a test")
    assert table.snapshot().schema == schema("long")


@pytest.mark.slow
def test_no_table_is_created_in_the_folder_of_one_whose_log_was_deleted(tmp_path):
    PlainDerived(tmp_path / "orders").append((1, 10, "a"))
    shutil.rmtree(tmp_path / "orders" / "_delta_log")
    with pytest.raises(TableUnsuitable, match="Restore the folder _delta_log"):
        PlainDerived(tmp_path / "orders")
