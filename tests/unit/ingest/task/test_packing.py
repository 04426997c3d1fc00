"""How shards are spread over the tasks of a landing: by the bytes that are expected of each."""

from __future__ import annotations

import pytest

from kinesis_assets.ingest.packing import packed
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.read_timing import BYTES_PER_SECOND
from kinesis_assets.kinesis.reading.range import ShardRange

MB = 1_000_000


def ranges(*expected, **bounds):
    """Ranges of which so many bytes are expected."""
    return [
        ShardRange(str(number), Position.parse("TRIM_HORIZON"), Bounds(**bounds), ("0", "1"), expected=size)
        for number, size in enumerate(expected)
    ]


def loads(groups):
    return [[range_.expected for range_ in group] for group in groups]


def test_the_largest_are_spread_first_and_tasks_have_about_as_much():
    groups = packed(ranges(*[10 * MB] * 3, 30 * MB, 100 * MB, 40 * MB), 2)
    assert [sum(each) for each in loads(groups)] == [100 * MB, 100 * MB]


def test_unknown_ranges_count_as_the_largest_known():
    groups = packed(ranges(None, MB, 100 * MB, MB), 2)
    assert sorted(map(len, groups)) == [2, 2]
    assert not any({None, 100 * MB} <= {*each} for each in loads(groups))


@pytest.mark.parametrize("size", [0, None, 5 * MB])
def test_equal_ranges_are_spread_evenly_in_their_order(size):
    groups = packed(ranges(*[size] * 1000), 2)
    assert [len(group) for group in groups] == [500, 500]
    for group in groups:
        numbers = [int(range_.shard_id) for range_ in group]
        assert numbers == sorted(numbers)


def test_every_range_is_in_one_task():
    groups = packed(ranges(3 * MB, None, 0, 9 * MB, 2 * MB), 3)
    assert sorted(range_.shard_id for group in groups for range_ in group) == list("01234")


def test_ranges_of_which_nothing_is_expected_are_spread_too():
    groups = packed(ranges(MB, *[0] * 100), 2)
    assert sorted(map(len, groups)) == [48, 53]


@pytest.mark.parametrize("bounds", [{"max_bytes": MB}, {"max_seconds": 0.5}], ids=str)
def test_no_more_counts_of_a_range_than_its_bounds_allow(bounds):
    groups = packed(ranges(1000 * MB, *[MB] * 99, **bounds), 2)
    assert [len(group) for group in groups] == [50, 50]


@pytest.fixture
def expected(bench):
    """What a plan made after some seconds expects of each shard."""

    def after(seconds):
        bench.later(seconds=seconds)
        return {shard_id: range_.expected for shard_id, range_ in bench.plan().ranges.items()}

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


def test_a_plan_expects_that_bytes_go_on_to_arrive_as_they_did(steady, expected):
    assert expected(60)[steady] == pytest.approx(30_000, rel=0.02)


def test_a_shard_whose_first_range_was_a_backlog_is_expected_to_go_on_as_that(bench, expected):
    (shard,) = bench.create()
    for _ in range(2):
        bench.put(bytes(40_000), shard_id=shard)
        bench.later(seconds=100)
    bench.run()
    assert expected(50)[shard] == pytest.approx(20_000, rel=0.02)


def test_a_backlog_read_in_part_is_expected_to_go_on_to_now(bench, expected):
    (shard,) = bench.create()
    for _ in range(4):
        bench.put(bytes(40_000), shard_id=shard)
        bench.later(seconds=100)
    bench.run(max_records=2)  # 80,000 bytes in the 100 s between them
    assert expected(0)[shard] == pytest.approx(800 * 300, rel=0.02)


def test_nothing_is_expected_of_a_shard_that_had_nothing_for_long(steady, bench, expected):
    bench.later(seconds=3601)
    bench.run([steady])
    assert expected(60)[steady] == 0


def test_what_is_expected_of_a_shard_that_was_never_read_is_not_known(steady, bench, expected):
    (unread,) = {*bench.shard_ids} - {steady}
    assert expected(60)[unread] is None


def test_no_shard_is_expected_to_give_more_than_shards_do(bench, expected):
    (shard,) = bench.create()
    bench.put(bytes(50_000), shard_id=shard)
    bench.later(seconds=0.002)
    bench.put(bytes(50_000), b"unread", shard_id=shard)
    bench.run(max_records=2)
    assert expected(100)[shard] == pytest.approx(100 * BYTES_PER_SECOND, rel=0.001)
