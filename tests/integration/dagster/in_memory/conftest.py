"""Jobs and days of ticks, which Dagster executes in this process, with its databases in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kinesis_assets.table.run_files.heartbeat import HEARTBEATS_FOLDER, Heartbeat
from support.daemon import Daemon, SensorClock
from support.in_memory import daemon, instance

if TYPE_CHECKING:
    from collections.abc import Callable

    import dagster as dg

__all__ = ["daemon", "instance"]


@pytest.fixture(autouse=True)
def sdk_clients(shared_sdk_clients: None) -> None:
    """Share the SDK's clients."""


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
