"""Faults of event streams: what a subscription sends is late, invalid or missing."""

from __future__ import annotations

import socket
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from botocore.eventstream import ChecksumMismatch, EventStreamBuffer
from h2.settings import SettingCodes

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.errors import InvalidInput, StreamNotFound
from support.http2 import Http2Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kinesis_assets.testing import Faults
    from support.http2 import Response

A, B = "shardId-000000000000", "shardId-000000000001"


@pytest.fixture
def arn(orders: Any) -> str:
    summary = orders.client.describe_stream_summary(StreamName=orders.name)
    return str(summary["StreamDescriptionSummary"]["StreamARN"])


@pytest.fixture
def consumer(orders: Any, arn: str) -> str:
    registered = orders.client.register_stream_consumer(StreamARN=arn, ConsumerName="reader")
    return str(registered["Consumer"]["ConsumerARN"])


@pytest.fixture
def subscribe(local_kinesis: Any, faults: Faults, consumer: str) -> Iterator[Callable[..., Response]]:
    """Subscribe to a shard on a connection of its own."""
    clients = []

    def subscribe(shard_id: str = A, consumer_arn: str = consumer) -> Response:
        clients.append(Http2Client(local_kinesis))
        return clients[-1].request(
            "SubscribeToShard",
            ConsumerARN=consumer_arn,
            ShardId=shard_id,
            StartingPosition={"Type": "TRIM_HORIZON"},
        )

    yield subscribe
    faults.clear()
    for each in clients:
        each.close()


@pytest.fixture
def put(orders):
    """Put records of which an event has one, and return their sequence numbers."""
    return lambda count: orders.put(*[bytes([48 + number]) * 600_000 for number in range(count)])


def number(event: dict[str, Any]) -> str:
    (record,) = event["Records"]
    return str(record["SequenceNumber"])


def numbers(events: Any) -> list[str]:
    return [number(event) for event in events if event["Records"]]


def end(orders: Any) -> None:
    """Split shard A, whose subscriptions then end."""
    orders.client.split_shard(StreamName=orders.name, ShardToSplit=A, NewStartingHashKey=str(2**126))


@pytest.mark.slow
def test_stopped_subscription_sends_nothing_more(orders, put, subscribe, faults):
    first, _ = put(2)
    faults.stop_events(events=1)
    response = subscribe()
    events = response.events()
    assert number(next(events)) == first
    end(orders)
    response.client.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        next(events)


@pytest.mark.slow
def test_subscription_can_stop_before_its_first_event(put, subscribe, faults):
    put(1)
    faults.stop_events()
    response = subscribe()
    assert response.status == 200
    response.client.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        next(response.events())


def test_reset_subscription_closes_its_connection(put, subscribe, faults):
    sent = put(2)
    faults.reset_events(events=1)
    events = subscribe().events()
    assert number(next(events)) == sent[0]
    with pytest.raises(ConnectionError):
        next(events)


def test_events_before_a_reset_arrive(local_kinesis, put, consumer, faults):
    sent = put(2)
    faults.reset_events(events=2)
    connection = socket.socket()
    connection.settimeout(SECONDS)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)  # much less than what is sent at once
    connection.connect(("127.0.0.1", local_kinesis.port))
    with closing(Http2Client(local_kinesis, connection)) as client:
        client.http.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1 << 24})
        client.http.increment_flow_control_window(1 << 24)
        position = {"Type": "TRIM_HORIZON"}
        events = client.request(
            "SubscribeToShard", ConsumerARN=consumer, ShardId=A, StartingPosition=position
        ).events()
        assert [number(next(events)), number(next(events))] == sent
        with pytest.raises(ConnectionError):
            next(events)


@pytest.mark.parametrize(
    "code", ["InternalFailureException", "ResourceInUseException", "KMSThrottlingException"]
)
def test_failed_subscription_ends_with_an_exception(put, subscribe, faults, code):
    sent = put(2)
    faults.fail_events(events=1, code=code)
    first, last = subscribe().events()
    assert number(first) == sent[0]
    assert list(last) == [code]


@pytest.mark.parametrize("fault", ["stop_events", "reset_events", "fail_events"])
def test_subscription_that_ends_before_the_event_ends_as_usual(orders, put, subscribe, faults, fault):
    put(1)
    end(orders)
    getattr(faults, fault)(events=2)
    events = list(subscribe().events())
    assert len(events[-1]["ChildShards"]) == 2


def test_cut_event_ends_the_response_within_a_frame(put, subscribe, faults):
    put(2)
    faults.cut_event(events=1, kept=0.5)
    buffer = EventStreamBuffer()
    parts = b"".join(subscribe().parts())
    buffer.add_data(parts)
    initial, event = buffer
    assert initial.headers[":event-type"] == "initial-response"
    rest = parts[sum(message.prelude.total_length for message in (initial, event)) :]
    assert len(rest) == int.from_bytes(rest[:4]) // 2


def test_damaged_event_does_not_match_its_checksum(put, subscribe, faults):
    put(1)
    faults.damage_event()
    with pytest.raises(ChecksumMismatch):
        next(subscribe().events())


def test_repeated_event_arrives_twice(orders, put, subscribe, faults):
    first, second, third = put(3)
    faults.repeat_event(events=1)
    end(orders)
    assert numbers(subscribe().events()) == [first, second, second, third]


