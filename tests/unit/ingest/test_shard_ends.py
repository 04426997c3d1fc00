"""A shard is recorded as finished only if the driver has listed it as closed."""

from __future__ import annotations

import msgspec
import pytest

from kinesis_assets.errors import CallFailed
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.reading.range import RangeEnd
from support.single_task import land_as_in_spark


def land_with_all_shards_ended(*landing):
    """Land, and report every shard as read to its end."""
    landing = land_as_in_spark(*landing)
    ended = [msgspec.structs.replace(shard, end=RangeEnd.SHARD_END) for shard in landing.shards]
    return msgspec.structs.replace(landing, shards=tuple(ended))


def test_an_open_shard_that_a_task_reports_as_ended_is_committed_and_not_finished(bench, caplog):
    (shard,) = bench.create()
    bench.put(1, 2)
    result = execute_run(land_with_all_shards_ended, bench.client, bench.table, bench.plan())
    assert result.outcomes[shard].state is ShardState.COMMITTED
    assert not bench.at(shard).finished
    assert shard in caplog.text
    bench.put(3)
    assert bench.run().errors == {}
    assert bench.items == [1, 2, 3]


def test_a_child_is_not_read_before_the_end_of_its_parent_is_confirmed(bench, faults):
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


def test_a_shard_that_is_closed_during_a_run_is_finished_after_one_more_list(bench, faults):
    (shard,) = bench.create()
    bench.put(1)
    plan = bench.plan()
    bench.split(shard)
    before = faults.count("ListShards")
    assert bench.execute(plan).outcomes[shard].state is ShardState.FINISHED
    assert faults.count("ListShards") == before + 1


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed_at_plan", "open"])
def test_no_further_list_is_requested_for_an_open_or_already_closed_shard(bench, faults, is_closed):
    (shard,) = bench.create()
    if is_closed:
        bench.split(shard)
    plan = bench.plan()
    before = faults.count("ListShards")
    bench.execute(plan)
    assert faults.count("ListShards") == before


def test_rows_are_committed_even_if_the_shards_cannot_be_listed(bench, monkeypatch):
    (shard,) = bench.create()
    bench.put(1)
    plan = bench.plan()
    bench.split(shard)

    def refuse():
        raise CallFailed(bench.stream, "ListShards", "LimitExceededException", "slow down")

    monkeypatch.setattr(bench.client, "list_shards", refuse)
    assert bench.execute(plan).outcomes[shard].state is ShardState.COMMITTED
    assert bench.items == [1]
