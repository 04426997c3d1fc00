"""Tries that fail, commits whose responses are lost, and the last try."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import CommitFailed
from kinesis_assets.table.raw_table import PositionedTable
from support.attempts import Attempt, assert_rows_are_what_positions_say, current_positions, rows_by_shard
from support.commit_faults import lost_response, never_landed

# Lost responses


def test_a_commit_whose_response_is_lost_is_not_repeated(table, frozen, at_commit):
    attempt = Attempt(table, frozen, {"a": 3})
    at_commit(lost_response)
    result = attempt.commit()
    assert (result.version, result.conflicts) == (2, {})
    assert list(result.files) == attempt.files
    assert table.snapshot().version == 2
    assert rows_by_shard(table) == {"a": [1, 2, 3]}


@pytest.mark.parametrize("shard_id", ["a", "b"])
def test_a_commit_whose_response_is_lost_is_found_behind_later_commits(table, frozen, at_commit, shard_id):
    attempt = Attempt(table, frozen, {"a": 3})

    def lost_and_overtaken(real, snapshot, files, positions):
        real(snapshot, files, positions)
        for _ in range(2):
            Attempt(table, current_positions(table), {shard_id: 2}).commit()
        raise OSError("connection reset")

    at_commit(lost_and_overtaken)
    result = attempt.commit()
    assert (result.version, result.conflicts) == (2, {})
    assert table.snapshot().version == 4
    assert_rows_are_what_positions_say(table)


def test_a_commit_whose_response_is_lost_is_found_after_a_failed_read(table, frozen, at_commit, monkeypatch):
    failing = iter([True])
    snapshot = PositionedTable.snapshot

    def unreadable_once(self):
        if commit_ids and next(failing, False):
            raise OSError("unreadable")
        return snapshot(self)

    commit_ids = []

    def landed_and_lost(real, self, files, positions):
        real(self, files, positions)
        commit_ids.append(positions.commit_id)
        raise OSError("connection reset")

    at_commit(landed_and_lost, times=1)
    monkeypatch.setattr(PositionedTable, "snapshot", unreadable_once)
    Attempt(table, frozen, {"a": 3}).commit()
    assert rows_by_shard(table) == {"a": [1, 2, 3]}
    assert len(commit_ids) == 1


def test_a_commit_with_a_conflict_whose_response_is_lost_returns_what_it_committed(table, frozen, at_commit):
    attempt = Attempt(table, frozen, {"a": 3, "b": 3})
    Attempt(table, frozen, {"a": 1}).commit()
    at_commit(lost_response)
    result = attempt.commit()
    assert result.conflicts.keys() == {"a"}
    assert [file.rows_by_shard for file in result.files] == [{"b": 3}]
    assert_rows_are_what_positions_say(table)


def test_a_failed_try_is_repeated(table, frozen, at_commit):
    at_commit(never_landed, times=2)
    assert Attempt(table, frozen, {"a": 3}).commit().version == 2
    assert_rows_are_what_positions_say(table)


def test_each_try_writes_its_own_positions_file(table, frozen, at_commit):
    commit_ids = []

    def note(*arguments):
        *_, positions = arguments
        commit_ids.append(positions.commit_id)
        raise OSError("connection refused")

    at_commit(note, times=3)
    Attempt(table, frozen, {"a": 3}).commit()
    assert len({*commit_ids, current_positions(table).commit_id}) == 4


def test_a_committed_batch_cannot_be_committed_again(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3})
    attempt.commit()
    with pytest.raises(CommitFailed, match="already committed"):
        attempt.commit()
    assert rows_by_shard(table) == {"a": [1, 2, 3]}


# The last try


@pytest.mark.usefixtures("three_tries")
def test_the_error_after_the_last_try_contains_its_cause(table, frozen, at_commit):
    at_commit(never_landed, times=99)
    with pytest.raises(CommitFailed, match=r"\b3 times\b.*connection refused"):
        Attempt(table, frozen, {"a": 3}).commit()
    assert current_positions(table) == frozen


@pytest.mark.usefixtures("three_tries")
def test_tries_without_an_error_or_a_commit_are_bounded(table, frozen, at_commit):
    tried = []
    at_commit(lambda *arguments: tried.append(arguments), times=99)
    with pytest.raises(CommitFailed, match=r"\b3 times\b"):
        Attempt(table, frozen, {"a": 3}).commit()
    assert len(tried) == 3
    assert current_positions(table) == frozen


@pytest.mark.usefixtures("three_tries")
def test_a_commit_by_the_last_try_is_found(table, frozen, at_commit):
    tries = []

    def last_lands(real, snapshot, files, positions):
        tries.append(positions.commit_id)
        if len(tries) == 3:
            real(snapshot, files, positions)
        raise OSError("connection reset")

    at_commit(last_lands, times=99)
    assert Attempt(table, frozen, {"a": 3}).commit().version == 2
