"""SubscribeToShard over HTTP/2: what a subscription sends, and how it ends."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

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
