"""Shards that split, merge, close and go while nobody reads, and lists that do not tell all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from kinesis_assets.dagster.in_process import StreamProject
from kinesis_assets.dagster.names import shard_partitions
from kinesis_assets.dagster.sensor import evaluate
from kinesis_assets.errors import (
    CallFailed,
    ReadFailed,
    ShardListIncomplete,
    TableMissing,
)
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.kinesis.position import Position, PositionKind

if TYPE_CHECKING:
    from collections.abc import Callable

BEGINNING = Position(PositionKind.TRIM_HORIZON)


def states(result):
    return {shard_id: outcome.state for shard_id, outcome in result.outcomes.items()}


def order_of_reads(faults):
    """The shards in the order in which they were first read."""
    return list(dict.fromkeys(call.shard_id for call in faults.calls if call.operation == "GetRecords"))


def before_its_children(order, shards):
    """Whether every shard comes after all its parents."""
    return all(
        order.index(parent) < order.index(shard.shard_id) for shard in shards for parent in shard.parents
    )


# Generations


def generations(bench):
    """A split, a merge of its halves, and another split, with two records in each of the six shards."""
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


def test_several_generations_at_first_sight_are_read_parents_first_in_one_run(bench, faults):
    generations(bench)
    result = bench.run()
    assert (bench.items, result.errors) == (list(range(1, 13)), {})
    assert before_its_children(order_of_reads(faults), bench.client.list_shards())
    assert [outcome.state for outcome in result.outcomes.values()] == [
        *[ShardState.FINISHED] * 4,
        *[ShardState.COMMITTED] * 2,
    ]


def test_several_generations_since_the_last_run_are_read_parents_first_in_one_run(bench, faults):
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
    assert before_its_children(order_of_reads(faults), bench.client.list_shards())
    assert [states(result)[shard_id] for shard_id in (merged, third)] == [ShardState.COMMITTED] * 2
    assert bench.positions.finished == {first, lower, upper, other}


def test_generations_in_bounded_steps_lose_and_double_nothing(bench):
    generations(bench)
    landed = []
    for _ in range(5):
        bench.run(max_records=1)
        landed.append(bench.items)
    # A shard's last record and its end come together, so its children's first ones come too.
    assert landed == [
        [1],
        [1, 2, 3, 5],
        [1, 2, 3, 4, 5, 6, 7],
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 11],
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
    ]


def test_parents_closed_and_unread_at_first_sight_are_read_first(bench, faults):
    (parent,) = bench.create()
    bench.put(1, 2)
    children = bench.split(parent)
    bench.put(3)
    bench.later(hours=23)
    assert states(bench.run(children)) == dict.fromkeys(children, ShardState.WAITING)
    assert faults.count("GetRecords") == 0
    assert states(bench.run())[parent] is ShardState.FINISHED
    assert bench.items == [1, 2, 3]


def test_children_of_parents_that_were_trimmed_before_the_first_sight_wait_for_nobody(bench):
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


def test_a_child_of_one_trimmed_and_one_listed_parent_waits_for_the_listed_one(bench, faults):
    first, second = bench.create(2)
    bench.later(hours=25)  # a parent may have expired since
    bench.put(1, part=0.5)
    child = bench.merge(first, second)
    bench.put(2)
    faults.answer(
        "ListShards",
        lambda _, answer: answer.but(
            Shards=[shard for shard in answer.members["Shards"] if shard["ShardId"] != first]
        ),
    )
    assert states(bench.run([child])) == {child: ShardState.WAITING}
    assert states(bench.run([second, child]))[child] is ShardState.COMMITTED
    assert bench.items == [1, 2]


def test_a_finished_parent_that_was_trimmed_stays_finished(bench, faults):
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


def test_children_opened_and_split_again_while_nobody_read_are_all_read(bench):
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


def bent_ends(faults, ends):
    """List every closed shard with a made-up EndingSequenceNumber."""

    def bend(_, answer):
        shards = answer.members["Shards"]
        for shard in shards:
            numbers = shard["SequenceNumberRange"]
            if "EndingSequenceNumber" in numbers:
                numbers["EndingSequenceNumber"] = ends
        return answer.but(Shards=shards)

    faults.answer("ListShards", bend)


ENDS = {
    "far above the last record": lambda _, __: "9" * 100,
    "a little above it": lambda _, last: str(int(last) + 1),
    "at it": lambda _, last: last,
    "a little below it": lambda _, last: str(int(last) - 1),
    "at the first record": lambda first, _: first,
    "the largest of 64 bits, as kinesis-local has it": lambda _, __: "9223372036854775807",
}


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("max_records", [None, 1])
def test_the_value_of_an_ending_sequence_number_ends_nothing(bench, faults, ends, max_records):
    (parent,) = bench.create()
    first, _, last = bench.put(1, 2, 3)
    children = bench.split(parent)
    bench.put(4)
    bent_ends(faults, ENDS[ends](first, last))
    for _ in range(3 if max_records else 1):
        result = bench.run(max_records=max_records)
    assert bench.items == [1, 2, 3, 4]
    assert states(result) == {parent: ShardState.FINISHED} | dict.fromkeys(children, ShardState.COMMITTED)
    assert bench.at(parent).position == Position.after(last)


@pytest.mark.parametrize("operation", ["GetRecords", "GetShardIterator"])
def test_resource_not_found_is_no_end_of_a_shard(bench, faults, operation):
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


def test_resource_not_found_after_a_page_is_no_end_of_a_shard(bench, faults):
    (parent,) = bench.create()
    first, _ = bench.put(1, 2)
    bench.split(parent)
    faults.page_size(1)
    faults.fail(status=400, code="ResourceNotFoundException", shard_id=parent, after=1)
    assert bench.run().outcomes[parent].state is ShardState.FAILED
    assert (bench.at(parent).position, bench.at(parent).finished) == (Position.after(first), False)


# Many shards


def test_a_thousand_and_one_shards_over_several_pages_are_all_planned_and_frozen(bench, faults):
    shard_ids = bench.create(1001)
    faults.calls.clear()
    plan = bench.plan(shard_ids)
    assert faults.count("ListShards") == 2
    assert set(plan.ranges) == set(shard_ids)
    assert plan.refused == {}
    assert set(bench.positions.shards) == set(shard_ids)
    assert faults.count("GetShardIterator") == faults.count("GetRecords") == 0


def test_shards_of_later_pages_are_read(bench, faults):
    shard_ids = bench.create(7)
    for number in range(7):
        bench.put(number, part=(number + 0.5) / 7)
    faults.page_size(2, "ListShards")
    result = bench.run(shard_ids)
    assert (bench.items, result.errors) == (list(range(7)), {})


# Lists that do not tell all


def page_two_fails(faults):
    faults.page_size(2, "ListShards")
    faults.fail("ListShards", status=400, code="ExpiredNextTokenException", after=1)


def page_two_is_cut(faults):
    faults.page_size(2, "ListShards")
    faults.answer("ListShards", lambda _, answer: answer.with_body(answer.body[:40]), after=1)


def page_two_is_lost(faults):
    faults.page_size(2, "ListShards")
    faults.answer("ListShards", lambda _, answer: answer.but(NextToken=None))


def empty(faults):
    faults.answer("ListShards", lambda _, answer: answer.but(Shards=[]))


LISTS = pytest.mark.parametrize(
    ("fault", "error"),
    [
        (page_two_fails, CallFailed),
        (page_two_is_cut, CallFailed),
        (page_two_is_lost, ShardListIncomplete),
        (empty, ShardListIncomplete),
    ],
)


@LISTS
def test_a_list_that_does_not_tell_all_changes_neither_positions_nor_table(bench, faults, fault, error):
    shard_ids = bench.create(3)
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.split(shard_ids[2], part=0.75)
    before = (bench.positions, bench.version)
    fault(faults)
    with pytest.raises(error, match=bench.stream):
        bench.plan(shard_ids)
    faults.clear()
    assert (bench.positions, bench.version) == before
    assert bench.run().errors == {}
    assert bench.items == [1, 2]


@LISTS
def test_a_list_that_does_not_tell_all_makes_no_table(bench, faults, fault, error):
    shard_ids = bench.create(3)
    fault(faults)
    with pytest.raises(error):
        bench.plan(shard_ids)
    with pytest.raises(TableMissing):
        bench.table.snapshot()


@pytest.fixture
def tick(bench: Any) -> Callable[[dg.DagsterInstance], dg.SensorResult]:
    """One tick of the stream's sensor, which does what it asks for with the partitions."""
    project = StreamProject.from_settings(
        bench.stream, table=bench.table.uri, endpoint_url=bench.settings.endpoint_url
    )

    def tick(instance: dg.DagsterInstance) -> dg.SensorResult:
        with project.open_stream() as opened:
            result = evaluate(opened, instance, None)
        for request in result.dynamic_partitions_requests or ():
            assert isinstance(request, dg.AddDynamicPartitionsRequest)  # it never deletes any
            instance.add_dynamic_partitions(request.partitions_def_name, request.partition_keys)
        return result

    return tick


@pytest.mark.real_time
@LISTS
def test_a_list_that_does_not_tell_all_leaves_the_partitions_as_they_are(bench, faults, fault, error, tick):
    shard_ids = bench.create(3)
    partitions = shard_partitions(bench.stream)
    with dg.DagsterInstance.ephemeral() as instance:
        tick(instance)
        bench.split(shard_ids[0], part=0.1)
        fault(faults)
        with pytest.raises(error):
            tick(instance)
        known = partitions.get_partition_keys(dynamic_partitions_store=instance)
        assert set(known) == set(shard_ids)
        faults.clear()
        tick(instance)
        known = partitions.get_partition_keys(dynamic_partitions_store=instance)
        assert set(known) == set(bench.shard_ids)
