"""Rows without a partition key, in new tables and in tables of older releases."""

from __future__ import annotations

import msgspec
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kinesis_assets.errors import CommitOvertaken, TableUnsuitable
from kinesis_assets.table import data_file_writer as files_module
from kinesis_assets.table.commits import amend
from kinesis_assets.table.delta import raw_table as delta_module
from kinesis_assets.table.delta.raw_table import accept_null
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.snapshot import TableSnapshot
from support.attempts import (
    LISTED_AT,
    STREAM,
    Attempt,
    assert_rows_are_what_positions_say,
    current_positions,
    freeze_all,
    land,
    records,
    shards,
)
from support.conditions import Condition
from support.null_keys import ROWS, accepts_null, keys, make_old, mix, without_keys

pytestmark = pytest.mark.slow


@pytest.fixture
def old_table(table, monkeypatch):
    """A table with a file of an older release: three rows of shard a, none of b and c."""
    make_old(table, monkeypatch)
    return table


def operations(table):
    return [entry["operation"] for entry in DeltaTable(table.uri).history()]


def test_a_new_table_accepts_rows_without_a_key(table):
    without_keys(Attempt(table, freeze_all(table, shards("b")), {"b": 3})).commit()
    assert keys(table) == ROWS[3:]
    assert operations(table) == ["WRITE", "WRITE", "CREATE TABLE"]


def test_the_next_commit_makes_an_old_table_accept_rows_without_a_key(old_table):
    without_keys(Attempt(old_table, current_positions(old_table), {"b": 3})).commit()
    assert accepts_null(old_table)
    assert keys(old_table) == ROWS
    assert_rows_are_what_positions_say(old_table)
    without_keys(Attempt(old_table, current_positions(old_table), {"c": 1})).commit()
    assert operations(old_table).count("CHANGE COLUMN") == 1


def test_a_replay_makes_an_old_table_accept_rows_without_a_key(old_table):
    attempt = without_keys(Attempt(old_table, current_positions(old_table), {"b": 3}))
    amend.commit_missing_rows(
        old_table,
        identity=STREAM,
        version=old_table.snapshot().version,
        amendment=None,
        not_before=LISTED_AT,
        batch_id=attempt.batch_id,
        files=attempt.files,
        filled=attempt.added,
    )
    assert keys(old_table) == ROWS
    assert accepts_null(old_table)


def test_the_upgrade_of_an_old_table_changes_only_the_column(old_table):
    before = DeltaTable(old_table.uri)
    old_table.snapshot_for_rows()
    after = DeltaTable(old_table.uri)
    changed = [
        (one.name, one.type, one.nullable, other.nullable)
        for one, other in zip(before.schema().fields, after.schema().fields, strict=True)
        if one != other
    ]
    assert [(name, was, now) for name, _, was, now in changed] == [("partition_key", False, True)]
    assert sorted(before.file_uris()) == sorted(after.file_uris())
    old, new = before.metadata(), after.metadata()
    assert (old.id, old.configuration, old.partition_columns) == (
        new.id,
        new.configuration,
        new.partition_columns,
    )
    assert before.protocol() == after.protocol()


def test_a_table_that_does_not_accept_null_gets_no_rows(old_table):
    attempt = without_keys(Attempt(old_table, current_positions(old_table), {"b": 3}))
    positions = msgspec.structs.replace(current_positions(old_table), commit_id=attempt.batch_id)
    with pytest.raises(TableUnsuitable, match=r"\bpartition_key\b.*\bnull\b"):
        old_table.snapshot().commit(attempt.files, identity=STREAM, positions=positions)
    assert keys(old_table) == ROWS[:3]


def test_a_commit_started_before_the_upgrade_is_refused_once_and_then_succeeds(old_table, monkeypatch):
    """A run of an older release commits like this."""
    attempt = Attempt(old_table, current_positions(old_table), {"b": 3})
    original, refused = TableSnapshot.commit, []

    def commit(snapshot, *arguments, **named):
        if not accepts_null(old_table):
            DeltaTable(old_table.uri).alter.drop_column_not_null("partition_key")
        try:
            original(snapshot, *arguments, **named)
        except CommitOvertaken as error:
            refused.append(error)
            raise

    # The older release has no such check.
    monkeypatch.setattr(delta_module, "columns_without_null", lambda _: [])
    monkeypatch.setattr(TableSnapshot, "commit", commit)
    assert not attempt.commit().conflicts
    assert len(refused) == 1
    assert_rows_are_what_positions_say(old_table)
    assert accepts_null(old_table)


class Killed(BaseException):
    """The process is killed here."""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_during_the_upgrade_loses_no_rows(old_table, monkeypatch, after):
    def killed(delta):
        if after:
            accept_null(delta)
        raise Killed

    attempt = without_keys(Attempt(old_table, current_positions(old_table), {"b": 3}))
    with monkeypatch.context() as patch:
        patch.setattr(delta_module, "accept_null", killed)
        with pytest.raises(Killed):
            attempt.commit()
    assert accepts_null(old_table) is after
    assert keys(old_table) == ROWS[:3]
    without_keys(Attempt(old_table, current_positions(old_table), {"b": 3})).commit()
    assert keys(old_table) == ROWS
    assert_rows_are_what_positions_say(old_table)


@pytest.mark.parametrize("landed", [False, True])
def test_an_upgrade_that_fails_or_whose_response_is_lost_is_retried(old_table, monkeypatch, landed):
    failures = iter([OSError("connection reset")])

    def failing(delta):
        error = next(failures, None)
        if error is None or landed:
            accept_null(delta)
        if error is not None:
            raise error

    monkeypatch.setattr(delta_module, "accept_null", failing)
    without_keys(Attempt(old_table, current_positions(old_table), {"b": 3})).commit()
    assert keys(old_table) == ROWS
    assert operations(old_table).count("CHANGE COLUMN") == 1


# Readers and writers of old and new files in one table


@pytest.fixture
def mixed(old_table):
    """A table with an old file whose column is required, and a new file with nulls."""
    mix(old_table)
    return old_table


def test_duckdb_reads_old_and_new_files_of_one_table(mixed, duck):
    read = "SELECT shard_id, sequence_number, partition_key FROM delta_scan(?)"
    assert sorted(duck.execute(read, [mixed.uri]).fetchall(), key=str) == sorted(ROWS, key=str)
    nulls = "SELECT count(*) FROM delta_scan(?) WHERE partition_key IS NULL"
    assert duck.execute(nulls, [mixed.uri]).fetchall() == [(2,)]


def test_compaction_keeps_rows_without_a_key(mixed):
    day = mixed.snapshot().data_files()[0].partition["arrival_date"]
    DeltaOperations(mixed).compact(str(day), 100)
    assert len(list(mixed.snapshot().data_files())) == 1
    assert keys(mixed) == ROWS


def test_a_delete_keeps_the_other_rows_without_a_key(mixed):
    snapshot = mixed.snapshot()
    positions = msgspec.structs.replace(current_positions(mixed), commit_id=1)
    assert snapshot.remove(Condition("sequence_number = '1'"), identity=STREAM, positions=positions) == 2
    assert keys(mixed) == [row for row in ROWS if row[1] != "1"]


def test_rows_of_a_shard_are_removed_from_files_with_nulls(table):
    (file,) = land(
        table, 7, {"a": records(1, 2), "b": [msgspec.structs.replace(records(1, 1)[0], partition_key=None)]}
    )
    (rest,) = files_module.without_shards(table.files, file, {"a"})
    with table.files.open_input_file(rest.path) as source:
        assert pq.ParquetFile(source).read()["partition_key"].to_pylist() == [None]
