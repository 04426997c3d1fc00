"""Clock skew: every decision of a run about time uses the clock of the service."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.errors import DataLost, InvalidInput
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.table.raw_table import PositionedTable
from support.shifted_clock import ShiftedClock
from support.timing import READING, WRITING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.bench import Bench

pytestmark = pytest.mark.slow

TWO_HOURS = 7200


@pytest.fixture
def driver(bench: Bench) -> Callable[[float], None]:
    """Shift the clock of the driver by a number of seconds."""
    clock = ShiftedClock()
    bench.set_table_policy(clock=clock)

    def shift(seconds: float) -> None:
        clock.offset = seconds

    return shift


@pytest.fixture
def skewed(bench: Any, clocked: Any, tmp_path: Path) -> Callable[[float], Any]:
    """Create a separate bench on an endpoint whose clock is shifted by a number of seconds."""

    def shift(seconds: float) -> Any:
        clocked.clock.seconds += seconds
        return replace(
            bench,
            clock=clocked.clock,
            kinesis=clocked.kinesis,
            settings=replace(clocked.settings, timing=READING),
            stream=f"{bench.stream}-skewed",
            table=PositionedTable(str(tmp_path / "skewed"), WRITING),
        )

    return shift


def run_scenario(bench):
    """Run with records around a start, a limit, a split, a merge, an idle day and the end of the retention.

    Returns the table after each run, with the position of each shard given by the last item that it covers.
    """
    items: dict[str | None, int | None] = {None: None}
    outcomes_by_run = []

    def put(*numbers, part=0.0):
        items.update(zip(bench.put(*numbers, part=part), numbers, strict=True))

    def run(**rest):
        result = bench.run(**rest)
        shards = bench.positions.shards.values()
        outcomes_by_run.append(
            (
                bench.items,
                [outcome.state for outcome in result.outcomes.values()],
                [(outcome.lag_ms, outcome.time_to_loss_ms) for outcome in result.outcomes.values()],
                [(shard.position.kind, items[shard.position.sequence_number]) for shard in shards],
                [shard.gaps for shard in shards],
                result.errors,
            )
        )

    first, second = bench.create(2)
    put(1)
    bench.later(seconds=5)
    run(start="LATEST")
    put(2, 3)
    put(4, 5, part=0.5)
    run(max_records=1)
    bench.later(hours=20)
    run()
    _, upper = bench.split(first, part=0.25)
    put(6)
    bench.later(hours=23)
    run()
    bench.merge(upper, second)
    put(7, part=0.5)
    run()
    bench.later(hours=23, minutes=59)
    put(8)
    run()
    return outcomes_by_run


@pytest.mark.parametrize("seconds", [-TWO_HOURS, TWO_HOURS])
def test_a_service_clock_that_is_two_hours_off_makes_no_difference(bench, skewed, seconds):
    outcomes_by_run = run_scenario(skewed(seconds))
    assert outcomes_by_run[-1][0] == [2, 3, 4, 5, 6, 7, 8]
    assert all(errors == {} for *_, errors in outcomes_by_run)
    assert outcomes_by_run == run_scenario(bench)


@pytest.mark.parametrize("seconds", [-TWO_HOURS, TWO_HOURS])
def test_a_driver_clock_that_is_two_hours_off_makes_no_difference(bench, skewed, driver, seconds):
    driver(seconds)
    outcomes_by_run = run_scenario(bench)
    driver(0)
    assert outcomes_by_run == run_scenario(skewed(0))


def test_latest_is_the_current_time_of_the_service(skewed):
    bench = skewed(-TWO_HOURS)
    (shard,) = bench.create()
    bench.plan(start="LATEST")
    assert bench.at(shard).position.timestamp == bench.now
    bench.put(1)
    bench.run()
    assert bench.items == [1]


@pytest.mark.parametrize("seconds", [-TWO_HOURS, TWO_HOURS])
def test_a_start_time_is_validated_against_the_clock_of_the_service(skewed, seconds):
    bench = skewed(seconds)
    bench.create()
    in_an_hour = bench.now + timedelta(hours=1)
    with pytest.raises(InvalidInput, match="not in the past"):
        bench.plan(start=f"AT_TIMESTAMP:{in_an_hour.isoformat()}")
    an_hour_ago = bench.now - timedelta(hours=1)
    bench.plan(start=f"AT_TIMESTAMP:{an_hour_ago.isoformat()}")


@pytest.mark.parametrize("seconds", [-TWO_HOURS, TWO_HOURS])
def test_loss_is_detected_by_the_clock_of_the_service(skewed, seconds):
    bench = skewed(seconds)
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=24, seconds=-2)
    plan = bench.plan()
    assert bench.execute(plan).errors == {}
    bench.later(hours=24)
    assert isinstance(bench.run().errors[shard], DataLost)


def test_commits_of_a_slow_clock_follow_those_of_a_fast_clock(bench, driver):
    (shard,) = bench.create()
    commit_ids = []
    for number, seconds in enumerate([TWO_HOURS, -TWO_HOURS, TWO_HOURS, -TWO_HOURS]):
        driver(seconds)
        bench.put(number)
        before = bench.version if number else 0
        result = bench.run()
        assert (result.errors, result.version) == ({}, bench.version)
        assert result.version > before
        commit_ids.append(bench.positions.commit_id)
    assert commit_ids[1] < commit_ids[0]
    assert bench.items == [0, 1, 2, 3]
    positions = bench.positions
    assert (positions.generation, positions.previous) == (4, commit_ids[-2])
    assert bench.at(shard).last_arrival == bench.now


@pytest.mark.parametrize("ahead", [True, False])
def test_an_outdated_run_conflicts_whichever_clock_is_ahead(bench, driver, ahead):
    (shard,) = bench.create()
    bench.put(1)
    seconds = TWO_HOURS if ahead else -TWO_HOURS
    driver(seconds)
    slow = bench.plan()
    driver(-seconds)
    assert bench.run().errors == {}
    driver(seconds)
    assert bench.execute(slow).outcomes[shard].state is ShardState.CONFLICT
    assert bench.items == [1]
    bench.put(2)
    bench.run()
    assert bench.items == [1, 2]


def test_arrival_times_use_the_clock_of_the_service(skewed):
    bench = skewed(TWO_HOURS)
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    assert bench.at(shard).last_arrival == bench.at(shard).tip_time == bench.now
    assert bench.now > datetime.now(UTC) + timedelta(hours=1)