def test_swapped_events_arrive_in_reverse_order(orders, put, subscribe, faults):
    first, second, third, fourth = put(4)
    faults.swap_events(events=1)
    end(orders)
    assert numbers(subscribe().events()) == [first, third, second, fourth]


def test_swapped_event_without_a_second_one_arrives_before_the_end(orders, put, subscribe, faults):
    faults.swap_events()
    events = subscribe().events()
    (only,) = put(1)
    end(orders)
    arrived = list(events)
    assert numbers(arrived) == [only]
    assert len(arrived[-1]["ChildShards"]) == 2


def test_stale_continuation_is_that_of_an_earlier_event(put, subscribe, faults):
    first, second, third = put(3)
    faults.stale_continuation(events=1)
    events = list(islice(subscribe().events(), 3))
    assert numbers(events) == [first, second, third]
    assert [event["ContinuationSequenceNumber"] for event in events] == [first, first, first]


def test_shard_can_end_twice(orders, put, subscribe, faults):
    put(1)
    end(orders)
    faults.end_shard_twice()
    first, second = subscribe().events()
    assert first == second
    assert len(first["ChildShards"]) == 2


def test_shard_can_end_without_children(orders, put, subscribe, faults):
    (only,) = put(1)
    end(orders)
    faults.end_without_children()
    (event,) = subscribe().events()
    assert number(event) == only
    assert event.keys() == {"Records", "MillisBehindLatest"}


def test_event_faults_affect_the_configured_subscriptions(orders, put, subscribe, faults):
    put(1)
    end(orders)
    faults.fail_events(code="First", shard_id=A, times=1)
    faults.fail_events(code="Second", shard_id=B)
    assert [list(event) for event in subscribe().events()][-1] == ["First"]
    assert [list(event) for event in subscribe(B).events()][-1] == ["Second"]
    assert faults.count("SubscribeToShard") == 2
    assert faults.count("SubscribeToShard", B) == 1
    assert {call.stream for call in faults.calls if call.operation == "SubscribeToShard"} == {orders.name}


def test_call_can_be_refused_like_any_other(put, subscribe, faults):
    put(1)
    faults.throttle("SubscribeToShard", code="LimitExceededException", times=1)
    refused = subscribe()
    assert (refused.status, refused.json()["__type"]) == (400, "LimitExceededException")
    assert subscribe().status == 200


def test_reset_call_gives_no_response(put, subscribe, faults):
    put(1)
    faults.reset("SubscribeToShard", times=1)
    with pytest.raises(ConnectionError):
        subscribe()


def test_two_faults_of_events_apply_in_turn(put, subscribe, faults, orders, arn):
    put(1)
    faults.fail_events(code="First", times=1)
    faults.fail_events(code="Second", times=1)
    assert [list(event) for event in subscribe().events()] == [["First"]]
    other = orders.client.register_stream_consumer(StreamARN=arn, ConsumerName="other")["Consumer"]
    assert [list(event) for event in subscribe(A, other["ConsumerARN"]).events()] == [["Second"]]


@pytest.mark.parametrize(
    "add",
    [
        lambda faults: faults.stop_events(events=-1),
        lambda faults: faults.cut_event(kept=1),
        lambda faults: faults.cut_body("SubscribeToShard"),
        lambda faults: faults.repeat_event(times=0),
    ],
    ids=["events", "kept", "body", "times"],
)
def test_invalid_arguments_are_refused(faults, add):
    with pytest.raises(InvalidInput):
        add(faults)


def test_slow_consumer_is_creating_for_some_time(clocked, faults, rejected):
    clocked.kinesis.create_stream(StreamName="slow", ShardCount=1)
    arn = clocked.kinesis.describe_stream_summary(StreamName="slow")["StreamDescriptionSummary"]["StreamARN"]
    faults.slow_consumers("slow", 30)
    named = {"StreamARN": arn, "ConsumerName": "reader"}
    registered = clocked.kinesis.register_stream_consumer(**named)["Consumer"]

    def status():
        consumer = clocked.kinesis.describe_stream_consumer(**named)["ConsumerDescription"]
        return consumer["ConsumerStatus"]

    clocked.clock.advance(29)
    assert status() == "CREATING"
    with rejected("ResourceInUseException"):
        clocked.kinesis.subscribe_to_shard(
            ConsumerARN=registered["ConsumerARN"], ShardId=A, StartingPosition={"Type": "LATEST"}
        )
    with rejected("ResourceInUseException"):
        clocked.kinesis.deregister_stream_consumer(**named)
    clocked.clock.advance(1)
    assert status() == "ACTIVE"
    clocked.kinesis.deregister_stream_consumer(**named)
    assert status() == "DELETING"
    clocked.clock.advance(30)
    with rejected("ResourceNotFoundException"):
        status()


def test_five_consumers_can_be_creating_at_once(orders, arn, faults, rejected):
    faults.slow_consumers(orders.name, 3600)
    for name in "abcde":
        orders.client.register_stream_consumer(StreamARN=arn, ConsumerName=name)
    with rejected("LimitExceededException"):
        orders.client.register_stream_consumer(StreamARN=arn, ConsumerName="f")


def test_consumers_of_an_unknown_stream_cannot_be_slow(faults):
    with pytest.raises(StreamNotFound):
        faults.slow_consumers("unknown", 1)
