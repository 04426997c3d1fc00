"""Runs report no loss where nothing is lost."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kinesis_assets.kinesis.position import Position
from kinesis_assets.testing import UserRecord, aggregate
from support.run_results import shards_with_loss

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000


def test_an_idle_shard_read_every_20_hours_for_5_days_has_no_loss(bench):
    bench.create()
    bench.put(1)
    bench.run()
    for _ in range(6):
        bench.later(hours=20)
        assert bench.run().errors == {}
    bench.put(2)
    bench.later(hours=20)
    assert bench.run().errors == {}
    assert bench.items == [1, 2]


@pytest.mark.slow
def test_an_idle_shard_read_every_59_minutes_has_a_tip_time_within_the_hour(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    for _ in range(27):
        bench.later(minutes=59)
        bench.run()
    assert bench.now - bench.at(shard).tip_time < timedelta(hours=1)
    bench.later(hours=23)
    bench.put(2)
    assert bench.run().errors == {}
    assert bench.items == [1, 2]


@pytest.mark.slow
def test_a_consumer_that_stays_20_hours_behind_has_no_loss(bench):
    (shard,) = bench.create()
    for item in range(20):
        bench.put(item)
        bench.later(hours=1)
    for item in range(20, 30):
        bench.put(item)
        outcome = bench.run(max_records=1).outcomes[shard]
        assert outcome.error is None
        assert (outcome.lag_ms, outcome.time_to_loss_ms) == (20 * HOUR_MS, 4 * HOUR_MS)
        bench.later(hours=1)
    assert bench.items == list(range(10))
    bench.later(hours=5)
    assert shards_with_loss(bench.run()) == {shard}


def test_a_first_run_at_the_trim_horizon_of_an_old_stream_has_no_loss(bench):
    bench.create()
    for item in range(30):
        bench.put(item)
        bench.later(hours=1)
    assert bench.run(start="TRIM_HORIZON").errors == {}
    assert bench.items == list(range(6, 30))
    assert bench.run().errors == {}


def test_records_that_expire_during_a_first_run_at_the_trim_horizon_are_no_loss(bench, faults):
    bench.create()
    for item in range(30):
        bench.put(item)
        bench.later(hours=1)
    faults.page_size(1)
    faults.before("GetRecords", lambda: bench.later(hours=2), after=1, times=3)
    assert bench.run().errors == {}
    assert bench.items == [6, *range(12, 30)]


def test_loss_is_measured_by_the_retention_of_the_stream(bench):
    (shard,) = bench.create()
    bench.set_retention(168)
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.later(hours=167)
    assert bench.run().errors == {}
    assert bench.items == [1, 2]
    bench.later(hours=169)
    assert shards_with_loss(bench.run()) == {shard}


@pytest.mark.parametrize("trimmed", [False, True])
def test_no_loss_is_reported_while_the_last_read_record_is_still_available(bench, faults, trimmed):
    first, second = bench.create(2)
    bench.set_retention(168)
    (number,) = bench.put(aggregate(UserRecord("k", str(item).encode()) for item in range(1, 5)))
    bench.put(5, 6, part=0.5)
    bench.run(max_records=1)
    assert bench.at(first).position == Position.after(number, 0)
    bench.set_retention(24)
    bench.run([second], max_records=1)  # observes that retention
    bench.put(7, 8, part=0.5)
    bench.set_retention(168)
    bench.later(hours=30)
    if trimmed:
        faults.trim(bench.stream)
    assert shards_with_loss(bench.run()) == ({first, second} if trimmed else set())
    assert bench.items == ([1, 5, 6] if trimmed else [1, 2, 3, 4, 5, 6, 7, 8])
