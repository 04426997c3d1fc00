"""A shard is recorded as finished only if the driver has seen it closed, whatever a task reports."""

from __future__ import annotations

import msgspec
import pytest

from kinesis_assets.errors import CallFailed
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.reading.range import RangeEnd
from support.single_task import land_as_in_spark


def all_ended(*landing):
    """A landing whose tasks report every shard as read to its end."""
    found = land_as_in_spark(*landing)
    ended = [msgspec.structs.replace(shard, end=RangeEnd.SHARD_END) for shard in found.shards]
    return msgspec.structs.replace(found, shards=tuple(ended))


def test_an_open_shard_that_a_task_reports_as_ended_is_not_finished_and_its_records_are_committed(
    bench, caplog
):
    (shard,) = bench.create()
    bench.put(1, 2)
    result = execute_run(all_ended, bench.client, bench.table, bench.plan())
    assert result.outcomes[shard].state is ShardState.COMMITTED
    assert not bench.at(shard).finished
    assert shard in caplog.text
    bench.put(3)
    assert bench.run().errors == {}
    assert bench.items == [1, 2, 3]


def test_a_child_is_not_read_after_a_parent_whose_end_is_not_confirmed(bench, faults):
    (parent,) = bench.create()
    bench.put(1)
    plan = bench.plan()
    children = bench.split(parent)
    faults.stale_list()
    result = bench.execute(plan)
    assert result.outcomes[parent].state is ShardState.COMMITTED
    faults.clear()
    assert bench.run().errors == {}
    assert bench.at(parent).finished
    assert set(bench.positions.shards) == {parent, *children}
    assert bench.items == [1]


def test_a_shard_that_is_closed_during_its_run_is_finished_after_one_more_list(bench, faults):
    (shard,) = bench.create()
    bench.put(1)
    plan = bench.plan()
    bench.split(shard)
    before = faults.count("ListShards")
    assert bench.execute(plan).outcomes[shard].state is ShardState.FINISHED
    assert faults.count("ListShards") == before + 1


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed at the plan", "open"])
def test_no_further_list_is_requested_without_need(bench, faults, is_closed):
    (shard,) = bench.create()
    if is_closed:
        bench.split(shard)
    plan = bench.plan()
    before = faults.count("ListShards")
    bench.execute(plan)
    assert faults.count("ListShards") == before


def test_where_shards_cannot_be_listed_the_records_are_committed_all_the_same(bench, monkeypatch):
    (shard,) = bench.create()
    bench.put(1)
    plan = bench.plan()
    bench.split(shard)

    def refuse():
        raise CallFailed(bench.stream, "ListShards", "LimitExceededException", "slow down")

    monkeypatch.setattr(bench.client, "list_shards", refuse)
    assert bench.execute(plan).outcomes[shard].state is ShardState.COMMITTED
    assert bench.items == [1]
