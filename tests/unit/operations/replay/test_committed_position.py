"""A replay ends at the committed position."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kinesis_assets.kinesis.position import Position
from kinesis_assets.operations.replay.outcome import ReplayState
from support.aggregates import aggregate_of
from support.replays import A, ingest_and_lose, states

pytestmark = pytest.mark.slow


def test_a_replay_ends_at_the_committed_position(bench):
    bench.create()
    bench.put(*range(10))
    bench.run(max_records=6)
    bench.lose(1)

    bench.replay()

    assert bench.items == [0, 1, 2, 3, 4, 5]
    bench.run()
    assert bench.items == list(range(10))


def test_a_replay_ends_at_a_position_inside_an_aggregate(bench):
    bench.create()
    bench.put(aggregate_of(*range(6)))
    bench.run(max_records=4)
    bench.lose(0, 3)

    result = bench.replay()

    assert states(result) == {A: (ReplayState.FILLED, 2)}
    assert bench.items == [0, 1, 2, 3]
    bench.run()
    assert bench.items == [0, 1, 2, 3, 4, 5]


def test_a_replay_of_a_partly_read_aggregate_ends_at_the_position(bench):
    bench.create()
    (number,) = bench.put(aggregate_of(*range(6)))
    bench.run(max_records=4)
    bench.lose(1)

    bench.replay(number, number, A)

    assert bench.items == [0, 1, 2, 3]


def test_a_shard_that_no_run_has_read_is_reported_as_unread(bench):
    bench.create()
    bench.put(0)
    bench.plan()  # freezes the start

    assert states(bench.replay()) == {A: (ReplayState.UNREAD, 0)}
    assert bench.items == []


def test_a_range_after_the_position_is_empty(bench):
    bench.create()
    numbers = bench.put(0, 1)
    bench.run(max_records=1)

    assert states(bench.replay(numbers[1], None, A)) == {A: (ReplayState.WHOLE, 0)}
    assert bench.items == [0]


def test_a_replay_ends_at_a_position_that_is_a_time(bench):
    bench.create()
    bench.put(0)
    time = bench.later(minutes=10)
    bench.put(1)
    bench.run()
    bench.lose(0, 1)
    bench.forge_shards(A, position=Position.at_timestamp(time))

    bench.replay()

    assert bench.items == [0]


def test_a_position_between_two_milliseconds_is_rounded_down(bench):
    """Arrivals are whole milliseconds. A run starts at the earlier one, so a replay must end there."""
    bench.create()
    bench.put(1)
    bench.later(seconds=0.25)
    bench.put(2)
    start = (bench.now + timedelta(microseconds=400)).isoformat()
    bench.plan(start=f"AT_TIMESTAMP:{start}")
    bench.replay()
    bench.run()
    assert bench.items == [1, 2]


def test_no_page_after_the_position_is_requested(bench, faults):
    ingest_and_lose(bench, 1, count=3)
    bench.put(3, 4)
    faults.clear()
    faults.page_size(3)

    bench.replay()

    assert bench.items == [0, 1, 2]
    assert faults.count("GetRecords") == 1
