"""Clocks that disagree: all that a run concludes from time, it concludes from the service's."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.errors import DataLost, InvalidInput
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.table.table import PositionedTable
from support.shifted_clock import ShiftedClock
from support.timing import READING, WRITING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.bench import Bench

TWO_HOURS = 7200


@pytest.fixture
def driver(bench: Bench) -> Callable[[float], None]:
    """Puts the driver's clock off by so many seconds."""
    clock = ShiftedClock()
    bench.set_table_policy(clock=clock)

    def off_by(seconds: float) -> None:
        clock.offset = seconds

    return off_by


@pytest.fixture
def skewed(bench: Any, clocked: Any, tmp_path: Path) -> Callable[[float], Any]:
    """A bench of its own on an endpoint whose clock is off from this machine's by so many seconds."""

    def off_by(seconds: float) -> Any:
        clocked.clock.seconds += seconds
        return replace(
            bench,
            clock=clocked.clock,
            kinesis=clocked.kinesis,
            settings=replace(clocked.settings, timing=READING),
            stream=f"{bench.stream}-skewed",
            table=PositionedTable(str(tmp_path / "skewed"), WRITING),
        )

    return off_by


def story(bench):
    """Records before and after a start, a bound, a split, a merge, an idle day, an edge that is not met.

    Returns what is in the table after each run, and where each shard is then: the item that it is after.
    """
    items: dict[str | None, int | None] = {None: None}
    told = []

    def put(*numbers, part=0.0):
        items.update(zip(bench.put(*numbers, part=part), numbers, strict=True))

    def run(**rest):
        result = bench.run(**rest)
        shards = bench.positions.shards.values()
        told.append(
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
    return told


@pytest.mark.parametrize("seconds", [-TWO_HOURS, TWO_HOURS])
def test_a_service_whose_clock_is_two_hours_off_changes_nothing(bench, skewed, seconds):
    told = story(skewed(seconds))
    assert told[-1][0] == [2, 3, 4, 5, 6, 7, 8]
    assert all(errors == {} for *_, errors in told)
    assert told == story(bench)


@pytest.mark.parametrize("seconds", [-TWO_HOURS, TWO_HOURS])
def test_a_driver_whose_clock_is_two_hours_off_changes_nothing(bench, skewed, driver, seconds):
    driver(seconds)
    told = story(bench)
    driver(0)
    assert told == story(skewed(0))


def test_latest_is_the_services_present(skewed):
    bench = skewed(-TWO_HOURS)
    (shard,) = bench.create()
    bench.plan(start="LATEST")
    assert bench.at(shard).position.timestamp == bench.now
    bench.put(1)
    bench.run()
    assert bench.items == [1]


@pytest.mark.parametrize("seconds", [-TWO_HOURS, TWO_HOURS])
def test_whether_a_start_is_in_the_past_is_the_services_to_say(skewed, seconds):
    bench = skewed(seconds)
    bench.create()
    an_hour_off = bench.now + timedelta(hours=1)
    with pytest.raises(InvalidInput, match="not in the past"):
        bench.plan(start=f"AT_TIMESTAMP:{an_hour_off.isoformat()}")
    an_hour_ago = bench.now - timedelta(hours=1)
    bench.plan(start=f"AT_TIMESTAMP:{an_hour_ago.isoformat()}")


@pytest.mark.parametrize("seconds", [-TWO_HOURS, TWO_HOURS])
def test_loss_is_told_at_the_same_moment_of_the_services_clock(skewed, seconds):
    bench = skewed(seconds)
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=24, seconds=-2)
    plan = bench.plan()
    assert bench.execute(plan).errors == {}
    bench.later(hours=24)
    assert isinstance(bench.run().errors[shard], DataLost)


def test_tokens_of_a_clock_two_hours_behind_follow_those_of_one_two_hours_ahead(bench, driver):
    (shard,) = bench.create()
    tokens_drawn = []
    for number, seconds in enumerate([TWO_HOURS, -TWO_HOURS, TWO_HOURS, -TWO_HOURS]):
        driver(seconds)
        bench.put(number)
        before = bench.version if number else 0
        result = bench.run()
        assert (result.errors, result.version) == ({}, bench.version)
        assert result.version > before
        tokens_drawn.append(bench.positions.commit_id)
    assert tokens_drawn[1] < tokens_drawn[0]
    assert bench.items == [0, 1, 2, 3]
    positions = bench.positions
    assert (positions.generation, positions.previous) == (4, tokens_drawn[-2])
    assert bench.at(shard).last_arrival == bench.now


@pytest.mark.parametrize("ahead", [True, False])
def test_a_run_that_another_overtook_is_a_conflict_whichever_clock_is_ahead(bench, driver, ahead):
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


def test_arrivals_are_the_services(skewed):
    bench = skewed(TWO_HOURS)
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    assert bench.at(shard).last_arrival == bench.at(shard).tip_time == bench.now
    assert bench.now > datetime.now(UTC) + timedelta(hours=1)
