"""The cursors of sensors with the same name: two streams of two code locations may have such sensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest

from kinesis_assets.dagster.checks.evaluation import ChecksProgress
from kinesis_assets.dagster.sensor.sensor_cursor import (
    Cursor,
    dead_runs,
    locations_of_stream,
    sensor_memory,
)
from kinesis_assets.dagster.sensor.sensor_runs import Failing, Liveness, ShardBackoff, SignOfLife
from kinesis_assets.dagster.stream_names import StreamNames
from support.daemon import NOON, Daemon
from support.sensor_state import record_tick

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow  # instances on disk

OURS, THEIRS = StreamNames("orders-eu"), StreamNames("orders_eu")


@pytest.fixture
def on_disk() -> Iterator[dg.DagsterInstance]:
    """An instance that has the states of sensors."""
    with dg.instance_for_test() as instance:
        yield instance


def cursor_at(at: float, names: StreamNames | None) -> str:
    """Return the cursor after a tick; without names, of a version that did not store the stream."""
    return Cursor(checks=ChecksProgress(at=at), stream=names and names.partitions_name).encode()


def test_the_sensors_of_two_streams_may_have_the_same_name():
    assert OURS.sensor == THEIRS.sensor
    assert OURS.partitions_name != THEIRS.partitions_name


def test_the_memory_of_a_sensor_is_not_that_of_another_stream(on_disk):
    record_tick(on_disk, OURS.stream, NOON, code_location="a", cursor=cursor_at(NOON, OURS))
    record_tick(on_disk, THEIRS.stream, NOON, code_location="b", cursor=cursor_at(NOON + 1, THEIRS))
    assert sensor_memory(on_disk, OURS).checks.at == NOON
    assert sensor_memory(on_disk, THEIRS).checks.at == NOON + 1


def test_the_cursor_of_an_older_version_is_read(on_disk):
    record_tick(on_disk, OURS.stream, NOON, cursor=cursor_at(NOON, None))
    assert sensor_memory(on_disk, OURS).checks.at == NOON


def test_the_code_locations_of_a_stream_are_not_those_of_another_one(on_disk):
    record_tick(on_disk, OURS.stream, NOON, code_location="a", cursor=cursor_at(NOON, OURS))
    record_tick(on_disk, THEIRS.stream, NOON, code_location="b", cursor=cursor_at(NOON, THEIRS))
    assert locations_of_stream(on_disk, OURS, NOON) == ["a"]
    assert locations_of_stream(on_disk, THEIRS, NOON) == ["b"]


def test_the_runs_that_the_sensor_of_another_stream_considers_dead_are_not_read(on_disk, project, source):
    source.create(1)
    daemon = Daemon(project, on_disk)
    run = daemon.run({})
    sign = SignOfLife("STARTED", None, 0.0, is_dead=True)
    for stream, dead in (("kinesis/another", set()), (project.names.partitions_name, {run.run_id})):
        cursor = Cursor(liveness=Liveness({run.run_id: sign}, 0.0), stream=stream).encode()
        record_tick(on_disk, source.name, None, code_location=stream, cursor=cursor)
        assert dead_runs(on_disk, project.names, daemon.opened.table) == dead


def test_a_tick_keeps_the_stream_in_its_cursor(daemon, source):
    source.create(1)
    daemon.tick()
    assert Cursor.parse(daemon.cursor).stream == daemon.project.names.partitions_name


def test_a_tick_starts_without_the_cursor_of_another_stream(daemon, source):
    """The stream of a code location was replaced by one whose sensor has the same name."""
    source.create(1)
    failing = ShardBackoff({"shardId-000000000000": Failing(1, NOON + 900, "run")})
    daemon.clock = lambda: NOON + 60
    daemon.cursor = Cursor(backoff=failing, stream="kinesis/another").encode()
    assert daemon.tick().run_requests
