"""Readings by subscription, from the embedded stream."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.reading.range import RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.reading.subscription import Subscriptions
from support.one_shard import ALL_KEYS, BEGINNING, SHARD, items
from support.timing import READING


@pytest.fixture
def client(stream, settings, virtual):
    return StreamClient(stream, replace(settings, timing=replace(READING, clock=virtual)), attempts=1)


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def subscriptions(put, client, kinesis, warnings):
    """The subscriptions of a consumer of the test's stream."""
    del put  # it creates the stream
    summary = client.describe()
    registered = kinesis.register_stream_consumer(StreamARN=summary.identity.arn, ConsumerName="c")
    arn = registered["Consumer"]["ConsumerARN"]
    opened = Subscriptions(client, arn, summary.service_time, warnings.append)
    yield opened
    opened.close()


@pytest.fixture
def read(client, subscriptions):
    """Read from a position, and return the reading and the numbers that it has read."""

    def read(start=BEGINNING, **bounds):
        range_ = ShardRange(SHARD, start, Bounds(**bounds), ALL_KEYS)
        reading = ShardReading(client, range_, subscription=subscriptions.of(SHARD))
        return reading, items(reading)

    return read


@pytest.fixture
def calls(faults):
    """Return how often each operation that reads was called since the last time."""

    def calls():
        counts = Counter(call.operation for call in faults.calls)
        faults.calls.clear()
        return {name: counts[name] for name in ("SubscribeToShard", "GetRecords") if counts[name]}

    calls()
    return calls


def test_a_reading_ends_at_the_tip_without_getrecords(put, read, calls):
    put(0, 1, 2)
    calls()
    reading, found = read()
    assert (found, reading.end, reading.millis_behind_latest) == ([0, 1, 2], RangeEnd.TIP, 0)
    assert calls() == {"SubscribeToShard": 1}


def test_the_next_reading_continues_the_subscription(put, read, calls):
    put(0, 1)
    first, _ = read()
    put(2, 3)
    calls()
    second, found = read(first.position)
    while not found:
        second, found = read(second.position)
    assert found == [2, 3]
    assert calls() == {}
