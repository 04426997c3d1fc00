"""Readings by subscription, from the embedded stream."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.reading.range import RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.reading.subscription import Subscriptions
from support.aggregates import aggregate_of
from support.one_shard import ALL_KEYS, BEGINNING, SHARD, items
from support.timing import READING


@pytest.fixture
def kinesis(clocked):
    return clocked.kinesis


@pytest.fixture
def client(stream, clocked, virtual):
    timing = replace(READING, clock=virtual, read_timeout=1.0)
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


def test_records_after_the_end_of_a_range_are_kept_for_the_next_one(put, read, calls):
    put(*range(10))
    calls()
    first, found = read(max_records=4)
    assert found == [0, 1, 2, 3]
    second, found = read(first.position, max_records=3)
    assert found == [4, 5, 6]
    third, found = read(second.position)
    assert (found, third.end) == ([7, 8, 9], RangeEnd.TIP)
    assert calls() == {"SubscribeToShard": 1}


def test_a_range_may_end_before_the_first_record_of_a_page(put, read, client, calls):
    put(0, 1)
    calls()
    first, found = read(until=client.describe().service_time - timedelta(hours=1))
    assert found == []
    _, found = read(first.position)
    assert found == [0, 1]
    assert calls() == {"SubscribeToShard": 1}


def test_a_range_may_end_inside_an_aggregate(put, read, calls):
    put(aggregate_of(0, 1, 2), 3)
    calls()
    first, found = read(max_records=2)
    assert (found, first.position.sub_sequence_number) == ([0, 1], 1)
    _, found = read(first.position)
    assert found == [2, 3]
    assert calls() == {"SubscribeToShard": 1}


def test_another_position_is_read_by_getrecords_until_the_consumer_may_subscribe_again(
    put, read, calls, wait
):
    put(0, 1, 2)
    read()
    calls()
    _, found = read()
    assert found == [0, 1, 2]
    assert calls() == {"GetRecords": 1}
    wait(5)
    _, found = read()
    assert found == [0, 1, 2]
    assert calls() == {"SubscribeToShard": 1}


def until_found(read, start, count):
    """Read from a position until a number of records was found, and return them."""
    found = []
    while len(found) < count:
        reading, more = read(start)
        start = reading.position
        found += more
    return start, found


@pytest.mark.parametrize("seconds", [280, 305])
def test_a_subscription_is_renewed_without_gap_or_duplicate(put, read, calls, wait, seconds):
    put(0, 1)
    first, _ = read()
    put(2)
    calls()
    wait(seconds)
    position, found = until_found(read, first.position, 1)
    put(3)
    _, more = until_found(read, position, 1)
    assert [*found, *more] == [2, 3]
    assert calls()["SubscribeToShard"] == 1


def test_a_young_subscription_is_not_renewed(put, read, calls, wait):
    put(0)
    first, _ = read()
    calls()
    wait(199)
    read(first.position)
    assert "SubscribeToShard" not in calls()


def test_a_subscription_that_cannot_be_renewed_is_used_to_its_end(put, read, calls, wait, faults):
    put(0)
    first, _ = read()
    wait(280)
    put(1)
    calls()
    faults.fail("SubscribeToShard", status=400, code="LimitExceededException")
    _, found = until_found(read, first.position, 1)
    assert found == [1]
    assert calls() == {"SubscribeToShard": 1}


def test_the_end_of_a_shard_is_confirmed_by_getrecords(put, read, split, calls):
    put(0, 1)
    split()
    calls()
    reading, found = read()
    assert (found, reading.end) == ([0, 1], RangeEnd.SHARD_END)
    assert calls() == {"SubscribeToShard": 1, "GetRecords": 2}


def test_an_idle_shard_that_is_closed_ends(put, read, split, calls):
    put(0)
    first, _ = read()
    split()
    calls()
    reading, found = read(first.position)
    while reading.end is RangeEnd.TIP:
        reading, more = read(reading.position)
        found += more
    assert (found, reading.end) == ([], RangeEnd.SHARD_END)
    assert calls() == {"GetRecords": 2}


def test_the_tip_of_an_idle_shard_is_not_waited_for(put, read, calls):
    put(0)
    reading, _ = read()
    calls()
    for _ in range(50):
        reading, found = read(reading.position)
        assert (found, reading.end, reading.millis_behind_latest) == ([], RangeEnd.TIP, 0)
    assert calls() == {}


def test_a_subscription_that_is_silent_for_30_seconds_is_dropped(put, read, calls, virtual):
    put(0)
    first, _ = read()
    put(1)
    calls()
    virtual.now += 31  # the service's clock stands still, and with it what the subscription sends
    _, found = until_found(read, first.position, 1)
    assert found == [1]


REFUSED = ["AccessDeniedException", "LimitExceededException", "ResourceInUseException"]


@pytest.mark.parametrize("code", REFUSED)
def test_a_refused_subscription_is_tried_again_less_and_less_often(put, read, calls, faults, wait, code):
    put(0)
    faults.fail("SubscribeToShard", status=400, code=code)
    attempts = []
    reading, found = read()
    for second in range(60):
        if "SubscribeToShard" in calls():
            attempts.append(second)
        wait(1)
        reading, more = read(reading.position)
        found += more
    assert found == [0]
    assert attempts == [0, 5, 15, 35]


def test_an_unavailable_subscription_is_reported_once(put, read, faults, wait, warnings):
    put(0)
    faults.fail("SubscribeToShard", status=400, code="AccessDeniedException")
    for _ in range(3):
        read()
        wait(300)
    (warning,) = warnings
    assert "GetRecords reads shard shardId-000000000000" in warning
    assert "AccessDeniedException" in warning


@pytest.mark.parametrize("code", ["ResourceInUseException", "InternalFailure", "LimitExceededException"])
def test_a_short_failure_is_not_reported(put, read, faults, wait, warnings, code):
    put(0)
    status = 500 if code == "InternalFailure" else 400
    faults.fail("SubscribeToShard", status=status, code=code, times=1)
    read()
    wait(5)
    read()
    assert warnings == []
    faults.fail("SubscribeToShard", status=status, code=code, times=2)
    for _ in range(3):
        read()
        wait(11)
    assert len(warnings) == 1


def test_a_time_that_does_not_agree_with_the_service_is_not_believed(put, read, faults, calls):
    put(0)
    calls()
    faults.skew_date(3600, "SubscribeToShard")
    reading, found = read()
    assert found == [0]
    assert calls() == {"SubscribeToShard": 1, "GetRecords": 1}
    assert reading.tip_time < read()[0].tip_time + timedelta(minutes=5)


def test_the_time_of_the_tip_is_not_after_the_time_at_which_nothing_had_arrived(put, read, wait):
    put(0)
    first, _ = read()
    wait(3)
    put(1)
    time, reading = first.tip_time, first
    while not reading.records:
        reading, _ = read(reading.position)
    assert reading.tip_time == time
