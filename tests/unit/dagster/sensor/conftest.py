"""The clock of a sensor, and heartbeats of its runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kinesis_assets.table.run_files.heartbeat import HEARTBEATS_FOLDER, Heartbeat
from support.daemon import SensorClock

if TYPE_CHECKING:
    from collections.abc import Callable

    import dagster as dg

    from support.daemon import Daemon


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
