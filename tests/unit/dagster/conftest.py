"""A Dagster instance in memory."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from support.daemon import Daemon

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.dagster.in_process import StreamProject


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance in memory: SQLite on a disk would take most of a test's time."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def daemon(project: StreamProject, instance: dg.DagsterInstance) -> Daemon:
    """A daemon that calls the sensor's function: through Dagster a tick takes ten times as long."""
    daemon = Daemon(project, instance)
    daemon.clock = time.time
    return daemon


@pytest.fixture(autouse=True)
def sdk_clients(shared_sdk_clients: None) -> None:
    """No test here is about the SDK's client."""
