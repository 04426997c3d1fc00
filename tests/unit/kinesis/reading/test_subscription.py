"""Readings by subscription, from the embedded stream."""

from __future__ import annotations

import json
import resource
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from kinesis_assets.errors import DataLost
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.data_loss import Expiry
from kinesis_assets.kinesis.limits import Allowance, Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading import subscription
from kinesis_assets.kinesis.reading.range import RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.reading.shard_events import ShardEvents
from kinesis_assets.kinesis.reading.subscription import Subscriptions
from kinesis_assets.kinesis.transport.concurrency import run
from support.aggregates import aggregate_of
from support.one_shard import ALL_KEYS, BEGINNING, SHARD, items
from support.timing import READING

pytestmark = pytest.mark.slow

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)

CHILD = {
    "ShardId": "shardId-000000000009",
    "ParentShards": [SHARD],
    "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "9"},
}


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
    numbers = put(0, 1, 2)
    read()
    calls()
    other = Position(PositionKind.AT_SEQUENCE_NUMBER, numbers[1])
    _, found = read(other)
    assert found == [1, 2]
    assert calls() == {"GetRecords": 1}
    wait(5)
    _, found = read(other)
    assert found == [1, 2]
    assert calls() == {"SubscribeToShard": 1}


def test_what_was_read_but_not_committed_is_read_again_without_a_call(put, read, calls):
    put(0, 1, 2)
    read()
    calls()
    put(3)
    found = []
    while len(found) < 4:
        reading, found = read()
    assert found == [0, 1, 2, 3]
    _, found = read(reading.position)
    assert found == []
    assert calls() == {}


def test_a_position_that_another_run_has_committed_within_what_was_received_continues(put, read, calls):
    numbers = put(0, 1, 2)
    read()
    calls()
    _, found = read(Position.after(numbers[1]))
    assert found == [2]
    assert calls() == {}


@pytest.mark.parametrize("seconds", [280, 305])
def test_a_subscription_is_renewed_without_gap_or_duplicate(until_found, put, read, calls, wait, seconds):
    put(0, 1)
    first, _ = read()
    put(2)
    calls()
    wait(seconds)
    position, found = until_found(first.position, 1)
    put(3)
    _, more = until_found(position, 1)
    assert [*found, *more] == [2, 3]
    assert calls()["SubscribeToShard"] == 1


def test_a_young_subscription_is_not_renewed(put, read, calls, wait):
    put(0)
    first, _ = read()
    calls()
    wait(199)
    read(first.position)
    assert "SubscribeToShard" not in calls()


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
        assert (found, reading.end) == ([], RangeEnd.TIP)
    assert calls() == {}


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


def test_a_run_subscribes_again_after_its_machine_was_suspended(
    put, until_found, read, calls, wait, clocked, warnings
):
    put(0)
    first, _ = read()
    clocked.clock.seconds += 3600  # a monotonic clock stands still meanwhile
    put(1)
    position, found = until_found(first.position, 1)
    for number in (2, 3):
        wait(5)
        put(number)
        calls()
        position, more = until_found(position, 1)
        found += more
    assert found == [1, 2, 3]
    assert "GetRecords" not in calls()
    assert warnings == []


def test_the_time_of_a_subscription_is_compared_with_that_of_the_last_one(put, subscriptions, clocked):
    put(0)
    for _ in range(3):
        clocked.clock.seconds += 200
        run(subscriptions.events(SHARD, BEGINNING)).close()


def test_a_shard_whose_last_record_arrives_just_before_its_tip_is_not_behind(put, read, wait):
    put(0)
    reading, _ = read()
    wait(3)
    put(1)
    wait(2)
    reading, _ = read(reading.position)
    while not reading.records:
        reading, _ = read(reading.position)
    assert reading.end is RangeEnd.TIP
    assert reading.tip_time >= reading.last_arrival


# A faulty service

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


def test_what_is_kept_while_no_reading_is_committed_is_bounded(
    put, read, subscriptions, until_found, calls, monkeypatch
):
    monkeypatch.setattr(subscription, "_KEPT_BYTES", 2000)
    sizes = []
    for number in range(0, 100, 5):
        put(*range(number, number + 5))  # about 900 bytes of JSON
        reading, found = read()
        sizes.append(subscriptions.kept_bytes)
    assert 2000 <= max(sizes) < 6000
    _, more = until_found(reading.position, 100 - len(found))
    assert [*found, *more] == list(range(100))
    assert calls()["SubscribeToShard"] == 1


def test_the_largest_number_of_subscriptions_may_be_renewed_and_replaced(
    put, read, subscriptions, until_found, calls, wait, warnings
):
    subscriptions.most_open = 1
    put(0)
    first, _ = read()
    wait(280)
    put(1)
    calls()
    _, found = until_found(first.position, 1)
    assert found == [1]
    assert calls() == {"SubscribeToShard": 1}
    other = ShardRange("shardId-000000000001", BEGINNING, Bounds(), ALL_KEYS)
    assert subscriptions.receive([other], Allowance()) == {}
    (warning,) = warnings
    assert "TooManySubscriptions" in warning
    subscriptions.of(SHARD).close()
    wait(5)
    read()
    assert calls() == {"SubscribeToShard": 1}


@pytest.mark.parametrize(
    ("files", "most"), [(128, 64), (1024, 512), (1 << 20, 512), (resource.RLIM_INFINITY, 512)]
)
def test_subscriptions_leave_half_of_the_files_that_a_process_may_open(
    client, warnings, monkeypatch, files, most
):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, resource.RLIM_INFINITY))
    assert Subscriptions(client, "arn", NOON, warnings.append).most_open == most


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
