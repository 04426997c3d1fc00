"""The sensor adds partitions, and requests runs over the shards that can be read."""

from __future__ import annotations

import pytest

from kinesis_assets.dagster.sensor.due_shards import RUNS_PER_TICK
from support.daemon import FIRST, LAST, PARTITION, Daemon
from support.shard_ids import A, B, C, D, E, F, G, H, I, J
from support.stream_names import raw_key, stream_key

pytestmark = pytest.mark.slow

# Partitions


def test_partitions_are_added_parents_first_in_any_order_of_the_list(source, daemon, faults):
    source.create(2)
    source.split(B)
    faults.answer("ListShards", lambda _, response: response.but(Shards=response.members["Shards"][::-1]))

    daemon.tick()

    assert daemon.partition_keys() == [A, B, C, D]


def test_a_tick_adds_only_new_partitions(source, daemon):
    source.create(2)
    daemon.tick()
    source.split(A)

    (request,) = daemon.tick().dynamic_partitions_requests

    assert request.partition_keys == [C, D]
    assert daemon.partition_keys() == [A, B, C, D]
    assert not daemon.tick().dynamic_partitions_requests


def test_a_shard_that_was_finished_before_the_first_tick_gets_no_partition(source, daemon):
    source.create(2)
    source.split(A)
    daemon.finish(A)

    daemon.tick()

    assert daemon.partition_keys() == [B, C, D]


def test_a_finished_shard_keeps_its_partition(source, daemon):
    source.create(2)
    source.split(A)
    daemon.tick()
    daemon.finish(A)

    daemon.tick()

    assert daemon.partition_keys() == [A, B, C, D]


def test_each_shard_is_reported_once_on_the_stream_asset_with_its_parents(source, daemon):
    source.create(2)
    source.merge(A, B)
    daemon.tick()
    daemon.tick()

    all_records = daemon.instance.fetch_materializations(stream_key(source.name), limit=10).records
    records = [record for record in all_records if record.partition_key is not None]
    reported = {
        record.partition_key: {
            name: value.value for name, value in record.asset_materialization.metadata.items()
        }
        for record in records
    }
    assert len(records) == 3
    assert {shard_id: facts["parents"] for shard_id, facts in reported.items()} == {
        A: "none",
        B: "none",
        C: f"{A}, {B}",
    }
    assert reported[C]["hash range"] == f"0 to {2**128 - 1}"


# Run requests


def test_the_first_tick_requests_one_run_over_all_open_shards(source, stream, daemon):
    source.create(4)
    (request,) = daemon.tick().run_requests
    assert {name: request.tags[name] for name in (FIRST, LAST)} == {FIRST: A, LAST: D}
    assert PARTITION not in request.tags
    assert request.asset_selection == [raw_key(stream)]


def test_a_single_shard_is_requested_by_the_partition_tag(source, daemon):
    source.create(1)
    (request,) = daemon.tick().run_requests
    assert request.tags[PARTITION] == A
    assert not {FIRST, LAST} & request.tags.keys()


def test_runs_have_no_run_key(source, daemon):
    source.create(4)
    daemon.add_partitions(A, B, C, D)
    source.split(B)
    daemon.finish(B)
    assert [request.run_key for request in daemon.tick().run_requests] == [None, None]


def test_ranges_are_contiguous_in_insertion_order_not_by_name(source, daemon):
    source.create(5)
    daemon.add_partitions(C, A, D, B)
    source.split(A)
    daemon.finish(A)

    assert daemon.requested_ranges() == [(C,), (D, G)]
    assert daemon.partition_keys() == [C, A, D, B, E, F, G]


def test_a_partition_that_is_no_shard_is_in_no_range(source, daemon):
    source.create(4)
    daemon.add_partitions(A, B, "bogus", C)
    assert daemon.requested_ranges() == [(A, B), (C, D)]


