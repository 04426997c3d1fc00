"""Commits of rows and positions."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from deltalake import DeltaTable

from kinesis_assets.kinesis.stream import Shard
from kinesis_assets.table.commits.commit import commit
from kinesis_assets.table.raw_table import PositionedTable
from support.attempts import (
    BEGINNING,
    Attempt,
    assert_rows_are_what_positions_say,
    current_positions,
    listing,
    rows_by_shard,
    shards,
)
from support.formats import append, rows_of


def test_rows_and_positions_are_committed_together(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3, "b": 2})
    assert rows_by_shard(table) == {}
    result = attempt.commit()
    assert rows_by_shard(table) == {"a": [1, 2, 3], "b": [1, 2]}
    assert_rows_are_what_positions_say(table)
    assert (result.version, result.conflicts) == (table.snapshot().version, {})
    assert list(result.files) == attempt.files


def test_committed_positions_refer_to_the_previous_ones(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3})
    attempt.commit()
    now = current_positions(table)
    assert (now.previous, now.generation, now.batch_id) == (frozen.commit_id, 1, attempt.batch_id)
    assert now.commit_id > frozen.commit_id


def test_every_row_contains_the_batch_id_of_its_attempt(table, frozen):
    first = Attempt(table, frozen, {"a": 2})
    first.commit()
    second = Attempt(table, current_positions(table), {"a": 1})
    second.commit()
    rows = rows_of(table, ["sequence_number", "batch_id"]).to_pylist()
    assert {(row["sequence_number"], row["batch_id"]) for row in rows} == {
        ("1", first.batch_id),
        ("2", first.batch_id),
        ("3", second.batch_id),
    }


def test_a_commit_without_files_adds_no_rows(table, frozen):
    attempt = Attempt(table, frozen, {"a": 0})
    attempt.moved = {"a": msgspec.structs.replace(frozen.shards["a"], finished=True)}
    attempt.files = []
    attempt.commit()
    assert current_positions(table).finished == {"a"}
    assert rows_by_shard(table) == {}


def test_committed_positions_include_shards_listed_during_the_attempt(table, frozen):
    attempt = Attempt(table, frozen, {"a": 1})
    listed = [*shards("a", "b", "c"), Shard("child", ("a",), ("0", "4"), "8")]
    seen = listing(listed)
    commit(
        table,
        expected=frozen.with_listing(seen),
        listing=seen,
        batch_id=attempt.batch_id,
        moved=attempt.moved,
        files=attempt.files,
        added=attempt.added,
    )
    assert current_positions(table).shards["child"].position == BEGINNING


def test_a_crash_before_the_commit_leaves_no_rows_and_the_old_positions(table, frozen):
    Attempt(table, frozen, {"a": 3})
    assert rows_by_shard(table) == {}
    assert current_positions(table) == frozen


def test_a_crash_between_positions_file_and_log_entry_leaves_the_old_positions(table, frozen, at_commit):
    class Killed(BaseException):
        pass

    def killed(*arguments):
        *_, positions = arguments
        Path(table.uri, f"_kinesis/positions/{positions.commit_id}.json").write_bytes(b"{")
        raise Killed

    at_commit(killed)
    with pytest.raises(Killed):
        Attempt(table, frozen, {"a": 3}).commit()
    assert current_positions(table) == frozen
    assert rows_by_shard(table) == {}
    Attempt(table, frozen, {"a": 3}).commit()
    assert_rows_are_what_positions_say(table)


def test_a_commit_opens_the_table_once(table, frozen, monkeypatch):
    attempt = Attempt(table, frozen, {"a": 3})
    opened = []
    original = PositionedTable.snapshot
    monkeypatch.setattr(PositionedTable, "snapshot", lambda table: opened.append(1) or original(table))
    monkeypatch.delattr(DeltaTable, "history")
    assert attempt.commit().version == 2
    assert len(opened) == 1


@pytest.mark.parametrize(
    "table", ["delta"], indirect=True
)  # an Iceberg commit is refused after any other one
def test_a_commit_returns_its_own_version_even_if_another_landed_first(table, frozen, at_commit):
    def after_another(real, snapshot, files, positions):
        append(table, [])
        real(snapshot, files, positions)
        Attempt(table, current_positions(table), {"b": 2}).commit()

    at_commit(after_another)
    assert Attempt(table, frozen, {"a": 3}).commit().version == 3
    assert table.snapshot().version == 4
    assert_rows_are_what_positions_say(table)


def test_a_try_that_succeeds_without_a_log_entry_is_repeated(table, frozen, at_commit):
    at_commit(lambda *_: None)
    result = Attempt(table, frozen, {"a": 3}).commit()
    assert (result.version, result.conflicts) == (2, {})
    assert_rows_are_what_positions_say(table)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["delta"], indirect=True)
def test_commits_write_checkpoints_at_intervals(table, frozen):
    for _ in range(21):
        Attempt(table, current_positions(table), {"a": 1}).commit()
    (checkpoint,) = Path(table.uri, "_delta_log").glob("*.checkpoint.parquet")
    assert checkpoint.name == f"{19:020}.checkpoint.parquet"
    assert current_positions(table).generation == frozen.generation + 21
