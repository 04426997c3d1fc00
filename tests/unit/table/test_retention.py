"""Retention: the agreement of the two clocks, cleanup of the log, and the floor and its lowering."""

from __future__ import annotations

import os
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote, urlparse

import msgspec
import pytest
from deltalake import DeltaTable

from kinesis_assets.errors import ClocksDisagree, CommitFailed, InvalidInput
from kinesis_assets.kinesis.stream import StreamSummary
from kinesis_assets.table.amendments import FORMAT, Amendment, decode, encode
from kinesis_assets.table.clocks import TOLERANCE, AgreedClock, clocks_agree
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.maintenance.compaction import SMALL_FILES
from kinesis_assets.table.maintenance.pruning import CHAIN_KEPT, CHAIN_NEEDED
from kinesis_assets.table.maintenance.retention import lower_floor
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.maintenance.steps import State
from kinesis_assets.table.properties import HISTORY_RETENTION, VACUUM_RETENTION
from kinesis_assets.table.snapshot import TableSnapshot
from kinesis_assets.table.upkeep import Upkeep
from support.attempts import (
    NOON,
    STREAM,
    Attempt,
    current_positions,
    freeze_all,
    land,
    records,
    rows_by_shard,
    shards,
)

ARRIVED = datetime.fromtimestamp(NOON, UTC)
"""When the records of `attempts` arrived."""

NOW = ARRIVED + timedelta(days=10)
YEAR = timedelta(days=365)


