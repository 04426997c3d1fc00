"""The server of the streams that the benchmarks read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.servers.replay_client import ReplayServer, replay_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[ReplayServer]:
    """A replay server without streams."""
    with replay_server() as running:
        yield running
