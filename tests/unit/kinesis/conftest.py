"""Fixtures for the tests of the kinesis package."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.reading.range import Bounds, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from support.one_shard import ALL_KEYS, BEGINNING, MIDDLE, SHARD
from support.timing import EXACT
from support.virtual_time import VirtualTime

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.testing import Faults
    from support.fixtures.stream import Clocked


@pytest.fixture
def virtual() -> VirtualTime:
    """A clock that advances only when the reader waits."""
    return VirtualTime()


@pytest.fixture
def client(stream: str, settings: ClientSettings, virtual: VirtualTime) -> StreamClient:
    """A client of the test's stream, for which time is virtual. The test creates the stream."""
    return StreamClient(stream, replace(settings, timing=replace(EXACT, clock=virtual)))


@pytest.fixture
def put(kinesis: Any, stream: str) -> Callable[..., list[str]]:
    """Put data or numbers into the test's stream, which has one shard; return their sequence numbers."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)

    def put(*data: bytes | int, partition_key: str = "k") -> list[str]:
        entries = [
            {"Data": item if isinstance(item, bytes) else str(item).encode(), "PartitionKey": partition_key}
            for item in data
        ]
        response = kinesis.put_records(StreamName=stream, Records=entries)
        assert response["FailedRecordCount"] == 0
        return [record["SequenceNumber"] for record in response["Records"]]

    return put


@pytest.fixture
def split(kinesis: Any, stream: str) -> Callable[[], Any]:
    """Close the test's shard."""
    return lambda: kinesis.split_shard(StreamName=stream, ShardToSplit=SHARD, NewStartingHashKey=MIDDLE)


@pytest.fixture
def reading_of(client: StreamClient) -> Callable[..., ShardReading]:
    """Create a reading of the test's shard."""

    def reading_of(
        start: Position = BEGINNING,
        hash_range: tuple[str, str] = ALL_KEYS,
        max_bad_records: int | None = None,
        **bounds: Any,
    ) -> ShardReading:
        range_ = ShardRange(SHARD, start, Bounds(**bounds), hash_range, max_bad_records=max_bad_records)
        return ShardReading(client, range_)

    return reading_of


@pytest.fixture
def clocked_client(stream: str, clocked: Clocked, virtual: VirtualTime) -> StreamClient:
    """A client of the test's stream on the endpoint with a settable clock."""
    return StreamClient(stream, replace(clocked.settings, timing=replace(EXACT, clock=virtual)))


@pytest.fixture
def clocked(clocked_service: Clocked, faults: Faults) -> Clocked:
    """The shared endpoint with a settable clock. Starting one per test would take longer than most tests."""
    del faults
    clocked_service.clock.seconds = int(clocked_service.clock.seconds) + 2.0
    return clocked_service
