"""The bounds of a plan, and plans that are narrowed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kinesis_assets.kinesis.reading.range import Bounds


def test_narrowed_bounds_cannot_widen(bench):
    (shard,) = bench.create()
    plan = bench.plan(max_records=2, max_bytes=10)
    until = plan.ranges[shard].bounds.until
    wide = Bounds(max_records=100, max_bytes=100, until=until + timedelta(hours=1))
    assert plan.narrowed(wide).ranges == plan.ranges


def test_narrowed_bounds_are_the_smaller_of_both(bench):
    (shard,) = bench.create()
    plan = bench.plan(max_records=2, max_bytes=10)
    until = plan.ranges[shard].bounds.until
    earlier = until - timedelta(hours=1)
    narrowed = plan.narrowed(Bounds(max_records=1, max_bytes=100, max_seconds=5, until=earlier))
    assert narrowed.ranges[shard].bounds == Bounds(max_records=1, max_bytes=10, max_seconds=5, until=earlier)
    assert narrowed.ranges[shard].start == plan.ranges[shard].start


def test_a_narrowed_plan_leaves_the_rest_to_the_next_run(bench):
    bench.create()
    bench.put(*range(4))
    bench.execute(bench.plan().narrowed(Bounds(max_records=1)))
    assert bench.items == [0]
    bench.run()
    assert bench.items == [0, 1, 2, 3]


def test_an_end_before_now_is_kept(bench):
    (shard,) = bench.create()
    until = datetime(2026, 1, 1, tzinfo=UTC)
    assert bench.plan(until=until).ranges[shard].bounds.until == until


def test_a_record_that_arrives_after_the_planned_time_is_left_to_the_next_run(bench):
    bench.create()
    bench.put(0)
    plan = bench.plan()
    bench.later(seconds=1)
    bench.put(1)
    bench.execute(plan)
    assert bench.items == [0]
    bench.run()
    assert bench.items == [0, 1]
