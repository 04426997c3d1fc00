"""Seeks with concurrent changes of the table, lost commit responses and expired attempts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kinesis_assets.errors import AttemptExpired, PositionConflict
from kinesis_assets.operations.seek.first_records import TIME_TO_READ
from kinesis_assets.table.snapshot import TableSnapshot
from support.prepared_streams import create_and_split
from support.shifted_clock import ShiftedClock

pytestmark = pytest.mark.slow


@pytest.fixture
def before_commit(monkeypatch):
    """Run an action between the plan of a seek and its first commit attempt."""

    def before_commit(action):
        pending = [action]
        for name in ("commit", "remove"):
            real = getattr(TableSnapshot, name)

            def attempt(snapshot, *args, real=real, **rest):
                if pending:
                    pending.pop()()
                return real(snapshot, *args, **rest)

            monkeypatch.setattr(TableSnapshot, name, attempt)

    return before_commit


def test_rows_of_a_concurrent_run_are_deleted_too(bench, before_commit):
    (shard_id,) = bench.create()
    first, _ = bench.put(1, 2)
    bench.run()
    bench.put(3)
    before_commit(bench.run)
    result = bench.seek(f"AFTER_SEQUENCE_NUMBER:{first}")
    assert result.moves[shard_id].rows_removed == 2
    assert bench.items == [1]
    bench.run()
    assert bench.items == [1, 2, 3]


def test_a_move_forward_behind_a_concurrent_run_deletes_nothing(bench, before_commit):
    bench.create()
    bench.put(1)
    bench.run()
    second, _ = bench.put(2, 3)
    before_commit(bench.run)
    with pytest.raises(PositionConflict, match=r"\bforward\b.*\bback\b|\bback\b.*\bforward\b"):
        bench.seek(f"AFTER_SEQUENCE_NUMBER:{second}")
    assert bench.items == [1, 2, 3]


def test_the_gap_of_an_unread_shard_starts_after_what_a_concurrent_run_adds(bench, before_commit):
    (shard_id,) = bench.create()
    bench.plan()
    first, _, third = bench.put(1, 2, 3)
    before_commit(lambda: bench.run(max_records=1))
    bench.seek(f"AT_SEQUENCE_NUMBER:{third}")
    (gap,) = bench.at(shard_id).gaps
    assert str(gap.after) == f"AFTER_SEQUENCE_NUMBER:{first}"


def test_a_run_planned_before_a_seek_adds_no_rows(bench):
    (shard_id,) = bench.create()
    first, _ = bench.put(1, 2)
    bench.run()
    bench.put(3)
    plan = bench.plan()
    bench.seek(f"AFTER_SEQUENCE_NUMBER:{first}")
    assert isinstance(bench.execute(plan).errors[shard_id], PositionConflict)
    assert bench.items == [1]


def test_a_run_planned_before_a_seek_back_to_its_position_adds_no_rows(bench):
    (shard_id,) = bench.create()
    first, _ = bench.put(1, 2)
    bench.run(max_records=1)
    plan = bench.plan()
    bench.run()
    bench.seek(f"AFTER_SEQUENCE_NUMBER:{first}")
    assert bench.at(shard_id).position == plan.expected.shards[shard_id].position
    assert isinstance(bench.execute(plan).errors[shard_id], PositionConflict)
    bench.run()
    assert bench.items == [1, 2]


def test_a_run_of_a_child_conflicts_with_a_seek_of_its_parent(bench):
    parent, low, _ = create_and_split(bench)
    bench.run([parent])
    bench.put(2, shard_id=low)
    plan = bench.plan([low])
    bench.seek("TRIM_HORIZON", parent)
    assert isinstance(bench.execute(plan).errors[low], PositionConflict)
    assert bench.items == []
    bench.run()
    assert bench.items == [1, 2]


def test_concurrent_seeks_are_applied_one_after_the_other(bench, before_commit):
    first, second = bench.create(2)
    bench.put(1, shard_id=first)
    bench.put(2, shard_id=second)
    bench.run()
    before_commit(lambda: bench.seek("TRIM_HORIZON", first, by="bob"))
    bench.seek("TRIM_HORIZON", by="ann")
    assert [seek.by for seek in bench.at(first).seeks] == ["bob"]
    assert [seek.by for seek in bench.at(second).seeks] == ["ann"]
    bench.run()
    assert bench.items == [1, 2]


def test_a_seek_builds_on_a_concurrent_amendment(bench, before_commit):
    bench.create()
    bench.put(1)
    bench.run()
    amended = []
    before_commit(lambda: amended.append(bench.amend()))
    bench.seek("TRIM_HORIZON")
    assert bench.amendment.previous == amended[0].commit_id


@pytest.mark.parametrize("name", ["commit", "remove"])
def test_a_seek_whose_commit_response_was_lost_is_applied_once(bench, monkeypatch, name):
    (shard_id,) = bench.create()
    first, second = bench.put(1, 2)
    bench.run(max_records=1)
    if name == "remove":
        bench.run()
    real = getattr(TableSnapshot, name)
    calls = []

    def lose_response(*args, **rest):
        calls.append(real(*args, **rest))
        raise OSError("connection reset")

    monkeypatch.setattr(TableSnapshot, name, lose_response)
    number = first if name == "remove" else second
    result = bench.seek(f"AFTER_SEQUENCE_NUMBER:{number}")
    monkeypatch.undo()
    assert (len(calls), result.applied, result.version) == (1, True, bench.version)
    assert len(bench.at(shard_id).seeks) == 1
    assert bench.items == [1]


# Expired attempts


def test_an_expired_seek_deletes_nothing(bench, faults):
    bench.create()
    numbers = bench.put(1, 2, 3)
    bench.run()
    before = bench.version
    clock = ShiftedClock()
    bench.set_table_policy(clock=clock)
    hours = TIME_TO_READ / timedelta(hours=1)
    faults.before("GetRecords", lambda: clock.advance(hours), times=1)
    with pytest.raises(AttemptExpired):
        bench.seek(f"AFTER_SEQUENCE_NUMBER:{numbers[0]}")
    assert faults.count("GetRecords") > 0
    assert bench.version == before
