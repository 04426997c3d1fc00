"""A run's allowance: all shards together never exceed it, and repeated runs read every record."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from kinesis_assets.ingest.manifest import Landing
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.ingest.task import LandingJob, land_group
from kinesis_assets.kinesis.clock import MACHINE_CLOCK
from kinesis_assets.kinesis.reading.range import Allowance
from kinesis_assets.kinesis.settings import CONNECTIONS
from kinesis_assets.kinesis.transport.signed_call import SignedCall
from kinesis_assets.testing import UserRecord, aggregate
from support.shifted_clock import ShiftedClock
from support.stalled_calls import released_after
from support.virtual_time import VirtualTime

pytestmark = pytest.mark.slow


def in_tasks(count):
    """Land in as many tasks as Spark would, one after the other, each with its share of the allowance."""

    def land(job, ranges, allowance):
        shares = allowance.shares(min(count, len(ranges)))
        groups = [(ranges[task :: len(shares)], share) for task, share in enumerate(shares)]
        return sum((land_group(job, *group) for group in groups), Landing())

    return land


def filled(bench, shards, records):
    """Fill each of the shards with records of four bytes, and return all payloads, sorted."""
    data = {
        shard_id: [b"%d%03d" % (number, item) for item in range(records)]
        for number, shard_id in enumerate(bench.create(shards))
    }
    for shard_id, items in data.items():
        bench.put(*items, shard_id=shard_id)
    return sorted(item for items in data.values() for item in items)


# The maximum duration of a reading


@pytest.mark.parametrize("seconds", [None, 36_000.0])
def test_a_run_that_runs_out_of_time_commits_and_the_next_run_continues(bench, faults, seconds):
    clock = ShiftedClock()
    bench.set_machine_clock(clock)
    data = filled(bench, 1, 6)
    faults.page_size(1)
    faults.answer("GetRecords", lambda *_: clock.advance(2.5))
    for count in (3, 6):
        result = bench.run(allowance=Allowance(seconds=seconds))
        assert result.errors == {}
        assert bench.data == data[:count]


# Records and bytes


@pytest.mark.slow
@pytest.mark.parametrize("land", [land_group, in_tasks(3)], ids=["one_task", "three_tasks"])
@pytest.mark.parametrize(
    "allowance", [Allowance(records=100), Allowance(bytes=400)], ids=["records", "bytes"]
)
def test_no_run_exceeds_its_allowance_and_repeated_runs_land_everything(bench, land, allowance):
    data = filled(bench, 8, 40)
    runs = []
    while sum(runs) < len(data):
        result = bench.run(land=land, allowance=allowance)
        assert result.errors == {}
        runs.append(sum(outcome.rows for outcome in result.outcomes.values()))
        assert 0 < runs[-1] <= 100
        assert len(bench.data) == sum(runs)
    assert bench.data == data


def test_the_shards_of_one_task_use_up_their_allowance_exactly(bench):
    filled(bench, 8, 40)
    result = bench.run(allowance=Allowance(records=100))
    assert sum(outcome.rows for outcome in result.outcomes.values()) == 100
    assert {outcome.state for outcome in result.outcomes.values()} == {ShardState.COMMITTED}


def test_bounds_of_a_shard_apply_within_the_allowance_of_the_run(bench):
    filled(bench, 4, 40)
    result = bench.run(allowance=Allowance(records=100), max_records=10)
    assert [outcome.rows for outcome in result.outcomes.values()] == [10] * 4
    result = bench.run(allowance=Allowance(records=25), max_records=10)
    assert sum(outcome.rows for outcome in result.outcomes.values()) == 25
    assert max(outcome.rows for outcome in result.outcomes.values()) == 10


@pytest.mark.slow
def test_runs_with_an_allowance_below_the_number_of_shards_land_everything(bench):
    data = filled(bench, 6, 2)
    for _ in data:
        outcomes = bench.run(allowance=Allowance(records=1)).outcomes
        assert sum(outcome.rows for outcome in outcomes.values()) == 1
    assert bench.data == data


def test_a_record_larger_than_the_allowance_is_landed_by_a_run_of_its_own(bench):
    (shard_id,) = bench.create()
    bench.put(b"a" * 100, b"b" * 100, b"c", shard_id=shard_id)
    steps = []
    for _ in range(3):
        bench.run(allowance=Allowance(bytes=10))
        steps.append([len(item) for item in bench.data])
    assert steps == [[100], [100, 100], [100, 100, 1]]


def test_a_limit_reached_inside_an_aggregate_is_stored_in_the_position(bench):
    (shard_id,) = bench.create()
    (number,) = bench.put(aggregate(UserRecord("k", b"%d" % item) for item in range(5)), shard_id=shard_id)
    steps = []
    for _ in range(3):
        bench.run(allowance=Allowance(records=2))
        steps.append((str(bench.at(shard_id).position), bench.data))
    assert steps == [
        (f"AFTER_SEQUENCE_NUMBER:{number}:1", [b"0", b"1"]),
        (f"AFTER_SEQUENCE_NUMBER:{number}:3", [b"0", b"1", b"2", b"3"]),
        (f"AFTER_SEQUENCE_NUMBER:{number}", [b"0", b"1", b"2", b"3", b"4"]),
    ]


def test_a_run_that_dies_inside_an_aggregate_is_repeated_without_loss_or_duplicates(bench):
    (shard_id,) = bench.create()
    bench.put(aggregate(UserRecord("k", b"%d" % item) for item in range(5)), shard_id=shard_id)
    bench.run(max_records=2)

    def die(*landed):
        land_group(*landed)
        raise MemoryError

    with pytest.raises(MemoryError):
        bench.run(land=die, max_records=2)
    assert bench.data == [b"0", b"1"]
    bench.run(max_records=2)
    assert bench.data == [b"0", b"1", b"2", b"3"]
    bench.run()
    assert [row["sub_sequence_number"] for row in bench.rows] == [0, 1, 2, 3, 4]


# Generations


def generations(bench):
    """Create a closed parent with 30 records of one byte and two children with 20, and return the ids."""
    (parent,) = bench.create()
    bench.put(*[b"p"] * 30, shard_id=parent)
    first, second = bench.split(parent)
    bench.put(*[b"f"] * 20, shard_id=first)
    bench.put(*[b"s"] * 20, shard_id=second)
    return parent, first, second


@pytest.mark.parametrize("allowance", [Allowance(records=45), Allowance(bytes=45)], ids=["records", "bytes"])
def test_children_share_the_allowance_that_their_finished_parent_left(bench, allowance):
    parent, first, second = generations(bench)
    outcomes = bench.run(allowance=allowance).outcomes
    assert (outcomes[parent].rows, outcomes[parent].state) == (30, ShardState.FINISHED)
    assert outcomes[first].rows + outcomes[second].rows == 15
    bench.run(allowance=allowance)
    assert bench.data == [b"f"] * 20 + [b"p"] * 30 + [b"s"] * 20


@pytest.mark.parametrize("allowance", [Allowance(records=30), Allowance(bytes=30)], ids=["records", "bytes"])
def test_children_are_not_read_if_their_parent_used_up_the_allowance(bench, faults, allowance):
    parent, *children = generations(bench)
    outcomes = bench.run(allowance=allowance).outcomes
    assert [outcomes[child].rows for child in children] == [0, 0]
    assert [outcomes[child].state for child in children] == [ShardState.COMMITTED] * 2
    assert [faults.count("GetRecords", child) for child in children] == [0, 0]
    assert bench.data == [b"p"] * 30
    assert bench.positions.finished == {parent}
    bench.run()
    assert len(bench.data) == 70


# Seconds


class PageClock:
    """A clock by which each requested page takes one second."""

    time, sleep = staticmethod(time.time), staticmethod(time.sleep)
    call_later = staticmethod(MACHINE_CLOCK.call_later)

    def __init__(self, faults):
        self._faults = faults

    def monotonic(self):
        return float(self._faults.count("GetRecords"))


@pytest.fixture
def one_second_per_page(bench, faults):
    bench.set_timing(clock=PageClock(faults))


@pytest.mark.usefixtures("one_second_per_page")
def test_no_page_is_requested_after_the_runs_seconds_and_repeated_runs_land_everything(bench, faults):
    data = filled(bench, 1, 10)
    faults.page_size(1)
    steps = []
    while len(steps) < 4:
        result = bench.run(allowance=Allowance(seconds=3.0))
        assert result.errors == {}
        steps.append(len(bench.data))
    assert steps == [3, 6, 9, 10]
    assert bench.data == data


@pytest.mark.usefixtures("one_second_per_page")
def test_the_shards_of_a_task_share_the_seconds_of_the_run(bench, faults):
    data = filled(bench, 4, 10)
    faults.page_size(1)
    result = bench.run(allowance=Allowance(seconds=8.0))
    # Each of the other three shards may have requested a page before the last second passed.
    assert 8 <= sum(outcome.rows for outcome in result.outcomes.values()) <= 8 + 3
    assert {outcome.state for outcome in result.outcomes.values()} == {ShardState.COMMITTED}
    bench.run()
    assert bench.data == data


@pytest.mark.usefixtures("one_second_per_page")
def test_shards_that_wait_for_a_connection_request_no_page_after_the_runs_seconds(bench, faults):
    bench.settings = replace(bench.settings, max_pool_connections=2)
    data = filled(bench, 8, 10)
    faults.page_size(1)
    result = bench.run(allowance=Allowance(seconds=3.0))
    assert 3 <= sum(outcome.rows for outcome in result.outcomes.values()) <= 3 + 1
    bench.run()
    assert bench.data == data


def test_children_are_read_in_the_seconds_that_their_parent_left(bench):
    generations(bench)
    clock, remaining = VirtualTime(), []
    bench.set_timing(clock=clock)

    def timed_landing(job: LandingJob, ranges, allowance) -> Landing:
        remaining.append(allowance.seconds)
        clock.now += 10.0  # the duration of the landing
        return land_group(job, ranges, allowance)

    bench.run(land=timed_landing, allowance=Allowance(seconds=25.0))
    assert [round(seconds) for seconds in remaining] == [25, 15]


def test_a_run_without_remaining_time_changes_no_position(bench, faults):
    shard_id, *_ = generations(bench)
    plan = bench.plan(allowance=Allowance(seconds=1e-9))
    before = bench.positions.shards
    outcome = bench.execute(plan).outcomes[shard_id]
    assert (outcome.rows, outcome.state, outcome.error) == (0, ShardState.COMMITTED, None)
    assert faults.count("GetRecords") == 0
    assert bench.positions.shards == before


# The order of shards and the number of concurrent calls


def test_unread_shards_with_a_backlog_come_first(bench):
    first, *others = bench.create(3)
    for shard_id in (first, *others):
        bench.put(b"0", b"1", b"2", shard_id=shard_id)
    bench.later(seconds=3600)
    bench.run([first], max_records=1)
    assert list(bench.plan().ranges) == [*others, first]


@pytest.mark.slow
def test_no_more_calls_than_connections_run_at_once(bench, faults, monkeypatch):
    shard_ids = bench.create(CONNECTIONS + 8)
    for shard_id in shard_ids:
        bench.put(b"0", shard_id=shard_id)
    faults.stall("GetRecords")
    pending, most, call = [], [], SignedCall.__call__

    async def counting(*arguments):
        pending.append(None)
        most.append(len(pending))
        try:
            return await call(*arguments)
        finally:
            pending.pop()

    monkeypatch.setattr(SignedCall, "__call__", counting)
    with released_after(faults, lambda: faults.count("GetRecords") >= CONNECTIONS):
        result = bench.run()
    assert {outcome.rows for outcome in result.outcomes.values()} == {1}
    assert max(most) == CONNECTIONS
