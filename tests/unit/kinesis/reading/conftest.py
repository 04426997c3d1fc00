"""Fixtures for the tests of readings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.reading.range import Bounds, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.settings import ReadTiming
from support.expiring_shard import OneShard
from support.one_shard import ALL_KEYS, BEGINNING
from support.timing import EXACT, READING, set_timing
from support.two_shards import IN_SHARD

if TYPE_CHECKING:
    from kinesis_assets.testing import Faults


@pytest.fixture
def shard(clocked: Any, faults: Faults, stream: str) -> OneShard:
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    client = StreamClient(stream, replace(clocked.settings, timing=READING))
    return OneShard(clocked.clock, clocked.kinesis, stream, client, faults)


@pytest.fixture
def worker_client(stream, settings, virtual, request):
    """A client without retries by the SDK, like that of a Spark task, and with a short timeout if needed."""
    timeout = 1.0 if "no response" in request.node.name else ReadTiming().read_timeout
    timing = replace(EXACT, read_timeout=timeout, clock=virtual)
    return StreamClient(stream, replace(settings, timing=timing), attempts=1)


@pytest.fixture
def share(client):
    """Gives the reading two of the five calls per second, and the same share of the bytes."""
    share = ReadTiming.of_share(2)
    set_timing(
        client,
        seconds_between_calls=share.seconds_between_calls,
        bytes_per_second=share.bytes_per_second,
    )


@pytest.fixture
def put_to(kinesis, stream):
    """Put records into one of two shards; return their sequence numbers."""
    kinesis.create_stream(StreamName=stream, ShardCount=2)

    def put_to(shard_id, *data):
        entries = [
            {"Data": item, "PartitionKey": "k", "ExplicitHashKey": IN_SHARD[shard_id]} for item in data
        ]
        response = kinesis.put_records(StreamName=stream, Records=entries)
        return [record["SequenceNumber"] for record in response["Records"]]

    return put_to


@pytest.fixture
def reading_in(client):
    """Create a reading of one of the two shards, with or without a quota."""

    def reading_in(shard_id, quota=None, start=BEGINNING, max_bad_records=None, retry_seconds=None, **limits):
        range_ = ShardRange(
            shard_id,
            start,
            Bounds(**limits),
            ALL_KEYS,
            max_bad_records=max_bad_records,
            retry_seconds=retry_seconds,
        )
        return ShardReading(client, range_, quota)

    return reading_in
