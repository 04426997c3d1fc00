"""The totals of a continuous run: how often they are reported, and of which rows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kinesis_assets.dagster.events.shard_events import TOTALS_INTERVAL, TotalsReport
from kinesis_assets.errors import DataLost
from kinesis_assets.ingest.outcome import RunResult, ShardOutcome, ShardState
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.positions.range_stats import RangeStats
from support.run_results import reading_facts
from support.virtual_time import VirtualTime

A, B = "shardId-000000000000", "shardId-000000000001"
START = Position.parse("TRIM_HORIZON")
ARRIVAL = datetime(2026, 2, 1, tzinfo=UTC)


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
    """A report at a clock that the test sets, and what it has reported."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.found: list[tuple[int, int | None, int]] = []
        self.report = TotalsReport(
            lambda totals: self.found.append((totals.rows, totals.lag_ms, totals.failed)),
            clock=self.time.monotonic,
        )

    def add(self, *outcomes: ShardOutcome, after: float = 0.0) -> None:
        self.time.now += after
        self.report.add(RunResult(1, {each.shard_id: each for each in outcomes}))


@pytest.fixture
def reports() -> Reports:
    return Reports()


def test_iterations_are_reported_together_once_a_minute(reports):
    for _ in range(59):
        reports.add(outcome(A, 1), after=1.0)
    assert reports.found == []
    reports.add(outcome(A, 1), after=1.0)
    assert reports.found == [(60, 0, 0)]


def test_each_report_has_the_rows_since_the_one_before_it(reports):
    reports.add(outcome(A, 3), after=TOTALS_INTERVAL)
    reports.add(outcome(A, 4), after=TOTALS_INTERVAL)
    assert [rows for rows, _, _ in reports.found] == [3, 4]


def test_the_lag_is_the_last_one_of_each_shard(reports):
    reports.add(outcome(A, 1, lag_ms=9000), outcome(B, 1, lag_ms=500))
    reports.add(outcome(A, 1, lag_ms=0), after=TOTALS_INTERVAL)
    assert reports.found == [(3, 500, 0)]


def test_nothing_is_reported_while_nothing_is_committed(reports):
    for _ in range(5):
        reports.add(outcome(A), after=TOTALS_INTERVAL)
    with reports.report:
        pass
    assert reports.found == []


def test_a_shard_that_starts_to_fail_is_reported_once(reports):
    for _ in range(3):
        reports.add(outcome(A, fails=True), after=TOTALS_INTERVAL)
    assert [failed for _, _, failed in reports.found] == [1]


def test_the_end_reports_what_is_not_reported_yet(reports):
    with reports.report:
        reports.add(outcome(A, 2))
    assert [rows for rows, _, _ in reports.found] == [2]
