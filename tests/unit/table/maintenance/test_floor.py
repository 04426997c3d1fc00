"""The floor of a table: reporting, lowering and raising it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import msgspec
import pytest
from deltalake import DeltaTable

from kinesis_assets.errors import CommitFailed, InvalidInput
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.maintenance.retention import lower_floor
from kinesis_assets.table.maintenance.steps import State
from kinesis_assets.table.positions.amendments import amendment_path, decode
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.snapshot import TableSnapshot
from support.amendments import commit_amendment, new_amendment
from support.attempts import STREAM, rows_by_shard
from support.maintained_table import NOW, amendment_of, steps_of
from support.shifted_clock import ShiftedClock

NEXT_YEAR = NOW.date() + timedelta(days=365)


def test_a_floor_above_the_retention_does_not_expire_rows(filled):
    commit_amendment(filled, floor=NOW.date())
    steps_of(filled, NOW, retention_days=30)
    assert rows_by_shard(filled) == {"a": [1, 2, 3, 4, 5, 6]}
    assert amendment_of(filled).floor == NOW.date()


def test_a_floor_in_the_future_is_reported_and_old_rows_still_expire(filled):
    commit_amendment(filled, floor=NEXT_YEAR)
    steps = steps_of(filled, NOW, retention_days=5)
    expired, left = (step for step in steps.values() if step.step == "expire")
    assert (expired.rows, expired.state) == (6, State.DONE)
    assert left.state is State.LEFT
    assert "--lower-floor" in left.reason
    assert amendment_of(filled).floor == NEXT_YEAR


def test_a_lowered_floor_is_recorded_with_its_author_time_and_previous_value(filled):
    commit_amendment(filled, floor=NEXT_YEAR)
    step = lower_floor(filled, STREAM, date(2026, 1, 1), NOW, by="ada")
    assert (step.step, step.state) == ("lower floor", State.DONE)
    assert step.of == f"from {NEXT_YEAR} to 2026-01-01"
    entry = amendment_of(filled)
    assert (entry.floor, entry.by, entry.at) == (date(2026, 1, 1), "ada", NOW)
    assert entry.lowered_from == NEXT_YEAR
    assert decode(msgspec.json.encode(entry)) == entry
    assert rows_by_shard(filled) == {"a": [1, 2, 3, 4, 5, 6]}


def test_the_ids_of_amendments_follow_the_clock_of_the_table(filled):
    clock = ShiftedClock()
    clock.advance(hours=1000)
    shifted = PositionedTable(filled.uri, replace(filled.policy, clock=clock))
    commit_amendment(filled, floor=NEXT_YEAR)
    lower_floor(shifted, STREAM, date(2026, 1, 1), NOW, by="ada")
    assert time_of_id(amendment_of(filled).commit_id) > clock.time() - 3600


def test_an_amendment_that_lowers_nothing_can_be_read_by_older_releases(filled):
    assert b"lowered_from" not in msgspec.json.encode(commit_amendment(filled, floor=date(2026, 1, 1)))


@pytest.mark.parametrize(
    ("floor", "reason"), [(None, "has no floor"), (date(2026, 1, 1), "its floor is 2026-01-01")]
)
def test_a_missing_or_equal_floor_cannot_be_lowered(filled, floor, reason):
    if floor is not None:
        commit_amendment(filled, floor=floor)
    version = DeltaTable(filled.folder.uri).version()
    with pytest.raises(InvalidInput, match=reason):
        lower_floor(filled, STREAM, date(2026, 1, 1), NOW)
    assert DeltaTable(filled.folder.uri).version() == version


def test_a_dry_run_does_not_lower_the_floor(filled):
    commit_amendment(filled, floor=date(2026, 1, 2))
    assert lower_floor(filled, STREAM, date(2026, 1, 1), NOW, dry_run=True).state is State.PLANNED
    assert amendment_of(filled).floor == date(2026, 1, 2)


def test_maintenance_raises_a_lowered_floor_again(filled):
    commit_amendment(filled, floor=date(2026, 2, 2))
    lower_floor(filled, STREAM, date(2026, 1, 1), NOW)
    steps_of(filled, NOW, retention_days=20)
    assert amendment_of(filled).floor == NOW.date() - timedelta(days=20)
    assert amendment_of(filled).lowered_from is None


def test_lowering_the_floor_restarts_after_a_concurrent_amendment(filled, monkeypatch):
    commit_amendment(filled, floor=date(2026, 1, 2))
    original = TableSnapshot.commit
    others = []

    def overtaken(snapshot, *given, **named):
        if not others:
            others.append(new_amendment(amendment_of(filled)))
            original(filled.snapshot(), [], identity=STREAM, amendment=others[0])
        return original(snapshot, *given, **named)

    monkeypatch.setattr(TableSnapshot, "commit", overtaken)
    lower_floor(filled, STREAM, date(2026, 1, 1), NOW)
    assert amendment_of(filled).previous == others[0].commit_id
    assert amendment_of(filled).floor == date(2026, 1, 1)


def test_lowering_the_floor_needs_no_amendment_that_was_pruned(filled):
    pruned = commit_amendment(filled, floor=date(2026, 1, 1))
    commit_amendment(filled, floor=date(2026, 1, 3))
    filled.files.delete_file(amendment_path(pruned.commit_id))
    assert lower_floor(PositionedTable(filled.uri), STREAM, date(2026, 1, 2), NOW).state is State.DONE


def test_lowering_the_floor_succeeds_if_the_response_is_lost(filled, monkeypatch):
    commit_amendment(filled, floor=date(2026, 1, 2))
    original = TableSnapshot.commit

    def lost(snapshot, *given, **named):
        original(snapshot, *given, **named)
        raise OSError("connection reset")

    monkeypatch.setattr(TableSnapshot, "commit", lost)
    assert lower_floor(filled, STREAM, date(2026, 1, 1), NOW).state is State.DONE
    assert amendment_of(filled).floor == date(2026, 1, 1)


@pytest.mark.usefixtures("three_tries")
def test_lowering_the_floor_fails_after_a_bounded_number_of_tries(filled, monkeypatch):
    commit_amendment(filled, floor=date(2026, 1, 2))

    def refused(*_, **__):
        raise OSError("connection refused")

    monkeypatch.setattr(TableSnapshot, "commit", refused)
    with pytest.raises(CommitFailed, match=r"\b3 times\b.*connection refused"):
        lower_floor(filled, STREAM, date(2026, 1, 1), NOW)
    assert amendment_of(filled).floor == date(2026, 1, 2)
