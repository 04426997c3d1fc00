"""SubscribeToShard over HTTP/2: what a subscription sends, and how it ends."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from benchmarks.harness.waiting import wait_until
from kinesis_assets.emulator import LocalKinesis
from support.http2 import Http2Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.http2 import Response

FIRST = "shardId-000000000000"


@pytest.fixture
def consumer(stream: Any, client: Any) -> str:
    """The ARN of a consumer of the stream."""
    registered = client.register_stream_consumer(StreamARN=stream.arn, ConsumerName="reader")
    return str(registered["Consumer"]["ConsumerARN"])


@pytest.fixture
def subscribe(local: Any, consumer: str) -> Iterator[Callable[..., Response]]:
    """Subscribe to a shard on a connection of its own."""
    clients = []

    def subscribe(kind: str = "TRIM_HORIZON", shard_id: str = FIRST, **more: Any) -> Response:
        clients.append(Http2Client(local))
        arguments = {"ConsumerARN": consumer, "ShardId": shard_id}
        return clients[-1].request("SubscribeToShard", **arguments, StartingPosition={"Type": kind, **more})

    yield subscribe
    for each in clients:
        each.close()


def numbers(event: dict[str, Any]) -> list[str]:
    return [record["SequenceNumber"] for record in event["Records"]]


def test_a_subscription_begins_with_an_initial_response(subscribe):
    response = subscribe()
    assert response.status == 200
    assert response.headers["content-type"] == "application/vnd.amazon.eventstream"
    first = next(response.messages())
    assert first.headers == {
        ":event-type": "initial-response",
        ":content-type": "application/x-amz-json-1.1",
        ":message-type": "event",
    }
    assert first.payload == b"{}"


def test_records_arrive_as_getrecords_returns_them(subscribe, stream, call):
    stream.put(b"first")
    stream.put(b"second")
    _, page = call("GetRecords", ShardIterator=stream.iterator())
    event = next(subscribe().events())
    assert event == {
        "Records": page["Records"],
        "ContinuationSequenceNumber": page["Records"][-1]["SequenceNumber"],
        "MillisBehindLatest": 0,
    }


def test_a_record_that_is_put_later_arrives(subscribe, stream):
    events = subscribe("LATEST").events()
    assert next(events)["Records"] == []
    put = stream.put(b"later")
    assert numbers(next(events)) == [put["SequenceNumber"]]


def test_a_shard_ends_with_its_children_and_without_a_continuation(subscribe, stream):
    put = stream.put(b"last")
    stream.split()
    event, *more = subscribe().events()
    assert more == []
    assert numbers(event) == [put["SequenceNumber"]]
    assert [child["ShardId"] for child in event["ChildShards"]] == [
        "shardId-000000000001",
        "shardId-000000000002",
    ]
    assert "ContinuationSequenceNumber" not in event


def test_one_connection_serves_a_subscription_and_other_calls(local, subscribe, stream):
    events = subscribe("LATEST").events()
    next(events)
    with closing(Http2Client(local)) as other:
        answer = other.request("ListShards", StreamName=stream.name)
        assert [shard["ShardId"] for shard in answer.json()["Shards"]] == [FIRST]
        assert other.request("GetRecords").status == 400


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("TRIM_HORIZON", ["first", "second", "third"]),
        ("AT_SEQUENCE_NUMBER", ["second", "third"]),
        ("AFTER_SEQUENCE_NUMBER", ["third"]),
        ("AT_TIMESTAMP", ["second", "third"]),
        ("LATEST", []),
    ],
)
def test_a_subscription_starts_at_its_position(subscribe, stream, clock, kind, expected):
    named = {stream.put(b"first")["SequenceNumber"]: "first"}
    clock.advance(1)
    at = clock()
    second = stream.put(b"second")["SequenceNumber"]
    clock.advance(1)
    named |= {second: "second", stream.put(b"third")["SequenceNumber"]: "third"}
    more = {"SequenceNumber": second} if kind.endswith("SEQUENCE_NUMBER") else {}
    more |= {"Timestamp": at} if kind == "AT_TIMESTAMP" else {}
    assert [named[number] for number in numbers(next(subscribe(kind, **more).events()))] == expected


@pytest.mark.parametrize(
    ("position", "error"),
    [
        ({"Type": "AT_SEQUENCE_NUMBER"}, "InvalidArgumentException"),
        ({"Type": "LATEST", "SequenceNumber": "1"}, "InvalidArgumentException"),
        ({"Type": "AT_TIMESTAMP"}, "InvalidArgumentException"),
        ({"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": "49"}, "InvalidArgumentException"),
        ({"Type": "SOMEWHERE"}, "ValidationException"),
        ({}, "ValidationException"),
    ],
)
def test_an_invalid_starting_position_is_refused(call, consumer, position, error):
    arguments = {"ConsumerARN": consumer, "ShardId": FIRST, "StartingPosition": position}
    status, refusal = call("SubscribeToShard", **arguments)
    assert (status, refusal["__type"]) == (400, error)


@pytest.mark.parametrize(
    "change", [{"ShardId": "shardId-000000000001"}, {"ConsumerARN": "reader:1"}], ids=["shard", "consumer"]
)
def test_an_unknown_shard_or_consumer_is_not_found(call, consumer, change):
    if "ConsumerARN" in change:
        change = {"ConsumerARN": consumer.replace("reader:", "reader:1")}
    arguments = {"ConsumerARN": consumer, "ShardId": FIRST, "StartingPosition": {"Type": "LATEST"}}
    status, refusal = call("SubscribeToShard", **arguments | change)
    assert (status, refusal["__type"]) == (400, "ResourceNotFoundException")


def test_a_dry_run_does_not_subscribe(call, subscribe, consumer):
    arguments = {"ConsumerARN": consumer, "ShardId": FIRST, "StartingPosition": {"Type": "LATEST"}}
    status, refusal = call("SubscribeToShard", **arguments, DryRun=True)
    assert (status, refusal["__type"]) == (400, "DryRunOperationException")
    assert subscribe().status == 200


def test_a_second_subscription_within_five_seconds_is_refused(subscribe, clock):
    first = subscribe("LATEST")
    clock.advance(4.999)
    second = subscribe("LATEST")
    assert (second.status, second.json()["__type"]) == (400, "ResourceInUseException")
    assert next(first.events())["Records"] == []


@pytest.mark.slow
def test_a_second_subscription_after_five_seconds_ends_the_first(subscribe, stream, clock):
    first = subscribe("LATEST").events()
    next(first)
    clock.advance(5)
    second = subscribe("LATEST").events()
    *_, last = first
    assert list(last) == ["ResourceInUseException"]
    next(second)
    put = stream.put(b"later")
    assert numbers(next(second)) == [put["SequenceNumber"]]


def test_consumers_and_shards_have_subscriptions_of_their_own(local, client, create):
    stream = create(2)
    clients = []
    for name in ("one", "other"):
        registered = client.register_stream_consumer(StreamARN=stream.arn, ConsumerName=name)["Consumer"]
        for shard_id in (FIRST, "shardId-000000000001"):
            clients.append(Http2Client(local))
            arguments = {"ConsumerARN": registered["ConsumerARN"], "ShardId": shard_id}
            response = clients[-1].request(
                "SubscribeToShard", **arguments, StartingPosition={"Type": "TRIM_HORIZON"}
            )
            assert response.status == 200
    for each in clients:
        each.close()


@pytest.mark.slow
def test_a_subscription_ends_after_five_minutes(subscribe, clock):
    events = subscribe("LATEST").events()
    next(events)
    clock.advance(299)
    assert next(events)["Records"] == []
    clock.advance(1)
    assert list(events) == []


def test_an_idle_shard_sends_events_without_records(subscribe, stream, clock):
    put = stream.put(b"first")
    events = subscribe().events()
    assert numbers(next(events)) == [put["SequenceNumber"]]
    clock.advance(5)
    heartbeat = next(events)
    assert heartbeat["Records"] == []
    assert heartbeat["MillisBehindLatest"] == 0
    assert int(heartbeat["ContinuationSequenceNumber"]) > int(put["SequenceNumber"])


@pytest.mark.slow
def test_the_next_subscription_goes_on_after_the_number_of_an_event_without_records(subscribe, stream, clock):
    stream.put(b"first")
    events = subscribe().events()
    next(events)
    clock.advance(5)
    continuation = next(events)["ContinuationSequenceNumber"]
    put = stream.put(b"second")
    assert int(put["SequenceNumber"]) > int(continuation)
    again = subscribe("AFTER_SEQUENCE_NUMBER", SequenceNumber=continuation)
    assert numbers(next(again.events())) == [put["SequenceNumber"]]


def test_a_backlog_arrives_in_several_events(subscribe, stream, clock):
    puts = [stream.put(b"x" * 600_000)["SequenceNumber"] for _ in range(3)]
    clock.advance(1)
    events = subscribe().events()
    arrived = [next(events) for _ in puts]
    assert [numbers(event) for event in arrived] == [[number] for number in puts]
    assert [event["MillisBehindLatest"] for event in arrived] == [1000, 1000, 0]


@pytest.mark.slow
def test_a_record_that_is_larger_than_an_event_arrives_alone(subscribe, client, stream):
    client.update_max_record_size(StreamARN=stream.arn, MaxRecordSizeInKiB=10_240)
    large = stream.put(b"x" * (5 << 20))
    small = stream.put(b"y")
    events = subscribe().events()
    assert numbers(next(events)) == [large["SequenceNumber"]]
    assert numbers(next(events)) == [small["SequenceNumber"]]


def test_expired_records_do_not_arrive(subscribe, stream, clock):
    stream.put(b"expires")
    clock.advance(24 * 3600)
    clock.advance(1)
    put = stream.put(b"remains")
    assert numbers(next(subscribe().events())) == [put["SequenceNumber"]]


def test_deregistering_a_consumer_ends_its_subscriptions(subscribe, client, consumer):
    events = subscribe("LATEST").events()
    next(events)
    client.deregister_stream_consumer(ConsumerARN=consumer)
    (last,) = events
    assert list(last) == ["ResourceNotFoundException"]


@pytest.mark.slow
def test_deleting_a_stream_ends_its_subscriptions(subscribe, client, stream):
    events = subscribe("LATEST").events()
    next(events)
    client.delete_stream(StreamName=stream.name, EnforceConsumerDeletion=True)
    (last,) = events
    assert list(last) == ["ResourceNotFoundException"]


def test_boto3_receives_the_same_events_over_http_1(client, stream, consumer):
    put = stream.put(b"data")
    stream.split()
    response = client.subscribe_to_shard(
        ConsumerARN=consumer, ShardId=FIRST, StartingPosition={"Type": "TRIM_HORIZON"}
    )
    (event,) = [event["SubscribeToShardEvent"] for event in response["EventStream"]]
    assert [(record["SequenceNumber"], record["Data"]) for record in event["Records"]] == [
        (put["SequenceNumber"], b"data")
    ]
    assert len(event["ChildShards"]) == 2


def test_another_account_needs_permission_to_subscribe(local, connect, stream, consumer):
    others = connect(local, "444455556666")
    arguments = {"ConsumerARN": consumer, "ShardId": FIRST, "StartingPosition": {"Type": "TRIM_HORIZON"}}
    with pytest.raises(ClientError, match="kinesis:SubscribeToShard"):
        others.subscribe_to_shard(**arguments)
    local.share(stream.arn, ["kinesis:SubscribeToShard"], account_id="444455556666")
    stream.put(b"data")
    stream.split()
    (event,) = others.subscribe_to_shard(**arguments)["EventStream"]
    assert len(event["SubscribeToShardEvent"]["Records"]) == 1


def test_a_client_that_disconnects_is_forgotten(local, subscribe, stream):
    response = subscribe("LATEST")
    next(response.events())
    shard = local._account.stream(stream.name).shard(FIRST)
    assert len(shard.watchers) == 1
    response.client.close()
    wait_until(lambda: not shard.watchers, interval=0.005)


def test_a_subscription_that_its_client_resets_is_forgotten(local, subscribe, stream):
    response = subscribe("LATEST")
    next(response.events())
    shard = local._account.stream(stream.name).shard(FIRST)
    response.client.http.reset_stream(response.stream_id)
    response.client.flush()
    wait_until(lambda: not shard.watchers, interval=0.005)
    assert response.client.request("ListShards", StreamName=stream.name).status == 200


def test_a_client_that_says_goodbye_is_disconnected(local, subscribe, stream, caplog):
    response = subscribe("LATEST")
    next(response.events())
    shard = local._account.stream(stream.name).shard(FIRST)
    response.client.http.close_connection()
    response.client.flush()
    stream.put(b"later")
    with pytest.raises(ConnectionError):
        list(iter(response.client.receive, None))
    wait_until(lambda: not shard.watchers, interval=0.005)
    assert caplog.text == ""


@pytest.mark.slow
def test_a_client_that_does_not_read_delays_no_other(local, subscribe, stream):
    for _ in range(8):
        stream.put(b"x" * 1_000_000)
    response = subscribe()
    with closing(Http2Client(local)) as other:
        assert other.request("ListShards", StreamName=stream.name).status == 200
    events = response.events()
    assert sum(len(next(events)["Records"]) for _ in range(8)) == 8


@pytest.mark.slow
def test_a_server_stops_while_clients_are_subscribed(connect, caplog):
    with LocalKinesis() as local:
        client = connect(local)
        client.create_stream(StreamName="orders", ShardCount=1)
        arn = client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]["StreamARN"]
        consumer = client.register_stream_consumer(StreamARN=arn, ConsumerName="reader")["Consumer"]
        for _ in range(8):
            client.put_record(StreamName="orders", PartitionKey="k", Data=b"x" * 1_000_000)
        arguments = {"ConsumerARN": consumer["ConsumerARN"], "ShardId": FIRST}
        http2 = Http2Client(local)
        response = http2.request("SubscribeToShard", **arguments, StartingPosition={"Type": "TRIM_HORIZON"})
    with closing(http2), pytest.raises(ConnectionError):
        list(response.events())
    assert caplog.text == ""
