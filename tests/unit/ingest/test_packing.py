"""The distribution of shards over the tasks of a landing, by their expected bytes."""

from __future__ import annotations

import pytest

from kinesis_assets.ingest.land import packed
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import Bounds, ShardRange
from kinesis_assets.kinesis.settings import BYTES_PER_SECOND

MB = 1_000_000


def ranges(*expected, **bounds):
    """Ranges with these expected bytes."""
    return [
        ShardRange(
            str(number), Position.parse("TRIM_HORIZON"), Bounds(**bounds), ("0", "1"), expected_bytes=size
        )
        for number, size in enumerate(expected)
    ]


def loads(groups):
    return [[range_.expected_bytes for range_ in group] for group in groups]


def test_the_largest_ranges_are_assigned_first_and_tasks_are_balanced():
    groups = packed(ranges(*[10 * MB] * 3, 30 * MB, 100 * MB, 40 * MB), 2)
    assert [sum(each) for each in loads(groups)] == [100 * MB, 100 * MB]


def test_ranges_of_unknown_size_count_as_the_largest_known_range():
    groups = packed(ranges(None, MB, 100 * MB, MB), 2)
    assert sorted(map(len, groups)) == [2, 2]
    assert not any({None, 100 * MB} <= {*each} for each in loads(groups))


@pytest.mark.parametrize("size", [0, None, 5 * MB])
def test_equal_ranges_are_spread_evenly_in_order(size):
    groups = packed(ranges(*[size] * 1000), 2)
    assert [len(group) for group in groups] == [500, 500]
    for group in groups:
        numbers = [int(range_.shard_id) for range_ in group]
        assert numbers == sorted(numbers)


def test_every_range_is_assigned_to_exactly_one_task():
    groups = packed(ranges(3 * MB, None, 0, 9 * MB, 2 * MB), 3)
    assert sorted(range_.shard_id for group in groups for range_ in group) == list("01234")


def test_ranges_with_zero_expected_bytes_are_spread_too():
    groups = packed(ranges(MB, *[0] * 100), 2)
    assert sorted(map(len, groups)) == [48, 53]


@pytest.mark.parametrize("bounds", [{"max_bytes": MB}, {"max_seconds": 0.5}], ids=str)
def test_the_expected_bytes_of_a_range_are_capped_by_its_bounds(bounds):
    groups = packed(ranges(1000 * MB, *[MB] * 99, **bounds), 2)
    assert [len(group) for group in groups] == [50, 50]


@pytest.fixture
def expected(bench):
    """Return the bytes that a plan made after some seconds expects from each shard."""

    def after(seconds):
        bench.later(seconds=seconds)
        return {shard_id: range_.expected_bytes for shard_id, range_ in bench.plan().ranges.items()}

    return after


@pytest.fixture
def steady(bench):
    """The first of two shards, read to its tip twice, 100 s and 50,000 bytes apart."""
    steady, _ = bench.create(2)
    bench.run([steady])
    bench.later(seconds=100)
    bench.put(bytes(20_000), bytes(30_000), shard_id=steady)
    bench.run([steady])
    return steady


def test_a_plan_expects_bytes_at_the_rate_of_the_last_range(steady, expected):
    assert expected(60)[steady] == pytest.approx(30_000, rel=0.02)


def test_the_rate_of_a_shard_can_come_from_its_backlog(bench, expected):
    (shard,) = bench.create()
    for _ in range(2):
        bench.put(bytes(40_000), shard_id=shard)
        bench.later(seconds=100)
    bench.run()
    assert expected(50)[shard] == pytest.approx(20_000, rel=0.02)


def test_a_partly_read_backlog_is_expected_to_continue_until_now(bench, expected):
    (shard,) = bench.create()
    for _ in range(4):
        bench.put(bytes(40_000), shard_id=shard)
        bench.later(seconds=100)
    bench.run(max_records=2)  # 80,000 bytes in 100 s
    assert expected(0)[shard] == pytest.approx(800 * 300, rel=0.02)


def test_no_bytes_are_expected_from_a_shard_that_was_idle_for_long(steady, bench, expected):
    bench.later(seconds=3601)
    bench.run([steady])
    assert expected(60)[steady] == 0


def test_the_expected_bytes_of_an_unread_shard_are_unknown(steady, bench, expected):
    (unread,) = {*bench.shard_ids} - {steady}
    assert expected(60)[unread] is None


def test_the_expected_rate_is_capped_at_the_limit_of_a_shard(bench, expected):
    (shard,) = bench.create()
    bench.put(bytes(50_000), shard_id=shard)
    bench.later(seconds=0.002)
    bench.put(bytes(50_000), b"unread", shard_id=shard)
    bench.run(max_records=2)
    assert expected(100)[shard] == pytest.approx(100 * BYTES_PER_SECOND, rel=0.001)
