"""Shards that a run requests, those it waits for, and what its plan says of each."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from kinesis_assets.errors import ParentUnfinished, ShardUnknown
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.ingest.plan import gaps_to_fill
from kinesis_assets.kinesis.data_loss import Gap
from support.run_results import states
from support.shard_lists import omit_shards


def test_only_the_requested_shards_are_read(bench, faults):
    first, second = bench.create(2)
    bench.put(0)
    bench.put(1, part=0.5)
    result = bench.run([second])
    assert bench.items == [1]
    assert states(result) == {second: ShardState.COMMITTED}
    assert faults.count("GetRecords", first) == 0


def test_the_shard_whose_unread_records_expire_first_is_read_first(bench):
    first, second = bench.create(2)
    bench.run()
    bench.later(hours=1)
    bench.run([first])
    assert [*bench.plan().ranges] == [second, first]


def test_a_lower_retention_is_recorded_for_unfinished_shards_only(bench):
    (parent,) = bench.create()
    bench.set_retention(48)
    bench.put(0)
    children = bench.split(parent)
    bench.run()
    assert bench.plan().lowered == {}
    bench.set_retention(24)
    assert bench.plan().lowered.keys() == {*children}


def test_what_a_catch_up_has_skipped_is_to_be_filled_and_an_accepted_gap_is_not(bench):
    first, second = bench.create(2)
    bench.run()
    positions = bench.positions
    at = positions.shards[first]
    skipped = Gap(after=at.position, since=None, next_sequence_number=None, until=bench.now, to_fill=True)
    gaps = {first: skipped, second: msgspec.structs.replace(skipped, to_fill=False)}
    shards = {
        shard_id: msgspec.structs.replace(positions.shards[shard_id], gaps=(gap,))
        for shard_id, gap in gaps.items()
    }
    left = gaps_to_fill(bench.table.snapshot(), positions.identity, shards)
    assert {shard_id: [*gaps] for shard_id, gaps in left.items()} == {first: [skipped]}


def test_an_unknown_shard_fails_and_the_others_commit(bench):
    (shard,) = bench.create()
    bench.put(0)
    result = bench.run([shard, "shardId-000000000099"])
    assert states(result) == {shard: ShardState.COMMITTED, "shardId-000000000099": ShardState.FAILED}
    assert isinstance(result.errors["shardId-000000000099"], ShardUnknown)
    assert bench.items == [0]


def test_a_shard_that_a_custom_asset_left_out_is_not_finished(bench):
    first, second = bench.create(2)
    bench.put(0)
    plan = bench.plan()
    left = replace(plan, ranges={second: plan.ranges[second]})
    assert states(bench.execute(left)) == {first: ShardState.FAILED, second: ShardState.COMMITTED}


def test_a_child_waits_if_a_bound_ends_its_parent(bench, faults):
    (parent,) = bench.create()
    bench.put(*range(3))
    children = bench.split(parent)
    bench.put(3)
    result = bench.run(max_records=2)
    assert bench.items == [0, 1]
    assert states(result) == {parent: ShardState.COMMITTED} | dict.fromkeys(children, ShardState.WAITING)
    assert isinstance(result.errors[children[0]], ParentUnfinished)
    assert parent in str(result.errors[children[0]])
    assert [faults.count("GetRecords", child) for child in children] == [0, 0]
    bench.run(max_records=2)
    assert bench.items == [0, 1, 2, 3]


def test_a_child_waits_for_its_failed_parent(bench, faults):
    (parent,) = bench.create()
    bench.put(0)
    children = bench.split(parent)
    faults.fail(status=400, code="AccessDeniedException", shard_id=parent)
    result = bench.run()
    assert states(result) == {parent: ShardState.FAILED} | dict.fromkeys(children, ShardState.WAITING)


def test_a_child_of_a_vanished_parent_waits(bench, faults):
    (parent,) = bench.create()
    bench.put(0, 1)
    children = bench.split(parent)
    bench.run(max_records=1)
    omit_shards(faults, parent)
    result = bench.run([parent, *children])
    assert states(result) == {parent: ShardState.FAILED} | dict.fromkeys(children, ShardState.WAITING)


def test_a_merged_shard_waits_for_both_parents(bench):
    first, second = bench.create(2)
    bench.put(0)
    bench.put(1, part=0.5)
    bench.kinesis.merge_shards(StreamName=bench.stream, ShardToMerge=first, AdjacentShardToMerge=second)
    bench.put(2)
    child = bench.shard_ids[-1]
    assert states(bench.run([first, child])) == {first: ShardState.FINISHED, child: ShardState.WAITING}
    assert states(bench.run([second, child])) == {second: ShardState.FINISHED, child: ShardState.COMMITTED}
    assert bench.items == [0, 1, 2]


def test_a_truncated_iterator_response_of_one_shard_does_not_delay_the_others(bench, faults):
    first, second = bench.create(2)
    bench.put(0)
    bench.put(1, part=0.5)
    faults.cut_body("GetShardIterator", shard_id=first)
    assert states(bench.run()) == {first: ShardState.FAILED, second: ShardState.COMMITTED}