class MachineClock:
    """The clock of the machine, set by the test."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def filled(table):
    """A table with rows that arrived ten days before `NOW`, and an old uncommitted file."""
    freeze_all(table, shards("a"))
    for _ in range(3):
        Attempt(table, current_positions(table), {"a": 2}).commit()
    (orphan,) = land(table, new_id(), {"a": records(100, 1)})
    age(table, orphan.path, VACUUM_RETENTION + timedelta(hours=1))
    Upkeep(table).checkpoint()
    return table


def folder_of(table):
    return Path(unquote(urlparse(table.folder.uri).path))


def all_files(table):
    folder = folder_of(table)
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def age(table, path, duration):
    then = time.time() - duration.total_seconds()
    os.utime(folder_of(table) / path, (then, then))


def steps_of(table, service=NOW, machine=NOW, **options):
    summary = StreamSummary(STREAM, service, retention_hours=24)
    machine = machine if callable(machine) else MachineClock(machine)
    return list(maintain(table, summary, machine=machine, **options))


def amendment(table):
    return table.snapshot().amendment(STREAM)


def raise_floor(table, floor, **fields):
    """Commit an amendment with a floor, as maintenance of an older release does."""
    before = amendment(table)
    entry = Amendment(
        format=FORMAT,
        commit_id=new_id(),
        previous=before and before.commit_id,
        batch_id=new_id(),
        at=datetime.now(UTC),
        floor=floor,
        **fields,
    )
    table.snapshot().commit([], identity=STREAM, amendment=entry)
    return entry


# Two clocks


@pytest.mark.parametrize("ahead", [YEAR, -YEAR, TOLERANCE + timedelta(minutes=1)])
@pytest.mark.parametrize("wrong", ["machine", "service"])
def test_nothing_is_deleted_if_the_clocks_disagree(filled, wrong, ahead):
    before = all_files(filled)
    with pytest.raises(ClocksDisagree) as refused:
        steps_of(filled, retention_days=5, **{wrong: NOW + ahead})
    assert all_files(filled) == before
    assert amendment(filled) is None
    error = str(refused.value)
    assert f"{NOW:%Y-%m-%dT%H:%M:%SZ}" in error
    assert f"{NOW + ahead:%Y-%m-%dT%H:%M:%SZ}" in error


def test_a_dry_run_fails_if_the_clocks_disagree(filled):
    with pytest.raises(ClocksDisagree):
        steps_of(filled, machine=NOW + YEAR, retention_days=5, dry_run=True)


@pytest.mark.parametrize(
    "service", [datetime(2026, 2, 12, 23, 50, tzinfo=UTC), datetime(2026, 2, 13, tzinfo=UTC)]
)
def test_the_date_of_the_service_applies_if_the_machine_differs_by_minutes(filled, service):
    machine = service + timedelta(minutes=20 if service.hour else -20)
    steps_of(filled, service, machine, retention_days=5)
    assert amendment(filled).floor == service.date() - timedelta(days=5)


def test_a_clock_changed_during_maintenance_stops_it_before_the_next_deletion(filled):
    machine = MachineClock(NOW)
    summary = StreamSummary(STREAM, NOW, retention_hours=24)
    steps = maintain(filled, summary, retention_days=11, machine=machine)
    assert next(steps).step == "expire"
    before = all_files(filled)
    machine.now += YEAR
    with pytest.raises(ClocksDisagree):
        list(steps)
    assert all_files(filled) >= before


def test_the_clocks_are_compared_immediately_before_each_deleting_step(filled, monkeypatch):
    for _ in range(SMALL_FILES):
        Attempt(filled, current_positions(filled), {"a": 2}).commit()
    events: list[str] = []
    compact, vacuum, checkpoint = Upkeep.compact, Upkeep.vacuum, Upkeep.checkpoint

    def machine():
        events.append("clocks")
        return NOW

    def compacting(upkeep, *arguments):
        events.append("compact")
        if events.count("compact") == 1:
            raise CommitFailed(filled.uri, "a concurrent commit")
        return compact(upkeep, *arguments)

    def vacuuming(upkeep, *, dry_run):
        events.append("plan" if dry_run else "vacuum")
        return vacuum(upkeep, dry_run=dry_run)

    def checkpointing(upkeep):
        events.append("checkpoint")
        checkpoint(upkeep)

    monkeypatch.setattr(Upkeep, "compact", compacting)
    monkeypatch.setattr(Upkeep, "vacuum", vacuuming)
    monkeypatch.setattr(Upkeep, "checkpoint", checkpointing)
    steps_of(filled, machine=machine)

    deleting = [number for number, event in enumerate(events) if event not in {"clocks", "plan"}]
    assert [events[number] for number in deleting] == ["compact", "compact", "vacuum", "checkpoint"]
    assert {events[number - 1] for number in deleting} == {"clocks"}


def test_the_time_of_the_service_advances_during_maintenance():
    elapsed = iter([100.0, 100.0 + 7200])
    clock = AgreedClock("t", NOW, MachineClock(NOW + timedelta(hours=2)), lambda: next(elapsed))
    assert clock.now() == NOW + timedelta(hours=2)


def test_a_machine_clock_that_jumps_ahead_of_the_elapsed_time_is_refused():
    elapsed = iter([100.0, 101.0])
    clock = AgreedClock("t", NOW, MachineClock(NOW + timedelta(hours=2)), lambda: next(elapsed))
    with pytest.raises(ClocksDisagree):
        clock.now()


@pytest.mark.parametrize(
    ("ahead", "agrees"),
    [(timedelta(), True), (timedelta(hours=9), True), (timedelta(hours=9, minutes=1), False), (-YEAR, False)],
)
def test_the_age_of_a_listing_is_considered_when_clocks_are_compared(ahead, agrees):
    assert clocks_agree(NOW, NOW + ahead, age=timedelta(hours=8)) is agrees


# Cleanup of the log by commits


@pytest.mark.parametrize(
    ("off", "cleaned"), [(timedelta(), True), (YEAR, False), (-YEAR, False), (None, False)]
)
def test_a_commit_cleans_up_the_log_only_if_the_clocks_agree(filled, off, cleaned):
    for path in sorted(all_files(filled)):
        if path.startswith("_delta_log/"):
            age(filled, path, HISTORY_RETENTION + timedelta(hours=1))
    old = {path for path in all_files(filled) if path.endswith(".json") and "_delta_log" in path}
    snapshot, before = filled.snapshot(), current_positions(filled)
    listed_at = None if off is None else datetime.now(UTC) + off
    following = msgspec.structs.replace(
        before, commit_id=new_id(), previous=before.commit_id, generation=100, listed_at=listed_at
    )
    snapshot.commit([], identity=STREAM, positions=following)
    assert bool(old - all_files(filled)) is cleaned


COMMITS = {
    "properties": lambda table: Upkeep(table).set_properties({"note": "1"}),
    "claim": lambda table: table.snapshot().claim(STREAM),
    "deletion": lambda table: table.snapshot().remove("shard_id = 'a'", identity=STREAM),
}


@pytest.mark.parametrize("commit", COMMITS.values(), ids=COMMITS.keys())
def test_commits_without_a_service_time_do_not_clean_up_the_log(filled, commit):
    for path in sorted(all_files(filled)):
        if path.startswith("_delta_log/"):
            age(filled, path, HISTORY_RETENTION + timedelta(hours=1))
    before, version = all_files(filled), filled.snapshot().version
    commit(filled)
    assert filled.snapshot().version > version
    assert {path for path in before if path.startswith("_delta_log/")} <= all_files(filled)


# Positions


def test_recent_positions_of_a_writer_with_a_slow_clock_are_kept(filled):
    ago = (datetime.now(UTC) - CHAIN_KEPT - timedelta(days=1)).timestamp()
    slow = msgspec.structs.replace(
        current_positions(filled),
        commit_id=int(ago * 1000) << 20,
        previous=current_positions(filled).commit_id,
    )
    filled.snapshot().commit([], identity=STREAM, positions=slow)
    Attempt(filled, current_positions(filled), {"a": 1}).commit()
    now = datetime.now(UTC)
    steps_of(filled, now, now)
    assert filled.snapshot().positions_at(slow.commit_id) == slow
    later = now + CHAIN_NEEDED + timedelta(hours=1)
    assert "_kinesis/positions" in {step.of for step in steps_of(filled, later, later)}


# The floor


def test_a_floor_above_the_retention_does_not_expire_rows(filled):
    raise_floor(filled, NOW.date())
    steps_of(filled, retention_days=30)
    assert rows_by_shard(filled) == {"a": [1, 2, 3, 4, 5, 6]}
    assert amendment(filled).floor == NOW.date()


def test_a_floor_in_the_future_is_reported_and_old_rows_still_expire(filled):
    raise_floor(filled, (NOW + YEAR).date())
    steps = steps_of(filled, retention_days=5)
    expired, left = (step for step in steps if step.step == "expire")
    assert (expired.rows, expired.state) == (6, State.DONE)
    assert left.state is State.LEFT
    assert "--lower-floor" in left.reason
    assert amendment(filled).floor == (NOW + YEAR).date()


def test_a_lowered_floor_is_recorded_with_its_author_time_and_previous_value(filled):
    raise_floor(filled, (NOW + YEAR).date())
    step = lower_floor(filled, STREAM, date(2026, 1, 1), NOW, by="ada")
    assert (step.step, step.state) == ("lower floor", State.DONE)
    assert step.of == f"from {(NOW + YEAR).date()} to 2026-01-01"
    entry = amendment(filled)
    assert (entry.floor, entry.by, entry.at) == (date(2026, 1, 1), "ada", NOW)
    assert entry.lowered_from == (NOW + YEAR).date()
    assert decode(encode(entry)) == entry
    assert rows_by_shard(filled) == {"a": [1, 2, 3, 4, 5, 6]}


def test_an_amendment_that_lowers_nothing_can_be_read_by_older_releases(filled):
    assert b"lowered_from" not in encode(raise_floor(filled, date(2026, 1, 1)))


@pytest.mark.parametrize(
    ("floor", "reason"), [(None, "has no floor"), (date(2026, 1, 1), "its floor is 2026-01-01")]
)
def test_a_missing_or_equal_floor_cannot_be_lowered(filled, floor, reason):
    if floor is not None:
        raise_floor(filled, floor)
    version = DeltaTable(filled.folder.uri).version()
    with pytest.raises(InvalidInput, match=reason):
        lower_floor(filled, STREAM, date(2026, 1, 1), NOW)
    assert DeltaTable(filled.folder.uri).version() == version


def test_a_dry_run_does_not_lower_the_floor(filled):
    raise_floor(filled, date(2026, 1, 2))
    assert lower_floor(filled, STREAM, date(2026, 1, 1), NOW, dry_run=True).state is State.PLANNED
    assert amendment(filled).floor == date(2026, 1, 2)


def test_maintenance_raises_a_lowered_floor_again(filled):
    raise_floor(filled, date(2026, 2, 2))
    lower_floor(filled, STREAM, date(2026, 1, 1), NOW)
    steps_of(filled, retention_days=20)
    assert amendment(filled).floor == NOW.date() - timedelta(days=20)
    assert amendment(filled).lowered_from is None


def test_lowering_the_floor_restarts_after_a_concurrent_amendment(filled, monkeypatch):
    raise_floor(filled, date(2026, 1, 2))
    original = TableSnapshot.commit
    others = []

    def overtaken(snapshot, *given, **named):
        if not others:
            others.append(commit_amendment(filled, original))
        return original(snapshot, *given, **named)

    monkeypatch.setattr(TableSnapshot, "commit", overtaken)
    lower_floor(filled, STREAM, date(2026, 1, 1), NOW)
    assert amendment(filled).previous == others[0]
    assert amendment(filled).floor == date(2026, 1, 1)


def commit_amendment(table, original):
    entry = msgspec.structs.replace(amendment(table), commit_id=new_id(), previous=amendment(table).commit_id)
    original(table.snapshot(), [], identity=STREAM, amendment=entry)
    return entry.commit_id


def test_lowering_the_floor_succeeds_if_the_response_is_lost(filled, monkeypatch):
    raise_floor(filled, date(2026, 1, 2))
    original = TableSnapshot.commit

    def lost(snapshot, *given, **named):
        original(snapshot, *given, **named)
        raise OSError("connection reset")

    monkeypatch.setattr(TableSnapshot, "commit", lost)
    assert lower_floor(filled, STREAM, date(2026, 1, 1), NOW).state is State.DONE
    assert amendment(filled).floor == date(2026, 1, 1)


def test_lowering_the_floor_fails_after_a_bounded_number_of_tries(filled, monkeypatch):
    raise_floor(filled, date(2026, 1, 2))

    def refused(*_, **__):
        raise OSError("connection refused")

    monkeypatch.setattr(TableSnapshot, "commit", refused)
    with pytest.raises(CommitFailed, match="connection refused"):
        lower_floor(filled, STREAM, date(2026, 1, 1), NOW)
    assert amendment(filled).floor == date(2026, 1, 2)
