"""The totals of a continuous run: when they are reported, and what they say of all shards."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from kinesis_assets.dagster.steps.stream_totals import TotalsReport
from kinesis_assets.errors import DataLost, ShardThrottled
from kinesis_assets.ingest.idle_shards import loss_times
from kinesis_assets.ingest.outcome import RunResult, ShardOutcome, ShardState, StreamState
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.positions.range_stats import RangeStats
from support.run_results import reading_facts
from support.stored_positions import finished, shard_after, shard_at

if TYPE_CHECKING:
    from kinesis_assets.table.positions.positions import ShardPosition

A, B = "shardId-000000000000", "shardId-000000000001"
START = Position.parse("TRIM_HORIZON")
ARRIVAL = datetime(2026, 2, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def outcome(shard_id: str, rows: int = 0, lag_ms: int = 0, *, fails: bool = False) -> ShardOutcome:
    stats = RangeStats(
        start=START,
        through=Position.after("9", 1),
        first_sequence_number="7" if rows else None,
        last_sequence_number="9" if rows else None,
        rows=rows,
        bytes=10 * rows,
        checksum=rows,
    )
    return ShardOutcome(
        shard_id,
        ShardState.FAILED if fails else ShardState.COMMITTED,
        stats,
        facts=reading_facts(last_arrival=ARRIVAL if rows else None),
        lag_ms=lag_ms,
        error=DataLost(shard_id, "lost") if fails else None,
    )


class Reports:
    """A report, and what it has reported: rows, and the shards that fail."""

    def __init__(self) -> None:
        self.found: list[tuple[int, set[str]]] = []
        self.report = TotalsReport(lambda totals, failed: self.found.append((totals.rows, {*failed})))

    def add(self, *outcomes: ShardOutcome, reported: bool = False) -> None:
        result = RunResult(1, {each.shard_id: each for each in outcomes})
        if reported:
            self.report.add_reported(result)
        self.report.add(result)


@pytest.fixture
def reports() -> Reports:
    return Reports()


def test_totals_follow_each_report_of_shards_with_the_rows_since_the_one_before(reports):
    reports.add(outcome(A, 3), reported=True)
    reports.add(outcome(A, 4), reported=True)
    assert reports.found == [(3, set()), (4, set())]


def test_nothing_is_reported_while_no_shard_is(reports):
    with reports.report:
        for _ in range(5):
            reports.add(outcome(A))
    assert reports.found == []


def test_a_shard_that_ceases_to_fail_is_reported_although_it_has_no_news(reports):
    reports.add(outcome(A, fails=True), reported=True)
    reports.add(outcome(A, fails=True))
    reports.add(outcome(A))
    reports.add(outcome(A))
    assert [failed for _, failed in reports.found] == [{A}, set()]


@pytest.mark.parametrize(("rows", "failing"), [(3, set()), (0, {A})])
def test_a_shard_that_is_throttled_fails_only_if_nothing_is_read(reports, rows, failing):
    throttled = replace(outcome(A, rows, fails=True), error=ShardThrottled(A, "throttled"))
    reports.add(throttled, reported=True)
    assert reports.found == [(rows, failing)]


def test_the_end_reports_totals_after_the_last_shards(reports):
    with reports.report:
        reports.report.add_reported(RunResult(1, {}))
    assert reports.found == [(0, set())]


def test_the_end_reports_a_shard_that_failed_in_an_iteration_that_was_cut_off():
    found = []
    with TotalsReport(
        lambda totals, failed: found.append({key: totals.outcomes[key] for key in failed})
    ) as report:
        report.add_reported(RunResult(1, {A: outcome(A, fails=True)}))
    assert [*found[0]] == [A]


# The state of all shards

NOW = ARRIVAL + timedelta(hours=2)


def at_tip(ago: timedelta, **rest) -> ShardPosition:
    return shard_after(1, last_arrival=NOW - ago - HOUR, tip_time=NOW - ago, retention_hours=24, **rest)


def state(shards, outcomes=(), failing=()) -> StreamState:
    losses = loss_times(shards, {})
    return StreamState.of(shards, {each.shard_id: each for each in outcomes}, failing, losses, NOW)


def test_a_shard_that_fails_is_behind_since_it_was_last_read():
    refused = ShardOutcome(A, ShardState.FAILED, error=DataLost(A, "lost"))
    found = state({A: at_tip(HOUR), B: at_tip(timedelta())}, [refused, outcome(B, 5)], [A])
    assert (found.open, found.behind, found.failed, found.lag_ms) == (2, 1, 1, 3_600_000)
    assert found.time_to_loss_ms == 23 * 3_600_000


def test_shards_that_the_run_was_not_over_count_too():
    behind = shard_after(1, last_arrival=NOW - HOUR, tip_time=NOW - 2 * HOUR, retention_hours=24)
    found = state({A: behind, B: at_tip(HOUR)}, [outcome(B, 5)])
    assert (found.open, found.behind, found.failed, found.lag_ms) == (2, 1, 0, 3_600_000)


def test_the_lag_of_a_shard_is_what_its_last_response_reported():
    found = state({A: at_tip(HOUR), B: at_tip(HOUR)}, [outcome(A, 1, lag_ms=500), outcome(B)])
    assert (found.behind, found.lag_ms) == (1, 500)


def test_a_shard_at_its_tip_has_no_lag_until_it_fails():
    shards = {A: at_tip(HOUR)}
    assert [state(shards, failing=failing).lag_ms for failing in ([], [A])] == [0, 3_600_000]


def test_a_lag_that_nothing_shows_is_counted_as_unknown():
    found = state({A: shard_at(), B: at_tip(HOUR)})
    assert (found.behind, found.lag_ms, found.unknown_lags) == (1, 0, 1)


def test_finished_shards_are_not_open_and_children_of_unfinished_ones_not_behind():
    shards = {A: at_tip(HOUR), B: shard_at(parents=(A,)), "c": finished(shard_at())}
    found = state(shards)
    assert (found.open, found.behind) == (2, 0)
    done = ShardOutcome(A, ShardState.FINISHED)
    assert (state(shards, [done]).open, state(shards, [done]).behind) == (1, 1)
