"""Adopting a copy while shards are missing from the list, or have expired."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

from kinesis_assets.errors import ShardListIncomplete
from kinesis_assets.kinesis.position import Position
from kinesis_assets.operations.doctor.examine import examine
from kinesis_assets.operations.doctor.finding import Level
from support.copied_table import copy_of_a_split, copy_rows
from support.shard_lists import omit_shards

pytestmark = pytest.mark.slow


def test_a_list_without_a_shard_that_has_rows_is_requested_again(bench, faults):
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    bench.split(parent)
    bench.put(2)
    bench.run()
    copy_rows(bench)
    omit_shards(faults, parent, times=1)
    bench.adopt()
    bench.run()
    assert bench.items == [1, 2]
    assert bench.at(parent).finished


def test_adopting_fails_while_lists_miss_a_shard_with_unexpired_rows(bench, faults):
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    bench.split(parent)
    bench.run()
    copy_rows(bench)
    before = bench.version
    omit_shards(faults, parent)
    with pytest.raises(ShardListIncomplete, match=parent):
        bench.adopt()
    assert bench.version == before


def test_an_expired_shard_is_finished_after_its_newest_row(bench):
    (parent,) = bench.create()
    (number,) = bench.put(1)
    bench.run()
    bench.later(seconds=5)
    bench.split(parent)
    bench.later(hours=30)
    copy_rows(bench)
    result = bench.adopt()
    assert (result.shards[parent].rows, result.shards[parent].position) == (1, None)
    assert (bench.at(parent).finished, bench.at(parent).position) == (True, Position.after(number, 0))
    bench.put(2)
    bench.run()
    assert bench.items == [1, 2]
    findings = list(examine(bench.client, bench.table))
    assert not [finding for finding in findings if finding.level is Level.PROBLEM]


def test_a_shorter_retention_is_used_only_if_two_responses_agree(bench, faults):
    parent = copy_of_a_split(bench)
    bench.set_retention(48)
    bench.later(hours=30)
    omit_shards(faults, parent)
    faults.fail("GetShardIterator", status=400, code="ResourceNotFoundException", shard_id=parent)

    def shorter(_, response):
        summary = response.members["StreamDescriptionSummary"]
        return response.but(StreamDescriptionSummary=summary | {"RetentionPeriodHours": 24})

    described = []

    def every_second(request, response):
        described.append(request)
        return shorter(request, response) if len(described) % 2 else response

    faults.answer("DescribeStreamSummary", every_second)
    with pytest.raises(ShardListIncomplete, match="48 h"):
        bench.adopt()


def test_a_missing_shard_that_can_still_be_read_is_not_finished(bench, faults):
    (parent,) = bench.create()
    bench.put(1)
    bench.run()
    copy_rows(bench)
    bench.later(hours=30)
    bench.put(2)
    bench.split(parent)
    omit_shards(faults, parent)
    with pytest.raises(ShardListIncomplete, match=parent):
        bench.adopt()
    faults.clear()
    bench.adopt()
    assert not bench.at(parent).finished


def test_a_finished_shard_that_is_listed_again_is_not_read(bench, faults):
    parent = copy_of_a_split(bench)
    bench.later(hours=30)
    bench.adopt()
    listed = {
        "ShardId": parent,
        "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)},
        "SequenceNumberRange": {"StartingSequenceNumber": "1", "EndingSequenceNumber": "2"},
    }
    faults.answer(
        "ListShards", lambda _, response: response.but(Shards=[listed, *response.members["Shards"]])
    )
    plan = bench.plan()
    assert parent in plan.asked
    assert parent not in plan.ranges


def test_the_list_of_a_young_stream_is_requested_again_if_a_parent_without_rows_is_missing(bench, faults):
    (parent,) = bench.create()
    bench.put(1)
    children = bench.split(parent)
    bench.put(2)
    # Only rows of a child are copied.
    bench.run()
    bench.run()
    rows = bench.arrow()
    copy_rows(bench, rows.filter(pc.not_equal(rows["shard_id"], parent)))
    omit_shards(faults, parent, times=1)
    bench.adopt()
    assert bench.positions.shards.keys() == {parent, *children}


def test_the_list_is_requested_again_if_a_readable_parent_without_rows_is_missing(bench, faults):
    (parent,) = bench.create()
    bench.set_retention(168)
    children = bench.split(parent)
    bench.put(1)
    bench.run()
    bench.run()
    copy_rows(bench)
    bench.later(hours=30)
    omit_shards(faults, parent, times=1)
    bench.adopt()
    assert bench.positions.shards.keys() == {parent, *children}
