"""Parents that are missing from a shard list, because the list is incomplete or because they expired."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import CallFailed, ShardListIncomplete, TableMissing
from support.shard_lists import omit_shards

pytestmark = pytest.mark.slow

RESTART = {"on_recreated": "restart"}


def iterators_of(faults, shard_id):
    """Return how many iterators of a shard were requested."""
    return sum(
        call.operation == "GetShardIterator" and call.arguments["ShardId"] == shard_id
        for call in faults.calls
    )


@pytest.fixture
def split(bench):
    """Split a stream with a long retention. Return the parent and its children, all unread."""
    (parent,) = bench.create()
    bench.set_retention(168)
    bench.put(1)
    children = bench.split(parent)
    bench.put(2)
    bench.put(3, part=0.5)
    return parent, children


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("hours", [25, 167])
def test_the_first_list_within_the_retention_is_requested_again_if_a_parent_is_missing(
    bench, faults, split, hours, times
):
    parent, children = split
    bench.later(hours=hours)
    omit_shards(faults, parent, times=times)
    result = bench.run([parent, *children])
    assert (result.errors, bench.items) == ({}, [1, 2, 3])
    assert bench.positions.finished == {parent}


@pytest.mark.parametrize("hours", [25, 167])
def test_no_table_is_created_while_the_first_list_misses_a_readable_parent(bench, faults, split, hours):
    parent, children = split
    bench.later(hours=hours)
    omit_shards(faults, parent)
    with pytest.raises(ShardListIncomplete, match=f"left out the parents {parent}, which can still be read"):
        bench.plan(children)
    with pytest.raises(TableMissing):
        bench.table.snapshot()
    faults.clear()
    assert bench.run([parent, *children]).errors == {}
    assert bench.items == [1, 2, 3]


def test_missing_parents_are_accepted_once_their_iterators_are_refused(bench, faults):
    (parent,) = bench.create()
    children = bench.split(parent)
    bench.later(hours=25)
    bench.set_retention(168)
    bench.put(1)
    assert bench.shard_ids == children
    faults.calls.clear()
    assert bench.run(children).errors == {}
    assert bench.items == [1]
    assert iterators_of(faults, parent) == 1
    assert faults.count("ListShards") == 2
    assert bench.positions.shards.keys() == set(children)


def test_a_parent_in_the_second_list_is_planned_even_if_its_iterator_is_refused(bench, faults, split):
    parent, children = split
    bench.later(hours=30)
    omit_shards(faults, parent, times=1)
    faults.fail("GetShardIterator", status=400, code="ResourceNotFoundException", shard_id=parent)
    bench.plan(children)
    assert bench.positions.shards.keys() == {parent, *children}


def test_no_table_is_created_if_access_to_a_missing_parent_is_denied(bench, faults, split):
    parent, children = split
    bench.later(hours=30)
    omit_shards(faults, parent)
    faults.fail("GetShardIterator", status=400, code="AccessDeniedException", shard_id=parent)
    with pytest.raises(CallFailed, match="AccessDeniedException"):
        bench.plan(children)
    with pytest.raises(TableMissing):
        bench.table.snapshot()


def test_missing_parents_of_an_old_stream_need_no_further_call(bench, faults):
    (parent,) = bench.create()
    bench.later(hours=1)
    children = bench.split(parent)
    bench.later(hours=25)
    assert bench.shard_ids == children
    faults.calls.clear()
    bench.plan(children)
    assert (faults.count("ListShards"), iterators_of(faults, parent)) == (1, 0)


def test_one_response_with_a_shorter_retention_does_not_skip_the_check(bench, faults, split):
    parent, children = split
    bench.later(hours=30)
    omit_shards(faults, parent)

    def shorter(_, response):
        described = response.members["StreamDescriptionSummary"]
        return response.but(StreamDescriptionSummary=described | {"RetentionPeriodHours": 24})

    faults.answer("DescribeStreamSummary", shorter, times=1)
    with pytest.raises(ShardListIncomplete, match="can still be read"):
        bench.plan(children)


def test_the_first_list_of_a_recreated_stream_is_checked_too(bench, faults):
    bench.create()
    bench.put(0)
    bench.run()
    bench.delete()
    bench.later(seconds=5)
    (parent,) = bench.create()
    bench.set_retention(168)
    bench.put(1)
    children = bench.split(parent)
    bench.put(2)
    bench.later(hours=30)
    omit_shards(faults, parent)
    with pytest.raises(ShardListIncomplete, match="can still be read"):
        bench.plan(children, **RESTART)
    faults.clear()
    assert bench.run([parent, *children], **RESTART).errors == {}
    assert bench.items == [0, 1, 2]


# Later lists


@pytest.fixture
def split_twice(bench):
    """Read a shard, then split it and one of its children. Return it, that child and the open shards."""
    (first,) = bench.create()
    bench.set_retention(168)
    bench.put(1)
    bench.run()
    child, other = bench.split(first)
    bench.put(2)
    bench.later(seconds=1)
    grandchildren = bench.split(child, part=0.25)
    bench.put(3)
    return first, child, [other, *grandchildren]


def test_a_later_list_is_requested_again_if_an_unknown_parent_is_missing(bench, faults, split_twice):
    first, child, opened = split_twice
    bench.later(hours=30)
    omit_shards(faults, child, times=2)
    result = bench.run([first, child, *opened])
    assert (result.errors, bench.items) == ({}, [1, 2, 3])


def test_a_later_list_that_misses_a_readable_unknown_parent_fails_the_run(bench, faults, split_twice):
    first, child, opened = split_twice
    bench.later(hours=30)
    before = bench.version
    omit_shards(faults, child)
    with pytest.raises(ShardListIncomplete, match=f"left out the parents {child}, which can still be read"):
        bench.plan([first, *opened])
    assert bench.version == before


def test_an_expired_unknown_parent_does_not_block_its_children(bench, faults):
    (first,) = bench.create()
    bench.put(1)
    bench.run()
    child, other = bench.split(first)
    grandchildren = bench.split(child, part=0.25)
    bench.later(hours=25)
    bench.set_retention(168)
    bench.put(2)
    faults.calls.clear()
    bench.run([first, other, *grandchildren])
    assert iterators_of(faults, child) == 1
    assert {other, *grandchildren} < bench.plan().expected.shards.keys()
