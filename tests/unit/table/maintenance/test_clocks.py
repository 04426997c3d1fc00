"""Maintenance deletes nothing if the clocks of the machine and of the service disagree."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kinesis_assets.errors import ClocksDisagree, CommitFailed
from kinesis_assets.kinesis.stream import StreamSummary
from kinesis_assets.table.clocks import TOLERANCE, AgreedClock, clocks_agree
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS
from support.attempts import STREAM, Attempt, current_positions
from support.maintained_table import NOW, amendment_of, steps_of
from support.table_folder import files_of

YEAR = timedelta(days=365)


def clock(time):
    """Return a clock that shows one time."""
    return lambda: time


@pytest.mark.parametrize("ahead", [YEAR, -YEAR, TOLERANCE + timedelta(minutes=1)])
@pytest.mark.parametrize("wrong", ["machine", "service"])
def test_nothing_is_deleted_if_the_clocks_disagree(filled, wrong, ahead):
    before = files_of(filled)
    with pytest.raises(ClocksDisagree) as refused:
        steps_of(filled, **{"service": NOW, "machine": NOW} | {wrong: NOW + ahead}, retention_days=5)
    assert files_of(filled) == before
    assert amendment_of(filled) is None
    error = str(refused.value)
    assert f"{NOW:%Y-%m-%dT%H:%M:%SZ}" in error
    assert f"{NOW + ahead:%Y-%m-%dT%H:%M:%SZ}" in error


def test_a_dry_run_fails_if_the_clocks_disagree(filled):
    with pytest.raises(ClocksDisagree):
        steps_of(filled, NOW, NOW + YEAR, retention_days=5, dry_run=True)


@pytest.mark.parametrize(
    "service", [datetime(2026, 2, 12, 23, 50, tzinfo=UTC), datetime(2026, 2, 13, tzinfo=UTC)]
)
def test_the_date_of_the_service_applies_if_the_machine_differs_by_minutes(filled, service):
    machine = service + timedelta(minutes=20 if service.hour else -20)
    steps_of(filled, service, machine, retention_days=5)
    assert amendment_of(filled).floor == service.date() - timedelta(days=5)


def test_a_clock_changed_during_maintenance_stops_it_before_the_next_deletion(filled):
    times = [NOW]
    summary = StreamSummary(STREAM, NOW, retention_hours=24)
    steps = maintain(filled, summary, retention_days=11, machine=lambda: times[-1])
    assert next(steps).step == "expire"
    before = files_of(filled)
    times.append(NOW + YEAR)
    with pytest.raises(ClocksDisagree):
        list(steps)
    assert files_of(filled) >= before


@pytest.mark.slow
def test_the_clocks_are_compared_immediately_before_each_deleting_step(filled, monkeypatch):
    for _ in range(DEFAULT_LIMITS.small_files):
        Attempt(filled, current_positions(filled), {"a": 2}).commit()
    events: list[str] = []
    compact, vacuum, checkpoint = DeltaOperations.compact, DeltaOperations.vacuum, DeltaOperations.checkpoint

    def machine():
        events.append("clocks")
        return NOW

    def compacting(operations, *arguments):
        events.append("compact")
        if events.count("compact") == 1:
            raise CommitFailed(filled.uri, "a concurrent commit")
        return compact(operations, *arguments)

    def vacuuming(operations, *, dry_run):
        events.append("plan" if dry_run else "vacuum")
        return vacuum(operations, dry_run=dry_run)

    def checkpointing(operations):
        events.append("checkpoint")
        checkpoint(operations)

    monkeypatch.setattr(DeltaOperations, "compact", compacting)
    monkeypatch.setattr(DeltaOperations, "vacuum", vacuuming)
    monkeypatch.setattr(DeltaOperations, "checkpoint", checkpointing)
    steps_of(filled, NOW, machine)

    deleting = [number for number, event in enumerate(events) if event not in {"clocks", "plan"}]
    assert [events[number] for number in deleting] == ["compact", "compact", "vacuum", "checkpoint"]
    assert {events[number - 1] for number in deleting} == {"clocks"}


def test_the_time_of_the_service_advances_during_maintenance():
    elapsed = iter([100.0, 100.0 + 7200])
    agreed = AgreedClock("t", NOW, clock(NOW + timedelta(hours=2)), lambda: next(elapsed))
    assert agreed.now() == NOW + timedelta(hours=2)


def test_a_machine_clock_that_jumps_ahead_of_the_elapsed_time_is_refused():
    elapsed = iter([100.0, 101.0])
    agreed = AgreedClock("t", NOW, clock(NOW + timedelta(hours=2)), lambda: next(elapsed))
    with pytest.raises(ClocksDisagree):
        agreed.now()


@pytest.mark.parametrize(
    ("ahead", "agrees"),
    [(timedelta(), True), (timedelta(hours=9), True), (timedelta(hours=9, minutes=1), False), (-YEAR, False)],
)
def test_the_age_of_a_listing_is_considered_when_clocks_are_compared(ahead, agrees):
    assert clocks_agree(NOW, NOW + ahead, age=timedelta(hours=8)) is agrees


# Positions
