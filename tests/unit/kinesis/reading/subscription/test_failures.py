"""Subscriptions that are refused, fail or send invalid events: what is read nevertheless, and reported."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from kinesis_assets.errors import DataLost
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.data_loss import Expiry
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading import subscription
from kinesis_assets.kinesis.reading.range import Allowance, Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.reading.subscription_events import ShardEvents
from support.one_shard import ALL_KEYS, BEGINNING, SHARD, items

pytestmark = pytest.mark.slow

CHILD = {
    "ShardId": "shardId-000000000009",
    "ParentShards": [SHARD],
    "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "9"},
}


def test_a_subscription_that_cannot_be_renewed_is_used_to_its_end(
    until_found, put, read, calls, wait, faults
):
    put(0)
    first, _ = read()
    wait(280)
    put(1)
    calls()
    faults.fail("SubscribeToShard", status=400, code="LimitExceededException")
    _, found = until_found(first.position, 1)
    assert found == [1]
    assert calls() == {"SubscribeToShard": 1}


def test_a_subscription_that_is_silent_for_30_seconds_is_dropped(until_found, put, read, calls, virtual):
    put(0)
    first, _ = read()
    put(1)
    calls()
    virtual.now += 31  # the service's clock stands still, and with it what the subscription sends
    _, found = until_found(first.position, 1)
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
def test_a_short_failure_is_not_reported(put, read, subscriptions, faults, wait, warnings, code):
    put(0)
    status = 500 if code == "InternalFailure" else 400
    faults.fail("SubscribeToShard", status=status, code=code, times=1)
    read()
    wait(5)
    read()
    assert warnings == []
    subscriptions.close()
    faults.fail("SubscribeToShard", status=status, code=code, times=2)
    for _ in range(3):
        read()
        wait(11)
    assert len(warnings) == 1


SHORT = {
    "resets the connection": lambda faults: faults.reset_events(events=2, times=100),
    "is cut": lambda faults: faults.cut_event(events=2, times=100),
    "ends": lambda faults: faults.answer("SubscribeToShard", ends_after_two_events),
    "ends the shard": lambda faults: faults.answer("SubscribeToShard", ends_the_shard),
}


def ends_after_two_events(_, answer):
    async def frames():
        left = 2
        async for frame in answer.frames:
            yield frame
            left -= 1
            if not left:
                return

    return replace(answer, frames=frames())


def ends_the_shard(_, answer):
    async def frames():
        async for frame in answer.frames:
            members = json.loads(frame.payload)
            members.pop("ContinuationSequenceNumber", None)
            yield frame.with_payload(json.dumps(members | {"ChildShards": [CHILD]}).encode())

    return replace(answer, frames=frames())


@pytest.mark.parametrize("fault", SHORT.values(), ids=SHORT)
def test_a_short_failure_that_repeats_is_reported(until_found, put, faults, wait, warnings, fault):
    fault(faults)
    position = BEGINNING
    for number in range(24):
        put(number)
        position, _ = until_found(position, 1)
        wait(3)
    assert warnings


def test_a_subscription_that_is_left_for_another_position_again_and_again_is_reported(
    put, read, wait, warnings
):
    numbers = put(0, 1, 2, 3)
    read()
    for number in numbers[1:]:
        assert warnings == []
        wait(6)
        read(Position(PositionKind.AT_SEQUENCE_NUMBER, number))
    (warning,) = warnings
    assert "OtherPosition" in warning


@pytest.mark.parametrize(("fault", "attempted"), [("says nothing", [0, 6, 17, 38]), ("ends", [0, 5, 15, 35])])
def test_a_subscription_without_an_event_is_tried_again_less_and_less_often_and_reported(
    put, read, calls, faults, wait, warnings, monkeypatch, fault, attempted
):
    async def nothing():
        return
        yield

    monkeypatch.setattr(subscription, "_FIRST_EVENT", 0.01)
    if fault == "says nothing":
        faults.stop_events(times=100)
    else:
        faults.answer("SubscribeToShard", lambda _, answer: replace(answer, frames=nothing()))
    calls()
    reading, found, attempts = None, [], []
    for second in range(40):
        put(second)  # GetRecords reads it
        reading, more = read(BEGINNING if reading is None else reading.position)
        found += more
        if "SubscribeToShard" in calls():
            attempts.append(second)
        wait(1)
    assert found == list(range(40))
    assert attempts == attempted
    (warning,) = warnings
    assert "NoEvent" in warning


def test_a_time_that_does_not_agree_with_the_service_is_not_believed(put, read, faults, calls):
    put(0)
    calls()
    faults.skew_date(3600, "SubscribeToShard")
    reading, found = read()
    assert found == [0]
    assert calls() == {"SubscribeToShard": 1, "GetRecords": 1}
    assert reading.tip_time < read()[0].tip_time + timedelta(minutes=5)


HOSTILE = {
    "stops": lambda faults, **calls: faults.stop_events(**calls),
    "resets the connection": lambda faults, **calls: faults.reset_events(**calls),
    "fails": lambda faults, **calls: faults.fail_events(**calls),
    "is taken over": lambda faults, **calls: faults.fail_events(code="ResourceInUseException", **calls),
    "throttles": lambda faults, **calls: faults.fail_events(code="KMSThrottlingException", **calls),
    "is cut": lambda faults, **calls: faults.cut_event(**calls),
    "is damaged": lambda faults, **calls: faults.damage_event(**calls),
    "repeats": lambda faults, **calls: faults.repeat_event(**calls),
    "goes backwards": lambda faults, **calls: faults.swap_events(**calls),
    "has stale continuations": lambda faults, **calls: faults.stale_continuation(**calls),
    "ends twice": lambda faults, events, **calls: faults.end_shard_twice(**calls),  # noqa: ARG005
    "ends without children": lambda faults, events, **calls: faults.end_without_children(**calls),  # noqa: ARG005
}


@pytest.mark.parametrize("patience", [1.0])
@pytest.mark.parametrize("times", [1, 100])
@pytest.mark.parametrize("events", [0, 1])
@pytest.mark.parametrize("fault", HOSTILE.values(), ids=HOSTILE)
def test_a_faulty_subscription_neither_loses_nor_duplicates_records(
    until_found, put, read, split, faults, wait, fault, events, times
):
    fault(faults, events=events, times=times)
    put(0, 1)
    reading, found = read()
    for number in (2, 3, 4):
        put(number)
        wait(6)
        position, more = until_found(reading.position, 1)
        found += more
        reading, more = read(position)
        found += more
    split()
    while reading.end is not RangeEnd.SHARD_END:
        wait(6)
        reading, more = read(reading.position)
        found += more
    assert found == [0, 1, 2, 3, 4]


def test_an_end_that_is_not_true_is_not_believed(put, read, faults, wait):
    put(0, 1)
    faults.answer("SubscribeToShard", ends_the_shard)
    reading, found = read()
    assert (found, reading.end) == ([0, 1], RangeEnd.TIP)
    wait(6)
    put(2)
    reading, found = read(reading.position)
    while not found:  # the event has not arrived yet
        reading, found = read(reading.position)
    assert (found, reading.end) == ([2], RangeEnd.TIP)


@pytest.mark.parametrize(
    ("owner", "name"), [(StreamClient, "subscribing"), (ShardEvents, "receive")], ids=["opening", "receiving"]
)
def test_an_error_that_nothing_foresees_does_not_fail_a_reading(
    put, read, warnings, monkeypatch, owner, name
):
    async def fails(*_):
        raise AttributeError("there is no such attribute")

    monkeypatch.setattr(owner, name, fails)
    put(0, 1)
    reading, found = read()
    assert (found, reading.end) == ([0, 1], RangeEnd.TIP)
    assert len(warnings) == 1
    assert "AttributeError: there is no such attribute" in warnings[0]


def test_records_that_expired_before_a_subscription_are_a_loss(put, client, subscriptions, faults, stream):
    numbers = put(0, 1, 2)
    service_time = client.describe().service_time
    expiry = Expiry(
        complete_until=service_time - timedelta(hours=25), retention_hours=24, on_data_loss="fail"
    )
    faults.trim(stream, SHARD, before=numbers[2])
    range_ = ShardRange(SHARD, Position.after(numbers[0]), Bounds(), ALL_KEYS, expiry=expiry)
    received = subscriptions.receive([range_], Allowance())
    reading = ShardReading(client, range_, received=received[SHARD])
    with pytest.raises(DataLost):
        items(reading)
    assert reading.position == range_.start


def test_an_event_before_the_position_is_refused_and_reported_at_once(
    put, read, until_found, faults, calls, warnings
):
    def repeats(_, answer):
        async def frames():
            first = None
            async for frame in answer.frames:
                if first is None and json.loads(frame.payload).get("Records"):
                    first = frame
                yield first or frame

        return replace(answer, frames=frames())

    number, _ = put(0, 1)
    faults.answer("SubscribeToShard", repeats)
    reading, found = read()
    assert found == [0, 1]
    put(2)
    calls()
    _, found = until_found(reading.position, 1)
    assert found == [2]
    assert calls()["GetRecords"] == 1
    (warning,) = warnings
    assert f"starts at sequence number {number}" in warning
