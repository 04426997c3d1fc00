"""Fixtures of the Kinesis room."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import botocore.endpoint
import pytest

from kinesis_assets.kinesis.client import StreamClient

if TYPE_CHECKING:
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.testing import Faults
    from support.fixtures.stream import Clocked


@pytest.fixture
def client(stream: str, settings: ClientSettings) -> StreamClient:
    """The calls to the test's stream, which the test creates."""
    return StreamClient(stream, settings)


@pytest.fixture
def sdk_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The SDK's waits between its retries, noted and not waited."""
    waits: list[float] = []
    waiting: Any = SimpleNamespace(sleep=waits.append)
    monkeypatch.setattr(botocore.endpoint, "time", waiting)
    return waits


@pytest.fixture
def clocked(clocked_service: Clocked, faults: Faults) -> Clocked:
    """The endpoint of all benches: to start one for each test would take longer than most tests."""
    del faults
    clocked_service.clock.seconds = int(clocked_service.clock.seconds) + 2.0
    return clocked_service
