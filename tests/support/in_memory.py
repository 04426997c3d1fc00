"""Fixtures of tests that work at a Dagster instance in memory."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from support.daemon import Daemon

if TYPE_CHECKING:
    import dagster as dg

    from kinesis_assets.dagster.stream_project import StreamProject


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
