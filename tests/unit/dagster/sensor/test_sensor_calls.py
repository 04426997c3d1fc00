"""The calls and queries of a tick do not grow with the stream's history."""

from __future__ import annotations

import dagster as dg
import pytest

from docs.scale_table import values
from kinesis_assets.dagster.sensor import sensor
from kinesis_assets.dagster.sensor.sensor import FIRST_PAGE, newest_partitions
from kinesis_assets.errors import StreamNotFound, StreamRecreated
from support.daemon import FIRST, LAST
from support.shard_ids import A, B, C, D, E, F, G, H, I, J

pytestmark = pytest.mark.slow


def test_a_tick_does_not_read_shards_that_no_run_has_read(source, daemon, faults):
    source.create(2)
    source.split(A)
    daemon.tick()
    daemon.finish(A)
    daemon.tick()
    assert {call.operation for call in faults.calls} <= {
        "CreateStream",
        "SplitShard",
        "ListShards",
        "DescribeStreamSummary",
    }


@pytest.mark.parametrize("shards", [2, 12])
def test_a_tick_makes_the_calls_that_the_page_about_scale_names(source, daemon, faults, shards):
    source.create(shards)
    daemon.tick()
    keys = daemon.partition_keys()
    daemon.commit(keys, None)
    faults.clear()
    assert daemon.requested_ranges() == []
    quiet = len(faults.calls)
    for key in keys:
        source.put(key, 1)
    faults.clear()
    assert daemon.requested_ranges() == [(keys[0], keys[-1])]
    page = values(shards)
    assert (quiet, len(faults.calls)) == (page["quiet_calls"], page["tick_calls"])


def test_the_number_of_partition_queries_does_not_grow_with_the_shards(source, daemon, monkeypatch):
    queries = []

    class Keys(list):
        def __iter__(self):
            queries.append(self)
            return super().__iter__()

    monkeypatch.setattr(sensor, "newest_partitions", lambda *args: Keys(newest_partitions(*args)))
    source.create(10)
    daemon.tick()
    assert daemon.partition_keys() == [A, B, C, D, E, F, G, H, I, J]
    assert len(queries) < 10


def test_a_tick_does_not_read_the_partitions_of_finished_shards(source, daemon, monkeypatch):
    daemon.add_partitions(*(f"shardId-000-{number:08}" for number in range(5000)))
    source.create(2)
    daemon.tick()
    read = []
    pages = dg.DagsterInstance.get_paginated_dynamic_partitions

    def counted(*args, **more):
        page = pages(*args, **more)
        read.extend(page.results)
        return page

    monkeypatch.setattr(dg.DagsterInstance, "get_paginated_dynamic_partitions", counted)
    monkeypatch.delattr(dg.DagsterInstance, "get_dynamic_partitions")
    assert daemon.requested_ranges() == [(A, B)]
    assert len(read) <= FIRST_PAGE


@pytest.fixture
def single_partitions(monkeypatch):
    """Returns partitions in pages of one."""
    pages = dg.DagsterInstance.get_paginated_dynamic_partitions

    def page_of_one(instance, name, limit, ascending, cursor):
        assert limit >= FIRST_PAGE
        return pages(instance, name, 1, ascending=ascending, cursor=cursor)

    monkeypatch.setattr(dg.DagsterInstance, "get_paginated_dynamic_partitions", page_of_one)


@pytest.mark.usefixtures("single_partitions")
def test_a_run_over_a_range_that_begins_at_an_unread_partition_holds_its_shards(source, daemon):
    source.create(2)
    source.split(B)
    source.split(A)
    daemon.tick()
    daemon.finish(A, B)
    daemon.run({FIRST: A, LAST: C})
    assert daemon.requested_ranges() == [(D, F)]


@pytest.mark.usefixtures("single_partitions")
def test_a_new_shard_beside_many_old_partitions_is_added_once(source, daemon):
    source.create(5)
    daemon.tick()
    source.split(E)
    (request,) = daemon.tick().dynamic_partitions_requests
    assert request.partition_keys == [F, G]
    assert daemon.partition_keys() == [A, B, C, D, E, F, G]
    assert not daemon.tick().dynamic_partitions_requests


def test_a_tick_does_not_create_the_table(source, daemon, tmp_path):
    source.create(2)
    daemon.tick()
    assert not (tmp_path / "table" / "_delta_log").exists()


@pytest.mark.usefixtures("kinesis")
def test_a_missing_stream_is_reported_in_one_line(stream, daemon):
    with pytest.raises(StreamNotFound) as caught:
        daemon.tick()
    message = str(caught.value)
    assert message.startswith(f"stream {stream}: not found")
    assert "\n" not in message


def test_a_recreated_stream_is_refused(source, stream, daemon):
    source.create(2)
    source.split(A)
    daemon.finish(A)
    source.delete()
    source.create(2)
    with pytest.raises(StreamRecreated, match=f"stream {stream}: .* new table"):
        daemon.tick()
