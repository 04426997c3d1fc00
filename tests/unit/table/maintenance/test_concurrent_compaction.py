"""Compactions during other compactions, deletes and commits."""

from __future__ import annotations

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from kinesis_assets.errors import CommitFailed
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS, State
from support.amendments import new_amendment
from support.attempts import (
    STREAM,
    Attempt,
    assert_rows_are_what_positions_say,
    current_positions,
    rows_by_shard,
)
from support.conditions import Condition
from support.maintained_table import steps_of

DAY = "2026-02-02"


@pytest.fixture
def when_compaction_starts(monkeypatch):
    """Call a function once, after a compaction has marked the table and before it rewrites files."""

    def when_compaction_starts(operations, act):
        original, opened = operations._delta, []

        def open_table():
            delta = original()
            opened.append(delta)
            if len(opened) == 2:
                act()
            return delta

        monkeypatch.setattr(operations, "_delta", open_table)

    return when_compaction_starts


@pytest.mark.slow
def test_only_one_of_two_concurrent_compactions_of_the_same_files_commits(busy, when_compaction_starts):
    """delta-rs alone accepts both, which duplicates each row."""
    first, second = DeltaOperations(busy), DeltaOperations(busy)
    when_compaction_starts(first, lambda: second.compact(DAY, 100))
    with pytest.raises(CommitFailed, match=str(DAY)):
        first.compact(DAY, 100)
    assert len(busy.snapshot().data_files()) == 1
    assert_rows_are_what_positions_say(busy)


def test_a_compaction_stops_if_another_maintenance_marked_the_table(busy, monkeypatch):
    operations = DeltaOperations(busy)
    original = DeltaOperations.set_properties

    def overtaken(self, properties):
        original(self, properties)
        original(self, dict.fromkeys(properties, "another's"))

    monkeypatch.setattr(DeltaOperations, "set_properties", overtaken)
    with pytest.raises(CommitFailed, match="another maintenance"):
        operations.compact(DAY, 100)
    assert len(busy.snapshot().data_files()) == 2 * DEFAULT_LIMITS.small_files


def test_compaction_does_not_restore_rows_deleted_concurrently(busy, when_compaction_starts):
    def delete_rows():
        busy.snapshot().remove(Condition("shard_id = 'a'"), identity=STREAM, amendment=new_amendment())

    operations = DeltaOperations(busy)
    when_compaction_starts(operations, delete_rows)
    with pytest.raises(CommitFailed):
        operations.compact(DAY, 100)
    assert rows_by_shard(busy).keys() == {"b"}


def test_a_compaction_that_keeps_failing_is_skipped_after_three_tries(busy, monkeypatch):
    tries = []

    def refused(*_):
        tries.append(1)
        raise CommitFailed(busy.uri, "a concurrent commit")

    monkeypatch.setattr(DeltaOperations, "compact", refused)
    step = steps_of(busy)["compact", DAY]
    assert (step.state, len(tries)) == (State.LEFT, 3)
    assert "a concurrent commit" in step.reason


def test_an_attempt_started_before_a_compaction_commits_after_it(busy):
    attempt = Attempt(busy, current_positions(busy), {"a": 3})
    steps_of(busy)
    assert attempt.commit().conflicts == {}
    assert_rows_are_what_positions_say(busy)


def test_delta_transaction_identifiers_do_not_prevent_concurrent_compactions(busy):
    """This is why each compaction marks the table. When this fails, a transaction identifier suffices."""
    first, second = DeltaTable(busy.folder.uri), DeltaTable(busy.folder.uri)
    for delta in (first, second):
        fence = CommitProperties(app_transactions=[Transaction("compaction", new_id())])
        delta.optimize.compact(commit_properties=fence)
    assert len(rows_by_shard(busy)["a"]) == 2 * len({*rows_by_shard(busy)["a"]})