def test_finished_shards_are_not_requested(source, daemon):
    source.create(4)
    daemon.tick()
    source.split(A)
    source.split(C)
    daemon.finish(A, C)
    assert daemon.requested_ranges() == [(B,), (D, H)]


def test_a_child_is_requested_after_its_parent_is_finished(source, daemon):
    source.create(2)
    source.split(A)
    assert daemon.requested_ranges() == [(A, B)]

    daemon.finish(A)

    assert daemon.requested_ranges() == [(B, D)]


def test_the_child_of_a_merge_waits_for_both_parents(source, daemon):
    source.create(2)
    source.merge(A, B)
    daemon.finish(A)
    assert daemon.requested_ranges() == [(B,)]
    daemon.finish(B)
    assert daemon.requested_ranges() == [(C,)]


def test_a_grandchild_waits_for_all_its_ancestors(source, daemon):
    source.create(1)
    source.split(A)
    source.split(B)
    assert daemon.requested_ranges() == [(A,)]
    daemon.finish(A)
    assert daemon.requested_ranges() == [(B, C)]
    daemon.finish(B)
    assert daemon.requested_ranges() == [(C, E)]


def test_a_shard_whose_parent_was_trimmed_before_the_first_tick_does_not_wait(source, daemon, faults):
    source.create(1)
    source.split(A)
    faults.answer("ListShards", lambda _, response: response.but(Shards=response.members["Shards"][1:]))
    faults.answer("DescribeStreamSummary", created_long_ago)
    assert daemon.requested_ranges() == [(B, C)]


def created_long_ago(_, response):
    summary = response.members["StreamDescriptionSummary"]
    created = summary["StreamCreationTimestamp"] - 30 * 3600
    return response.but(StreamDescriptionSummary=summary | {"StreamCreationTimestamp": created})


# Rotation of the ranges


@pytest.fixture
def scattered(source, daemon: Daemon) -> list[str]:
    """The shards A, C, E, G and I, which are not adjacent, because those between are in runs."""
    source.create(10)
    daemon.add_partitions(A, B, C, D, E, F, G, H, I, J)
    for shard_id in (B, D, F, H, J):
        daemon.run({PARTITION: shard_id})
    return [A, C, E, G, I]


@pytest.mark.usefixtures("scattered")
def test_a_tick_requests_a_limited_number_of_runs(daemon):
    assert daemon.requested_ranges() == [(A,), (C,), (E,)]
    assert RUNS_PER_TICK == 3


def test_all_ranges_are_requested_in_turn(daemon, scattered):
    """Runs may end before the next tick, so that no shard is held."""
    asked = [shard_id for _ in range(5) for (shard_id,) in daemon.requested_ranges()]
    assert asked == scattered * 3


@pytest.mark.usefixtures("scattered")
@pytest.mark.parametrize("cursor", [E, f'{{"last_asked": "{E}"}}'])
def test_the_cursor_of_an_older_version_has_the_last_shard(daemon, cursor):
    daemon.cursor = cursor
    assert daemon.requested_ranges() == [(G,), (I,), (A,)]


@pytest.mark.usefixtures("scattered")
@pytest.mark.parametrize("cursor", ["{", '{"last_asked": 7}', '{"backoff": {"shards": []}}'])
def test_a_damaged_cursor_restarts_at_the_first_range(daemon, cursor):
    daemon.cursor = cursor
    assert daemon.requested_ranges() == [(A,), (C,), (E,)]


@pytest.mark.usefixtures("scattered")
def test_a_cursor_with_an_unknown_partition_restarts_at_the_first_range(daemon):
    daemon.cursor = "shardId-000000000077"
    assert daemon.requested_ranges() == [(A,), (C,), (E,)]


@pytest.mark.usefixtures("scattered")
def test_a_tick_without_a_request_keeps_the_order(daemon):
    daemon.tick()
    busy = daemon.run({FIRST: A, LAST: J})
    assert daemon.requested_ranges() == []
    daemon.instance.report_run_canceled(busy)
    assert daemon.requested_ranges() == [(G,), (I,), (A,)]
