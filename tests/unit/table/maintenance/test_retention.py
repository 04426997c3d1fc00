"""Retention of rows: which rows expire, and the floor that expiry records."""

from __future__ import annotations

from datetime import timedelta

import pytest
from deltalake import DeltaTable

from kinesis_assets.errors import CommitFailed, CommitOvertaken
from kinesis_assets.table.maintenance.retention import Needed
from kinesis_assets.table.maintenance.steps import State
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.snapshot import TableSnapshot
from support.amendments import commit_amendment, new_amendment
from support.attempts import STREAM, Attempt, current_positions, freeze_all, rows_by_shard, shards
from support.maintained_table import NOW, amendment_of, steps_of
from support.table_folder import copy_table
from support.timing import WRITING

pytestmark = pytest.mark.slow

DAY = 24 * 3600


@pytest.fixture(scope="session")
def original_aged(tmp_path_factory):
    table = PositionedTable(str(tmp_path_factory.mktemp("aged") / "table"), WRITING)
    freeze_all(table, shards("a", "b"))
    for days_ago in (30, 6, 5, 0):
        ingest(table, days_ago)
    return table


@pytest.fixture
def aged(original_aged, table):
    """A table with rows from today and from 5, 6 and 30 days ago."""
    return copy_table(original_aged, table)


def ingest(table, days_ago, shard_id="a"):
    """Commit two records of a shard that arrived some days before `NOW`."""
    arrived = NOW.timestamp() - days_ago * DAY
    Attempt(table, current_positions(table), {shard_id: 2}, arrived=arrived).commit()


def expire(table, days):
    """Run maintenance that keeps the rows of some days; return the steps by name and object."""
    return steps_of(table, NOW, retention_days=days)


def days_in(table):
    return {str(file.partition["arrival_date"]) for file in table.snapshot().data_files()}


def day(days_ago):
    return (NOW.date() - timedelta(days=days_ago)).isoformat()


def test_without_retention_no_row_expires_and_no_amendment_is_written(aged):
    steps_of(aged, NOW)
    assert days_in(aged) == {day(30), day(6), day(5), day(0)}
    assert amendment_of(aged) is None


def test_expired_rows_are_deleted_and_the_floor_is_recorded(aged):
    before = current_positions(aged)
    step = steps_of(aged, NOW, retention_days=5, by="night")["expire", f"before {day(5)}"]
    assert (step.state, step.rows, step.files) == (State.DONE, 4, 2)
    assert days_in(aged) == {day(5), day(0)}
    assert (amendment_of(aged).floor.isoformat(), amendment_of(aged).by) == (day(5), "night")
    assert current_positions(aged) == before
    assert rows_by_shard(aged) == {"a": [5, 6, 7, 8]}


def test_a_second_run_on_the_same_day_expires_nothing(aged):
    expire(aged, 5)
    entry = amendment_of(aged)
    assert {step for step, _ in expire(aged, 5)} == {"checkpoint"}
    assert amendment_of(aged) == entry


def test_the_floor_is_raised_even_if_no_row_expires(aged):
    version = DeltaTable(aged.folder.uri).version()
    step = expire(aged, 90)["expire", f"before {day(90)}"]
    assert (step.rows, step.files) == (0, 0)
    assert amendment_of(aged).floor.isoformat() == day(90)
    assert DeltaTable(aged.folder.uri).version() == version + 1


def test_a_longer_retention_does_not_lower_the_floor(aged):
    expire(aged, 5)
    entry = amendment_of(aged)
    expire(aged, 90)
    assert amendment_of(aged) == entry


def test_rows_that_are_ingested_below_the_floor_expire_in_the_next_run(aged):
    expire(aged, 5)
    ingest(aged, 8, "b")
    assert expire(aged, 5)["expire", f"before {day(5)}"].rows == 2
    assert days_in(aged) == {day(5), day(0)}


def test_expiry_extends_the_chain_of_amendments(aged):
    entry = commit_amendment(aged)
    expire(aged, 5)
    assert amendment_of(aged).previous == entry.commit_id


@pytest.mark.parametrize("retention_days", [5, 90])
def test_expiry_restarts_after_a_concurrent_replay(aged, monkeypatch, retention_days):
    entry = new_amendment()
    name = "remove" if retention_days == 5 else "commit"
    original = getattr(TableSnapshot, name)
    refused = []

    def overtaken(snapshot, *given, amendment, **named):
        if not refused:
            refused.append(amendment.commit_id)
            original_commit(aged.snapshot(), [], identity=STREAM, amendment=entry)
        return original(snapshot, *given, amendment=amendment, **named)

    original_commit = TableSnapshot.commit
    monkeypatch.setattr(TableSnapshot, name, overtaken)
    expire(aged, retention_days)
    assert refused
    assert (amendment_of(aged).previous, amendment_of(aged).floor.isoformat()) == (
        entry.commit_id,
        day(retention_days),
    )


def test_a_replay_started_before_an_expiry_is_refused(aged):
    before = aged.snapshot()
    expire(aged, 5)
    with pytest.raises(CommitOvertaken):
        before.commit([], identity=STREAM, amendment=new_amendment())


def test_an_expiry_whose_response_is_lost_succeeds(aged, monkeypatch):
    original = TableSnapshot.remove
    calls = []

    def lost(snapshot, *given, **named):
        original(snapshot, *given, **named)
        calls.append(1)
        raise OSError("connection reset")

    monkeypatch.setattr(TableSnapshot, "remove", lost)
    step = expire(aged, 5)["expire", f"before {day(5)}"]
    assert (step.rows, len(calls)) == (4, 1)
    assert amendment_of(aged).previous is None


def test_a_run_that_wrote_its_files_before_an_expiry_commits_after_it(aged):
    attempt = Attempt(aged, current_positions(aged), {"b": 3})
    expire(aged, 5)
    assert attempt.commit().conflicts == {}
    assert rows_by_shard(aged)["b"] == [1, 2, 3]


@pytest.mark.usefixtures("three_tries")
def test_expiry_fails_after_a_bounded_number_of_tries(aged, monkeypatch):
    def refused(*_, **__):
        raise OSError("connection refused")

    monkeypatch.setattr(TableSnapshot, "remove", refused)
    with pytest.raises(CommitFailed, match=r"\b3 times\b.*connection refused"):
        expire(aged, 5)
    assert amendment_of(aged) is None


@pytest.mark.parametrize(
    ("since", "days", "kept"),
    [(30, 7, 12), (6, 7, 6), (6, 0, 5), (3, 7, 5)],
    ids=["up to a bound", "from the first of them on", "without a bound", "younger ones"],
)
def test_rows_that_a_derived_table_has_not_consumed_are_kept(aged, since, days, kept):
    needed = Needed(NOW.date() - timedelta(days=since), ("orders",), days)
    steps = steps_of(aged, NOW, retention_days=5, needed=needed)
    assert amendment_of(aged).floor.isoformat() == day(kept)
    left = [step for step in steps.values() if step.state is State.LEFT]
    assert [(step.of, "orders" in step.reason) for step in left] == (
        [(f"before {day(5)}", True)] if kept > 5 else []
    )
