"""Retention by two clocks that must agree, and the floor that an operator may lower."""

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
    """This machine's clock, as the test sets it."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def filled(table):
    """A table with rows that arrived ten days before `NOW`, and an orphan that a vacuum would delete."""
    freeze_all(table, shards("a"))
    for _ in range(3):
        Attempt(table, current_positions(table), {"a": 2}).commit()
    (orphan,) = land(table, new_id(), {"a": records(100, 1)})
    age(table, orphan.path, VACUUM_RETENTION + timedelta(hours=1))
    Upkeep(table).checkpoint()
    return table


def folder_of(table):
    return Path(unquote(urlparse(table.folder.uri).path))


def everything_in(table):
    folder = folder_of(table)
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def age(table, path, span):
    then = time.time() - span.total_seconds()
    os.utime(folder_of(table) / path, (then, then))


def steps_of(table, service=NOW, machine=NOW, **options):
    summary = StreamSummary(STREAM, service, retention_hours=24)
    machine = machine if callable(machine) else MachineClock(machine)
    return list(maintain(table, summary, machine=machine, **options))


def amendment(table):
    return table.snapshot().amendment(STREAM)


def raise_floor(table, floor, **fields):
    """An entry with a floor, as a maintenance of an older version commits it."""
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
def test_where_the_clocks_disagree_nothing_is_deleted(filled, wrong, ahead):
    before = everything_in(filled)
    with pytest.raises(ClocksDisagree) as refused:
        steps_of(filled, retention_days=5, **{wrong: NOW + ahead})
    assert everything_in(filled) == before
    assert amendment(filled) is None
    error = str(refused.value)
    assert f"{NOW:%Y-%m-%dT%H:%M:%SZ}" in error
    assert f"{NOW + ahead:%Y-%m-%dT%H:%M:%SZ}" in error


def test_a_dry_run_by_a_wrong_clock_plans_nothing(filled):
    with pytest.raises(ClocksDisagree):
        steps_of(filled, machine=NOW + YEAR, retention_days=5, dry_run=True)


@pytest.mark.parametrize(
    "service", [datetime(2026, 2, 12, 23, 50, tzinfo=UTC), datetime(2026, 2, 13, tzinfo=UTC)]
)
def test_the_services_day_counts_where_the_machine_is_minutes_away(filled, service):
    machine = service + timedelta(minutes=20 if service.hour else -20)
    steps_of(filled, service, machine, retention_days=5)
    assert amendment(filled).floor == service.date() - timedelta(days=5)


def test_a_clock_that_is_set_wrong_under_way_ends_the_maintenance_before_its_next_deletion(filled):
    machine = MachineClock(NOW)
    summary = StreamSummary(STREAM, NOW, retention_hours=24)
    steps = maintain(filled, summary, retention_days=11, machine=machine)
    assert next(steps).step == "expire"
    before = everything_in(filled)
    machine.now += YEAR
    with pytest.raises(ClocksDisagree):
        list(steps)
    assert everything_in(filled) >= before


def test_the_clocks_are_compared_right_before_each_step_that_deletes(filled, monkeypatch):
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
            raise CommitFailed(filled.uri, "another commit was in the way")
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


def test_the_services_clock_goes_on_while_a_maintenance_runs():
    elapsed = iter([100.0, 100.0 + 7200])
    clock = AgreedClock("t", NOW, MachineClock(NOW + timedelta(hours=2)), lambda: next(elapsed))
    assert clock.now() == NOW + timedelta(hours=2)


def test_a_machine_that_stood_still_meanwhile_is_not_trusted():
    elapsed = iter([100.0, 101.0])
    clock = AgreedClock("t", NOW, MachineClock(NOW + timedelta(hours=2)), lambda: next(elapsed))
    with pytest.raises(ClocksDisagree):
        clock.now()


@pytest.mark.parametrize(
    ("ahead", "right"),
    [(timedelta(), True), (timedelta(hours=9), True), (timedelta(hours=9, minutes=1), False), (-YEAR, False)],
)
def test_a_listing_of_hours_ago_agrees_with_a_clock_that_went_on(ahead, right):
    assert clocks_agree(NOW, NOW + ahead, age=timedelta(hours=8)) is right


# The log that commits clean up by themselves


@pytest.mark.parametrize(
    ("off", "cleaned"), [(timedelta(), True), (YEAR, False), (-YEAR, False), (None, False)]
)
def test_a_commit_cleans_the_log_up_only_by_a_clock_that_the_service_confirms(filled, off, cleaned):
    for path in sorted(everything_in(filled)):
        if path.startswith("_delta_log/"):
            age(filled, path, HISTORY_RETENTION + timedelta(hours=1))
    old = {path for path in everything_in(filled) if path.endswith(".json") and "_delta_log" in path}
    snapshot, before = filled.snapshot(), current_positions(filled)
    listed_at = None if off is None else datetime.now(UTC) + off
    following = msgspec.structs.replace(
        before, commit_id=new_id(), previous=before.commit_id, generation=100, listed_at=listed_at
    )
    snapshot.commit([], identity=STREAM, positions=following)
    assert bool(old - everything_in(filled)) is cleaned


COMMITS = {
    "properties": lambda table: Upkeep(table).set_properties({"note": "1"}),
    "claim": lambda table: table.snapshot().claim(STREAM),
    "deletion": lambda table: table.snapshot().remove("shard_id = 'a'", identity=STREAM),
}


@pytest.mark.parametrize("commit", COMMITS.values(), ids=COMMITS.keys())
def test_no_commit_cleans_the_log_up_by_this_machines_clock_alone(filled, commit):
    for path in sorted(everything_in(filled)):
        if path.startswith("_delta_log/"):
            age(filled, path, HISTORY_RETENTION + timedelta(hours=1))
    before, version = everything_in(filled), filled.snapshot().version
    commit(filled)
    assert filled.snapshot().version > version
    assert {path for path in before if path.startswith("_delta_log/")} <= everything_in(filled)


# Positions


def test_positions_that_a_writer_with_a_slow_clock_wrote_just_now_stay(filled):
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


def test_a_floor_above_what_retention_asks_for_deletes_no_row_by_itself(filled):
    raise_floor(filled, NOW.date())
    steps_of(filled, retention_days=30)
    assert rows_by_shard(filled) == {"a": [1, 2, 3, 4, 5, 6]}
    assert amendment(filled).floor == NOW.date()


def test_a_floor_in_the_future_is_reported_and_older_rows_go_all_the_same(filled):
    raise_floor(filled, (NOW + YEAR).date())
    steps = steps_of(filled, retention_days=5)
    expired, left = (step for step in steps if step.step == "expire")
    assert (expired.rows, expired.state) == (6, State.DONE)
    assert left.state is State.LEFT
    assert "--lower-floor" in left.reason
    assert amendment(filled).floor == (NOW + YEAR).date()


def test_a_lowered_floor_is_recorded_with_who_and_when_and_from_where(filled):
    raise_floor(filled, (NOW + YEAR).date())
    step = lower_floor(filled, STREAM, date(2026, 1, 1), NOW, by="ada")
    assert (step.step, step.state) == ("lower floor", State.DONE)
    assert step.of == f"from {(NOW + YEAR).date()} to 2026-01-01"
    entry = amendment(filled)
    assert (entry.floor, entry.by, entry.at) == (date(2026, 1, 1), "ada", NOW)
    assert entry.lowered_from == (NOW + YEAR).date()
    assert decode(encode(entry)) == entry
    assert rows_by_shard(filled) == {"a": [1, 2, 3, 4, 5, 6]}


def test_an_entry_that_lowers_nothing_is_written_as_older_versions_read_it(filled):
    assert b"lowered_from" not in encode(raise_floor(filled, date(2026, 1, 1)))


@pytest.mark.parametrize(
    ("floor", "told"), [(None, "has no floor"), (date(2026, 1, 1), "its floor is 2026-01-01")]
)
def test_a_floor_that_is_not_above_cannot_be_lowered(filled, floor, told):
    if floor is not None:
        raise_floor(filled, floor)
    version = DeltaTable(filled.folder.uri).version()
    with pytest.raises(InvalidInput, match=told):
        lower_floor(filled, STREAM, date(2026, 1, 1), NOW)
    assert DeltaTable(filled.folder.uri).version() == version


def test_a_dry_run_lowers_nothing(filled):
    raise_floor(filled, date(2026, 1, 2))
    assert lower_floor(filled, STREAM, date(2026, 1, 1), NOW, dry_run=True).state is State.PLANNED
    assert amendment(filled).floor == date(2026, 1, 2)


def test_a_maintenance_raises_a_lowered_floor_again(filled):
    raise_floor(filled, date(2026, 2, 2))
    lower_floor(filled, STREAM, date(2026, 1, 1), NOW)
    steps_of(filled, retention_days=20)
    assert amendment(filled).floor == NOW.date() - timedelta(days=20)
    assert amendment(filled).lowered_from is None


def test_a_replay_meanwhile_lets_the_lowering_begin_again(filled, monkeypatch):
    raise_floor(filled, date(2026, 1, 2))
    whole = TableSnapshot.commit
    others = []

    def overtaken(snapshot, *given, **named):
        if not others:
            others.append(raised_by_hand(filled, whole))
        return whole(snapshot, *given, **named)

    monkeypatch.setattr(TableSnapshot, "commit", overtaken)
    lower_floor(filled, STREAM, date(2026, 1, 1), NOW)
    assert amendment(filled).previous == others[0]
    assert amendment(filled).floor == date(2026, 1, 1)


def raised_by_hand(table, whole):
    entry = msgspec.structs.replace(amendment(table), commit_id=new_id(), previous=amendment(table).commit_id)
    whole(table.snapshot(), [], identity=STREAM, amendment=entry)
    return entry.commit_id


def test_a_lowering_whose_answer_is_lost_is_seen_as_landed(filled, monkeypatch):
    raise_floor(filled, date(2026, 1, 2))
    whole = TableSnapshot.commit

    def lost(snapshot, *given, **named):
        whole(snapshot, *given, **named)
        raise OSError("connection reset")

    monkeypatch.setattr(TableSnapshot, "commit", lost)
    assert lower_floor(filled, STREAM, date(2026, 1, 1), NOW).state is State.DONE
    assert amendment(filled).floor == date(2026, 1, 1)


def test_a_lowering_gives_up_after_bounded_tries(filled, monkeypatch):
    raise_floor(filled, date(2026, 1, 2))

    def refused(*_, **__):
        raise OSError("connection refused")

    monkeypatch.setattr(TableSnapshot, "commit", refused)
    with pytest.raises(CommitFailed, match="connection refused"):
        lower_floor(filled, STREAM, date(2026, 1, 1), NOW)
    assert amendment(filled).floor == date(2026, 1, 2)
