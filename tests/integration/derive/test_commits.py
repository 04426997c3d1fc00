"""Commits of derived tables: lost responses, concurrent runs, other writers, and wrong files."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive import run as derive_run
from kinesis_assets.derive.commit import UPSERT_TRIES
from kinesis_assets.derive.data_files import BATCH_COLUMN
from kinesis_assets.derive.derivation import Upsert
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.derived_table import DerivedSnapshot
from kinesis_assets.derive.policy import OnDeleted
from kinesis_assets.errors import (
    CursorConflict,
    DataFileInvalid,
    PositionsUnreadable,
    TableRewritten,
    UpsertOvertaken,
)
from support.derived import order, orders
from support.formats import derived_rows

BY_ID = Upsert(key=("id",), order_by=("amount",))


@pytest.fixture(params=["append", "upsert"])
def either(request, derived):
    """A derived table without and with a key."""
    if request.param == "upsert":
        derived.derivation = replace(derived.derivation, mode=BY_ID)
    return derived


@pytest.fixture
def at_commit(monkeypatch):
    """Replace the next commit: the replacement gets a function that commits."""
    real = DerivedSnapshot.commit

    def at_commit(replacement):
        def commit(snapshot, *arguments, **options):
            monkeypatch.setattr(DerivedSnapshot, "commit", real)
            replacement(lambda: real(snapshot, *arguments, **options))

        monkeypatch.setattr(DerivedSnapshot, "commit", commit)

    return at_commit


def land(bench, *orders):
    bench.put(*orders)
    bench.run()


def test_a_commit_whose_response_is_lost_is_found_and_not_repeated(bench, either, at_commit):
    def lost(commit):
        commit()
        raise OSError("connection reset")

    land(bench, order(1))
    either.run()
    land(bench, order(1, 2.0), order(2))
    at_commit(lost)
    (commit,) = either.run()
    assert commit.rows == 2
    assert either.run() == []


def test_a_commit_that_fails_is_tried_again(bench, either, at_commit):
    def failed(_):
        raise OSError("connection refused")

    land(bench, order(1))
    at_commit(failed)
    either.run()
    assert either.values("id") == [1]


def test_of_two_runs_at_once_one_consumes_the_rows(bench, either, at_commit):
    def overtaken(commit):
        either.run()
        commit()

    land(bench, order(1))
    either.run()
    land(bench, order(2), order(3))
    at_commit(overtaken)
    with pytest.raises(CursorConflict):
        either.run()
    assert either.values("id") == [1, 2, 3]


def test_a_run_that_opened_the_source_before_another_one_consumed_more_rebuilds_nothing(
    bench, derived, monkeypatch
):
    real = derive_run.open_source

    def opened_early(*arguments):
        source = real(*arguments)
        monkeypatch.setattr(derive_run, "open_source", real)
        land(bench, order(2))
        derived.run()
        return source

    land(bench, order(1))
    derived.run()
    monkeypatch.setattr(derive_run, "open_source", opened_early)
    derived.run(on_deleted=OnDeleted.REBUILD)
    records = derived.table.entries.back_from(derived.table.snapshot().newest)
    assert [(record.rows, record.deleted) for record in records] == [(1, 0), (1, 0)]


def test_two_runs_add_the_same_column_once(bench, derived, monkeypatch):
    real = derive_run.accept_columns

    def with_note(new):
        return orders(new).withColumn("note", F.lit("new"))

    def overtaken(snapshot, schema):
        monkeypatch.setattr(derive_run, "accept_columns", real)
        derived.run(transform=with_note)
        real(snapshot, schema)

    land(bench, order(1))
    derived.run()
    land(bench, order(2))
    monkeypatch.setattr(derive_run, "accept_columns", overtaken)
    with pytest.raises(CursorConflict):
        derived.run(transform=with_note)
    assert derived.values("id", "note") == [(1, None), (2, "new")]


def test_files_are_written_again_if_another_run_created_the_table_with_wider_types(
    bench, derived, monkeypatch
):
    real = derive_run.write

    def write(table, schema, changed, job):
        monkeypatch.setattr(derive_run, "write", real)
        types = {"item": "string", "id": "long", BATCH_COLUMN: "long"}
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()
        ]
        table.open_or_create(source.id, {"type": "struct", "fields": fields}, ())
        return real(table, schema, changed, job)

    land(bench, order(1, item="x"))
    source = open_source(bench.table.uri)
    monkeypatch.setattr(derive_run, "write", write)
    derived.run(transform=lambda new: orders(new).select("id", "item"))
    assert derived.values("id", "item") == [(1, "x")]
    (path,) = DeltaTable(derived.table.folder.uri).file_uris()
    assert pq.read_schema(path).field("id").type == pa.int64()


def test_an_append_is_refused_after_a_restore_came_first(bench, derived, at_commit):
    def restored(commit):
        DeltaTable(derived.table.uri).restore(1)
        commit()

    for number in (1, 2):
        land(bench, order(number))
        derived.run()
    land(bench, order(3))
    at_commit(restored)
    with pytest.raises(TableRewritten):
        derived.run()
    assert derived.values("id") == [1]


def test_an_upsert_is_planned_again_after_a_compaction_came_first(bench, either, at_commit):
    def compacted(commit):
        DeltaTable(either.table.uri).optimize.compact()
        commit()

    for amount in (1.0, 2.0):
        land(bench, order(int(amount), amount))
        either.run()
    land(bench, order(1, 3.0), order(3, 3.0))
    at_commit(compacted)
    either.run()
    assert len(either.values("id")) == (4 if either.derivation.mode is None else 3)


def test_an_upsert_is_planned_again_after_another_writer_added_its_key(bench, derived, at_commit):
    derived.derivation = replace(derived.derivation, mode=BY_ID)

    def written(commit):
        rows = derived_rows(derived.table).slice(0, 1)
        amount = rows.schema.get_field_index("amount")
        write_deltalake(derived.table.uri, rows.set_column(amount, "amount", pa.array([5.0])), mode="append")
        commit()

    land(bench, order(1, 1.0))
    derived.run()
    land(bench, order(1, 2.0))
    at_commit(written)
    derived.run()
    assert derived.values("id", "amount") == [(1, 5.0)]


@pytest.mark.thorough
def test_an_upsert_is_planned_again_a_bounded_number_of_times(bench, derived, monkeypatch):
    derived.derivation = replace(derived.derivation, mode=BY_ID)
    land(bench, order(1))
    derived.run()
    real, tries = DerivedSnapshot.commit, []

    def commit(snapshot, record, *files, **options):
        tries.append(record.batch_id)
        DeltaTable(derived.table.uri).alter.set_table_properties(
            {"delta.checkpointInterval": str(len(tries) + 1)}
        )
        real(snapshot, record, *files, **options)

    monkeypatch.setattr(DerivedSnapshot, "commit", commit)
    land(bench, order(1, 2.0))
    with pytest.raises(UpsertOvertaken):
        derived.run()
    assert len(tries) == UPSERT_TRIES


def test_a_file_that_vanished_before_the_commit_fails_the_run(bench, derived, monkeypatch):
    real = derive_run.write

    def write(table, *arguments):
        manifest = real(table, *arguments)
        table.files.delete_file(manifest.files[0].path)
        return manifest

    monkeypatch.setattr(derive_run, "write", write)
    land(bench, order(1))
    with pytest.raises(DataFileInvalid):
        derived.run()
    assert derived.table.snapshot().newest is None


def test_a_record_with_another_ones_content_is_not_believed(bench, derived):
    for number in (1, 2):
        land(bench, order(number))
        derived.run()
    newest = derived.table.snapshot().newest
    files = derived.table.files
    files.copy_file(f"_kinesis/derived/{newest.previous}.json", f"_kinesis/derived/{newest.commit_id}.json")
    derived.table.entries._cache = type(derived.table.entries._cache)()  # as another process reads it
    with pytest.raises(PositionsUnreadable):
        derived.run()
