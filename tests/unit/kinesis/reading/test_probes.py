"""Probes for unread records end in time."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.reading.probes import Probe, Prober
from kinesis_assets.kinesis.settings import ReadTiming
from support.one_shard import BEGINNING, SHARD
from support.scripted_server import read_request
from support.shifted_clock import ShiftedClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.kinesis.settings import ClientSettings

BYTES = 60
"""One a second: how long the server waits for the client to disconnect."""


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
def dripping(clock: ShiftedClock) -> Iterator[str]:
    """The URL of a server that sends a byte a second, beginning an hour after the request."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            read_request(connection)
            clock.advance(hours=1)
            connection.settimeout(1)
            for _ in range(BYTES):
                connection.sendall(b"H")
                with suppress(TimeoutError):
                    connection.recv(1)
                    return  # the client disconnected

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    thread.join()
    listening.close()


def test_a_response_that_arrives_byte_by_byte_ends_at_the_deadline(
    settings: ClientSettings, clock: ShiftedClock, dripping: str
) -> None:
    client = StreamClient("s", replace(settings, endpoint_url=dripping, timing=ReadTiming(clock=clock)))
    prober = Prober(client, seconds=1800)
    probe = Probe(SHARD, BEGINNING, datetime(2026, 1, 1, tzinfo=UTC), None)
    assert prober.probe([probe]) == {}
    assert isinstance(prober.error, CallFailed)
    assert prober.error.code == "ReadTimeoutError"


def test_no_shard_is_probed_after_the_deadline(settings: ClientSettings, clock: ShiftedClock) -> None:
    prober = Prober(StreamClient("s", replace(settings, timing=ReadTiming(clock=clock))), seconds=0)
    probe = Probe(SHARD, BEGINNING, datetime(2026, 1, 1, tzinfo=UTC), None)
    assert prober.probe([probe]) == {}
    assert prober.error is None
