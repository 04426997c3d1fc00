"""A Dagster instance in memory."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from dagster.components.core import package_entry, snapshot
from dagster_shared.serdes.objects import package_entry as package_json

from kinesis_assets.table.heartbeat import HEARTBEATS_FOLDER, Heartbeat
from support.daemon import Daemon, SensorClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import dagster as dg

    from kinesis_assets.dagster.in_process import StreamProject


@pytest.fixture(scope="session", autouse=True)
def library_schemas() -> Iterator[None]:
    """Describe the components of all installed packages once, instead of each time a project is loaded."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in [
            (package_entry, "discover_entry_point_package_objects"),
            (snapshot, "get_package_entry_snap"),
        ]:
            patch.setattr(module, name, cache(getattr(module, name)))
        describe = package_json.json_for_component_type
        found: dict[Any, Any] = {}
        patch.setattr(
            package_json,
            "json_for_component_type",
            lambda key, *facts: found[key] if key in found else found.setdefault(key, describe(key, *facts)),
        )
        yield


@pytest.fixture
def instance(instance_in_memory: dg.DagsterInstance) -> dg.DagsterInstance:
    """An instance in memory: SQLite on a disk would take most of a test's time."""
    return instance_in_memory


@pytest.fixture
def daemon(project: StreamProject, instance: dg.DagsterInstance) -> Daemon:
    """A daemon that calls the sensor's function: through Dagster a tick takes ten times as long."""
    daemon = Daemon(project, instance)
    daemon.clock = time.time
    return daemon


@pytest.fixture
def sensor_clock(source, daemon: Daemon) -> SensorClock:
    """The clock of a sensor of a stream with two shards, which are partitions."""
    source.create(2)
    daemon.tick()
    return SensorClock(daemon)


@pytest.fixture
def beat(daemon: Daemon) -> Callable[[dg.DagsterRun], None]:
    """Writes a new heartbeat of a run."""
    mtimes = iter(range(1, 1_000))

    def beat(run: dg.DagsterRun) -> None:
        opened = daemon.opened
        table = opened.table
        heartbeat = Heartbeat(table, run.run_id, seconds=60)
        heartbeat._beat()
        seconds = next(mtimes)
        os.utime(Path(opened.settings.table, HEARTBEATS_FOLDER, run.run_id), (seconds, seconds))

    return beat
