"""Fixtures for the tests of readings by subscription, from the embedded stream."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.reading.range import Allowance, Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.reading.subscription import Subscriptions
from support.one_shard import ALL_KEYS, BEGINNING, SHARD, items
from support.timing import READING


@pytest.fixture
def kinesis(clocked):
    return clocked.kinesis


@pytest.fixture
def patience(patient_subscriptions):
    """The seconds in which something arrives on any machine."""
    del patient_subscriptions
    return 60.0


@pytest.fixture
def client(stream, clocked, virtual, patience):
    timing = replace(READING, clock=virtual, read_timeout=patience)
    return StreamClient(stream, replace(clocked.settings, timing=timing), attempts=1)


@pytest.fixture
def wait(clocked, virtual):
    """Let time pass, by both clocks."""

    def wait(seconds):
        clocked.clock.seconds += seconds
        virtual.now += seconds

    return wait


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
        received = subscriptions.receive([range_], Allowance()).get(SHARD)
        if received is not None and not received.events:
            end = RangeEnd.TIP if received.millis_behind_latest == 0 else RangeEnd.TIME_LIMIT
            seen = received.seen
            return SimpleNamespace(position=start, end=end, tip_time=seen, records=0, last_arrival=None), []
        reading = ShardReading(client, range_, received=received)
        found = items(reading)
        subscriptions.note_read(SHARD, reading.refused, reading.tip_time)
        return reading, found

    return read


@pytest.fixture
def until_found(read, wait):
    """Read from a position until a number of records was found, and return the next position and the numbers.

    A second passes between two readings.
    """

    def until_found(start, count):
        found = []
        while len(found) < count:
            reading, more = read(start)
            start = reading.position
            found += more
            wait(1)
        return start, found

    return until_found


@pytest.fixture
def calls(faults):
    """Return how often each operation that reads was called since the last time."""

    def calls():
        counts = Counter(call.operation for call in faults.calls)
        faults.calls.clear()
        return {name: counts[name] for name in ("SubscribeToShard", "GetRecords") if counts[name]}

    calls()
    return calls
