"""Execute the runs that the sensor requests."""

from __future__ import annotations

import time

import dagster as dg
import pytest

from support.daemon import PARTITION, Daemon
from support.mentions import assert_mentions
from support.sensor_state import record_tick
from support.stream_names import raw_key

A, B, C, D, E, F = (f"shardId-{number:012d}" for number in range(6))
HOUR = 3600.0


@pytest.mark.usefixtures("spark")
def test_the_requested_runs_materialize_their_shards_and_no_others(source, daemon, instance):
    source.create(4)
    daemon.add_partitions(A, B, C, D)
    source.split(B)
    daemon.finish(B)

    for request in daemon.tick().run_requests:
        daemon.project.run(instance, request.tags)

    assert instance.get_materialized_partitions(raw_key(source.name)) == {A, C, D, E, F}
    assert daemon.requested_ranges() == []
    source.put(E, 1)
    assert daemon.requested_ranges() == [(E,)]


@pytest.mark.usefixtures("spark")
def test_a_shard_that_vanished_unread_is_requested_and_its_run_fails(source, make_project, instance, faults):
    source.create(1)
    source.put(A, 10)
    project = make_project(max_records=5)
    daemon = Daemon(project, instance)
    assert daemon.requested_ranges() == [(A,)]
    project.run(instance, {PARTITION: A})
    source.split(A)
    faults.answer("ListShards", lambda _, response: response.but(Shards=response.members["Shards"][1:]))
    assert daemon.requested_ranges() == [(A,)]
    (facts,) = project.run(instance, {PARTITION: A})
    assert (facts["state"], facts["error_class"]) == ("failed", "ShardVanished")


@pytest.mark.usefixtures("spark")
def test_a_shard_that_vanished_unread_is_requested_in_a_new_instance_too(
    source, make_project, instance, faults
):
    source.create(1)
    source.put(A, 10)
    project = make_project(max_records=5)
    Daemon(project, instance).tick()
    project.run(instance, {PARTITION: A})
    source.split(A)
    faults.answer("ListShards", lambda _, response: response.but(Shards=response.members["Shards"][1:]))
    with dg.instance_for_test() as other:
        assert Daemon(project, other).requested_ranges() == [(A,)]


def test_the_skip_reason_names_the_code_locations_that_define_the_stream(source, daemon, instance):
    source.create(1)
    daemon.tick()
    daemon.run({PARTITION: A})  # of either
    now = time.time()
    record_tick(instance, source.name, now, code_location="orders")
    record_tick(instance, source.name, now - HOUR, code_location="renamed")
    record_tick(instance, source.sibling().name, now, code_location="other")
    assert "code location" not in daemon.tick().skip_message
    record_tick(instance, source.name, now - 30, code_location="sales")
    assert_mentions(daemon.tick().skip_message, "code locations orders and sales", "unfinished run")
