"""Incomplete shard lists change neither the table nor its positions nor the partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from kinesis_assets.dagster.sensor.sensor import evaluate
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.errors import CallFailed, ShardListIncomplete, TableMissing
from kinesis_assets.ingest.plan import current_shards
from kinesis_assets.ingest.shard_lists import confirmed_listing
from support.shard_lists import omit_shards
from support.stream_names import shard_partitions
from support.timing import READING, set_timing

if TYPE_CHECKING:
    from collections.abc import Callable


def second_page_fails(faults):
    faults.page_size(2, "ListShards")
    faults.fail("ListShards", status=400, code="ExpiredNextTokenException", after=1)


def second_page_is_truncated(faults):
    faults.page_size(2, "ListShards")
    faults.answer("ListShards", lambda _, response: response.with_body(response.body[:40]), after=1)


def second_page_is_missing(faults):
    faults.page_size(2, "ListShards")
    faults.answer("ListShards", lambda _, response: response.but(NextToken=None))


def empty_list(faults):
    faults.answer("ListShards", lambda _, response: response.but(Shards=[]))


INCOMPLETE_LISTS = pytest.mark.parametrize(
    ("fault", "error"),
    [
        (second_page_fails, CallFailed),
        (second_page_is_truncated, CallFailed),
        (second_page_is_missing, ShardListIncomplete),
        (empty_list, ShardListIncomplete),
    ],
)


@INCOMPLETE_LISTS
@pytest.mark.slow
def test_an_incomplete_list_changes_neither_positions_nor_table(bench, faults, fault, error):
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


@INCOMPLETE_LISTS
def test_an_incomplete_list_creates_no_table(bench, faults, fault, error):
    shard_ids = bench.create(3)
    fault(faults)
    with pytest.raises(error):
        bench.plan(shard_ids)
    with pytest.raises(TableMissing):
        bench.table.snapshot()


def test_no_shards_of_a_first_list_without_a_parent_are_believed(bench, faults):
    (parent,) = bench.create()
    bench.split(parent)
    omit_shards(faults, parent)
    with pytest.raises(ShardListIncomplete, match=parent):
        current_shards(bench.client.listing(), bench.table)


def test_no_shards_of_a_list_without_a_new_parent_are_believed(bench, faults):
    (shard,) = bench.create()
    bench.run()
    parent, _ = bench.split(shard)
    bench.split(parent, part=0.25)
    omit_shards(faults, parent)
    with pytest.raises(ShardListIncomplete, match=parent):
        current_shards(bench.client.listing(), bench.table)


def test_the_first_plan_gives_up_no_parent_that_cannot_have_expired(bench, faults):
    (parent,) = bench.create()
    bench.put(1)
    bench.split(parent)
    omit_shards(faults, parent)
    faults.fail("GetShardIterator", status=400, code="ResourceNotFoundException", shard_id=parent)
    with pytest.raises(ShardListIncomplete, match=parent):
        bench.plan()
    with pytest.raises(TableMissing):
        bench.table.snapshot()


def test_an_operator_sets_no_positions_by_a_list_without_a_parent_even_if_the_table_has_its_rows(
    bench, faults
):
    (parent,) = bench.create()
    bench.split(parent)
    omit_shards(faults, parent)
    with pytest.raises(ShardListIncomplete, match=parent):
        confirmed_listing(bench.client, bench.client.listing(), [parent])


@pytest.fixture
def tick(bench: Any) -> Callable[[dg.DagsterInstance], dg.SensorResult]:
    """Evaluate the sensor once, and apply its requests for dynamic partitions."""
    project = StreamProject.from_settings(
        bench.stream, table=bench.table.uri, endpoint_url=bench.settings.endpoint_url
    )

    def tick(instance: dg.DagsterInstance) -> dg.SensorResult:
        with project.open_stream() as opened:
            set_timing(opened.client, list_retries=READING.list_retries)
            result = evaluate(opened, instance, None)
        for request in result.dynamic_partitions_requests or ():
            assert isinstance(request, dg.AddDynamicPartitionsRequest)  # the sensor never deletes partitions
            instance.add_dynamic_partitions(request.partitions_def_name, request.partition_keys)
        return result

    return tick


@pytest.mark.slow
@INCOMPLETE_LISTS
def test_an_incomplete_list_leaves_the_partitions_unchanged(bench, faults, fault, error, tick):
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
