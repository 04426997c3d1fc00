"""Attempts that expected other positions than the current ones."""

from __future__ import annotations

from pathlib import Path

from kinesis_assets.errors import PositionConflict
from kinesis_assets.table.commits import commit as commit_module
from kinesis_assets.table.data_file_writer import without_shards
from support.attempts import Attempt, assert_rows_are_what_positions_say, current_positions, rows_by_shard
from support.commit_faults import never_landed
from support.mentions import assert_mentions


def test_a_conflict_names_the_batch_that_moved_the_shard_even_after_later_commits(table, frozen):
    late = Attempt(table, frozen, {"a": 3})
    first = Attempt(table, frozen, {"a": 2})
    first.commit()
    Attempt(table, current_positions(table), {"b": 1}).commit()
    conflict = late.commit().conflicts["a"]
    assert_mentions(str(conflict), f"batch {first.batch_id} ", "AFTER_SEQUENCE_NUMBER:2")


def test_a_conflict_on_one_shard_excludes_only_its_rows(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3, "b": 4, "c": 5})
    Attempt(table, frozen, {"b": 1}).commit()
    result = attempt.commit()
    assert isinstance(result.conflicts["b"], PositionConflict)
    assert result.conflicts.keys() == {"b"}
    assert rows_by_shard(table) == {"a": [1, 2, 3], "b": [1], "c": [1, 2, 3, 4, 5]}
    assert_rows_are_what_positions_say(table)


def test_the_range_of_a_conflict_is_not_recorded_as_added(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3, "b": 4})
    Attempt(table, frozen, {"b": 1}).commit()
    attempt.commit()
    assert current_positions(table).added.keys() == {"a"}


def test_a_conflict_is_returned_even_if_a_later_try_commits(table, frozen, at_commit):
    attempt = Attempt(table, frozen, {"a": 3, "b": 4})
    Attempt(table, frozen, {"b": 1}).commit()
    at_commit(never_landed, times=2)
    assert attempt.commit().conflicts.keys() == {"b"}
    assert rows_by_shard(table) == {"a": [1, 2, 3], "b": [1]}


def test_rows_of_a_conflict_stay_excluded_after_their_exclusion_failed_once(table, frozen, monkeypatch):
    attempt = Attempt(table, frozen, {"a": 3, "b": 4})
    Attempt(table, frozen, {"b": 1}).commit()
    failing = iter([True])

    def unreadable_once(*arguments):
        if next(failing, False):
            raise OSError("unreadable")
        return without_shards(*arguments)

    monkeypatch.setattr(commit_module, "without_shards", unreadable_once)
    assert attempt.commit().conflicts.keys() == {"b"}
    assert rows_by_shard(table) == {"a": [1, 2, 3], "b": [1]}


def test_a_conflict_between_reading_the_table_and_the_commit_is_detected(table, frozen, at_commit):
    attempt = Attempt(table, frozen, {"a": 3, "b": 4})

    def overtaken(real, snapshot, files, positions):
        Attempt(table, frozen, {"b": 1}).commit()
        return real(snapshot, files, positions)

    at_commit(overtaken)
    result = attempt.commit()
    assert result.conflicts.keys() == {"b"}
    assert rows_by_shard(table) == {"a": [1, 2, 3], "b": [1]}


def test_a_conflict_on_every_shard_commits_nothing(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3})
    Attempt(table, frozen, {"a": 1}).commit()
    version = table.snapshot().version
    result = attempt.commit()
    assert (result.version, result.files, result.conflicts.keys()) == (None, (), {"a"})
    assert table.snapshot().version == version


def test_a_concurrent_commit_on_another_shard_is_not_a_conflict(table, frozen, at_commit):
    attempt = Attempt(table, frozen, {"a": 3})

    def overtaken(real, snapshot, files, positions):
        Attempt(table, frozen, {"b": 1}).commit()
        return real(snapshot, files, positions)

    at_commit(overtaken)
    assert attempt.commit().conflicts == {}
    assert_rows_are_what_positions_say(table)


def test_a_conflict_leaves_its_files_to_vacuum(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3})
    Attempt(table, frozen, {"a": 1}).commit()
    attempt.commit()
    assert Path(table.uri, attempt.files[0].path).is_file()
