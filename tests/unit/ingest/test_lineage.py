"""Shards that split, merge, close and expire between runs."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import ReadFailed
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.kinesis.position import Position, PositionKind
from support.run_results import states
from support.shard_lists import omit_shards

pytestmark = pytest.mark.slow

BEGINNING = Position(PositionKind.TRIM_HORIZON)


def order_of_reads(faults):
    """Return the shards in the order of their first reads."""
    return list(dict.fromkeys(call.shard_id for call in faults.calls if call.operation == "GetRecords"))


def parents_come_first(order, shards):
    """Return whether every shard comes after all of its parents."""
    return all(
        order.index(parent) < order.index(shard.shard_id) for shard in shards for parent in shard.parents
    )


# Generations


def generations(bench):
    """Split a shard, merge its halves and split the result, with two records in each of the six shards."""
    (first,) = bench.create()
    bench.put(1, 2)
    lower, upper = bench.split(first)
    bench.put(3, 4)
    bench.put(5, 6, part=0.5)
    merged = bench.merge(lower, upper)
    bench.put(7, 8)
    bench.split(merged, part=0.25)
    bench.put(9, 10)
    bench.put(11, 12, part=0.25)


def test_a_first_run_reads_several_generations_parents_first(bench, faults):
    generations(bench)
    result = bench.run()
    assert (bench.items, result.errors) == (list(range(1, 13)), {})
    assert parents_come_first(order_of_reads(faults), bench.client.list_shards())
    assert [outcome.state for outcome in result.outcomes.values()] == [
        *[ShardState.FINISHED] * 4,
        *[ShardState.COMMITTED] * 2,
    ]


def test_a_later_run_reads_several_new_generations_parents_first(bench, faults):
    (first,) = bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    lower, upper = bench.split(first)
    bench.later(hours=1)
    bench.put(3, part=0.5)
    other, third = bench.split(upper, part=0.75)
    bench.later(hours=1)
    bench.put(4)
    merged = bench.merge(lower, other)
    bench.later(hours=1)
    bench.put(5)
    bench.put(6, part=0.75)
    faults.calls.clear()
    result = bench.run()
    assert (bench.items, result.errors) == ([1, 2, 3, 4, 5, 6], {})
    assert parents_come_first(order_of_reads(faults), bench.client.list_shards())
    assert [states(result)[shard_id] for shard_id in (merged, third)] == [ShardState.COMMITTED] * 2
    assert bench.positions.finished == {first, lower, upper, other}


def test_bounded_runs_over_generations_neither_lose_nor_duplicate_records(bench):
    generations(bench)
    landed = []
    for _ in range(5):
        bench.run(max_records=1)
        landed.append(bench.items)
    # The last record and the end of a shard are read together, so its children are read in the same run.
    assert landed == [
        [1],
        [1, 2, 3, 5],
        [1, 2, 3, 4, 5, 6, 7],
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 11],
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
    ]


def test_closed_unread_parents_are_read_before_their_children(bench, faults):
    (parent,) = bench.create()
    bench.put(1, 2)
    children = bench.split(parent)
    bench.put(3)
    bench.later(hours=23)
    assert states(bench.run(children)) == dict.fromkeys(children, ShardState.WAITING)
    assert faults.count("GetRecords") == 0
    assert states(bench.run())[parent] is ShardState.FINISHED
    assert bench.items == [1, 2, 3]


def test_children_of_parents_that_expired_before_the_first_list_are_read(bench):
    (parent,) = bench.create()
    bench.put(1)
    children = bench.split(parent)
    bench.later(hours=25)
    bench.put(2)
    bench.put(3, part=0.5)
    assert bench.shard_ids == children
    result = bench.run()
    assert (bench.items, states(result)) == ([2, 3], dict.fromkeys(children, ShardState.COMMITTED))
    assert all(bench.at(child).parents == (parent,) for child in children)


def test_a_child_of_an_expired_and_a_listed_parent_waits_for_the_listed_one(bench, faults):
    first, second = bench.create(2)
    bench.later(hours=25)  # so that a parent may have expired
    bench.put(1, part=0.5)
    child = bench.merge(first, second)
    bench.put(2)
    omit_shards(faults, first)
    assert states(bench.run([child])) == {child: ShardState.WAITING}
    assert states(bench.run([second, child]))[child] is ShardState.COMMITTED
    assert bench.items == [1, 2]


def test_a_finished_parent_that_expired_stays_finished(bench, faults):
    (parent,) = bench.create()
    bench.put(1)
    children = bench.split(parent)
    bench.run()
    for _ in range(2):
        bench.later(hours=20)
        bench.run()
    bench.put(2)
    faults.calls.clear()
    assert parent not in bench.shard_ids
    result = bench.run([parent, *children])
    assert (result.errors, result.outcomes[parent].state) == ({}, ShardState.FINISHED)
    assert bench.items == [1, 2]
    assert faults.count("GetShardIterator", parent) == 0


def test_children_that_were_split_again_between_runs_are_all_read(bench):
    first, second = bench.create(2)
    bench.put(1)
    bench.run()
    generation = [first]
    for item in range(2, 5):
        child, *_ = bench.split(generation[-1], part=0.25 / item)
        bench.put(item)
        generation.append(child)
    result = bench.run()
    assert (bench.items, result.errors) == ([1, 2, 3, 4], {})
    assert bench.positions.finished == set(generation[:-1])
    assert second not in bench.positions.finished


# The end of a shard


def set_ending_numbers(faults, ends):
    """List every closed shard with a fabricated EndingSequenceNumber."""

    def replace_ends(_, response):
        shards = response.members["Shards"]
        for shard in shards:
            numbers = shard["SequenceNumberRange"]
            if "EndingSequenceNumber" in numbers:
                numbers["EndingSequenceNumber"] = ends
        return response.but(Shards=shards)

    faults.answer("ListShards", replace_ends)


ENDS = {
    "far above the last record": lambda _, __: "9" * 100,
    "one above the last record": lambda _, last: str(int(last) + 1),
    "the last record": lambda _, last: last,
    "one below the last record": lambda _, last: str(int(last) - 1),
    "the first record": lambda first, _: first,
    "the largest 64-bit integer, as in kinesis-local": lambda _, __: "9223372036854775807",
}


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("max_records", [None, 1])
def test_the_value_of_the_ending_sequence_number_is_ignored(bench, faults, ends, max_records):
    (parent,) = bench.create()
    first, _, last = bench.put(1, 2, 3)
    children = bench.split(parent)
    bench.put(4)
    set_ending_numbers(faults, ENDS[ends](first, last))
    for _ in range(3 if max_records else 1):
        result = bench.run(max_records=max_records)
    assert bench.items == [1, 2, 3, 4]
    assert states(result) == {parent: ShardState.FINISHED} | dict.fromkeys(children, ShardState.COMMITTED)
    assert bench.at(parent).position == Position.after(last)


@pytest.mark.parametrize("operation", ["GetRecords", "GetShardIterator"])
def test_resource_not_found_does_not_finish_a_shard(bench, faults, operation):
    (parent,) = bench.create()
    first, _ = bench.put(1, 2)
    bench.run(max_records=1)
    children = bench.split(parent)
    bench.put(3)
    faults.fail(operation, status=400, code="ResourceNotFoundException", shard_id=parent)
    result = bench.run()
    assert states(result) == {parent: ShardState.FAILED} | dict.fromkeys(children, ShardState.WAITING)
    assert isinstance(result.errors[parent], ReadFailed)
    assert "ResourceNotFoundException" in str(result.errors[parent])
    assert (bench.at(parent).position, bench.at(parent).finished) == (Position.after(first), False)
    faults.clear()
    assert bench.run().errors == {}
    assert bench.items == [1, 2, 3]


def test_resource_not_found_after_a_page_does_not_finish_a_shard(bench, faults):
    (parent,) = bench.create()
    first, _ = bench.put(1, 2)
    bench.split(parent)
    faults.page_size(1)
    faults.fail(status=400, code="ResourceNotFoundException", shard_id=parent, after=1)
    assert bench.run().outcomes[parent].state is ShardState.FAILED
    assert (bench.at(parent).position, bench.at(parent).finished) == (Position.after(first), False)


# Many shards


def test_1001_shards_on_several_pages_are_all_planned_and_stored(bench, faults):
    shard_ids = bench.create(1001)
    faults.calls.clear()
    plan = bench.plan(shard_ids)
    assert faults.count("ListShards") == 2
    assert set(plan.ranges) == set(shard_ids)
    assert plan.refused == {}
    assert set(bench.positions.shards) == set(shard_ids)
    assert faults.count("GetShardIterator") == faults.count("GetRecords") == 0


def test_shards_on_later_pages_are_read(bench, faults):
    shard_ids = bench.create(7)
    for number in range(7):
        bench.put(number, part=(number + 0.5) / 7)
    faults.page_size(2, "ListShards")
    result = bench.run(shard_ids)
    assert (bench.items, result.errors) == (list(range(7)), {})
