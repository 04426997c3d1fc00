"""Calls to one stream: a complete response or an error."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from botocore.exceptions import EndpointConnectionError

from kinesis_assets.errors import CallFailed, InvalidInput, ShardListIncomplete, StreamNotFound
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.sdk import _unknown_region
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.stream import Shard, in_lineage_order, unfinished_parents

MIDDLE = str(1 << 127)


def test_later_pages_of_the_shard_list_are_requested_by_token_only(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=7)
    faults.page_size(3, "ListShards")
    shards = client.list_shards()
    assert [shard.shard_id for shard in shards] == [f"shardId-{number:012}" for number in range(7)]
    first, *others = (call.arguments.keys() for call in faults.calls[1:])
    assert first == {"StreamName"}
    assert others == [{"NextToken"}, {"NextToken"}]


def test_a_list_longer_than_one_page_is_complete(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=1001)
    assert len(client.list_shards()) == 1001
    assert faults.count("ListShards") == 2


def test_failing_second_page_fails_the_list(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=3)
    faults.page_size(2, "ListShards")
    faults.expire("ListShards", after=1)
    with pytest.raises(CallFailed, match="ListShards failed with ExpiredNextTokenException") as caught:
        client.list_shards()
    assert (caught.value.operation, caught.value.stream) == ("ListShards", stream)


def test_empty_shard_list_is_incomplete(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    faults.answer("ListShards", lambda _, response: response.but(Shards=[]))
    with pytest.raises(ShardListIncomplete, match=stream):
        client.list_shards()


def test_a_shard_listed_twice_makes_the_list_incomplete(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    faults.answer("ListShards", lambda _, response: response.but(Shards=response.members["Shards"] * 2))
    with pytest.raises(ShardListIncomplete, match="twice"):
        client.list_shards()


@pytest.mark.parametrize("body", [b"{}", b'{"Shards": [{"ShardId": "shar'], ids=["empty", "truncated"])
def test_a_truncated_shard_list_fails_the_call(kinesis, stream, client, faults, body):
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    faults.answer("ListShards", lambda _, response: response.with_body(body))
    with pytest.raises(CallFailed):
        client.list_shards()


def test_a_truncated_iterator_response_fails_the_call(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    faults.cut_body("GetShardIterator")
    with pytest.raises(CallFailed, match="GetShardIterator"):
        client.shard_iterator("shardId-000000000000", Position(PositionKind.TRIM_HORIZON))


def test_a_truncated_description_fails_the_call(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    faults.cut_body("DescribeStreamSummary")
    with pytest.raises(CallFailed, match="DescribeStreamSummary"):
        client.describe()


@pytest.mark.parametrize("field", ["StreamARN", "StreamCreationTimestamp", "RetentionPeriodHours"])
def test_a_description_without_a_field_fails_the_call(kinesis, stream, client, faults, field):
    def without(_, response):
        summary = response.members["StreamDescriptionSummary"]
        return response.but(
            StreamDescriptionSummary={name: value for name, value in summary.items() if name != field}
        )

    kinesis.create_stream(StreamName=stream, ShardCount=1)
    faults.answer("DescribeStreamSummary", without)
    with pytest.raises(CallFailed, match=f"the description of the stream has no {field}"):
        client.describe()


@pytest.mark.parametrize("call", [StreamClient.describe, StreamClient.list_shards])
def test_unknown_stream_is_not_found(client, call):
    with pytest.raises(StreamNotFound, match=client.stream):
        call(client)


def test_an_unknown_shard_fails_the_call_and_is_not_reported_as_an_unknown_stream(kinesis, stream, client):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    with pytest.raises(CallFailed) as caught:
        client.shard_iterator("shardId-000000000009", Position(PositionKind.TRIM_HORIZON))
    assert caught.value.code == "ResourceNotFoundException"


def test_an_unreachable_endpoint_fails_after_six_attempts(stream, sdk_waits):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = StreamClient(stream, ClientSettings("us-east-1", f"http://127.0.0.1:{port}"))
    with pytest.raises(CallFailed, match="DescribeStreamSummary failed with EndpointConnectionError"):
        client.describe()
    assert len(sdk_waits) == 5
    assert sum(sdk_waits) <= 31


@pytest.mark.usefixtures("sdk_waits")
@pytest.mark.parametrize("error", [("ProvisionedThroughputExceededException", 400), ("InternalFailure", 500)])
def test_transient_errors_are_retried_by_the_sdk(kinesis, stream, client, faults, error):
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    faults.answer("ListShards", lambda _, response: response.error(*error), times=2)
    assert len(client.list_shards()) == 2
    assert faults.count("ListShards") == 3


def test_permanent_throttling_fails_the_call(kinesis, stream, client, faults, sdk_waits):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    faults.throttle("ListShards", code="LimitExceededException")
    with pytest.raises(CallFailed) as caught:
        client.list_shards()
    assert caught.value.code == "LimitExceededException"
    assert len(sdk_waits) == 5


def test_missing_region_is_invalid_input(stream, monkeypatch):
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(InvalidInput, match=stream):
        StreamClient(stream, ClientSettings(endpoint_url="http://127.0.0.1:1/no-region"))


def test_the_description_has_the_identity_and_the_services_clock(clocked, stream):
    clocked.clock.seconds += 100.75
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    created = clocked.clock.seconds
    clocked.clock.seconds += 50
    summary = StreamClient(stream, clocked.settings).describe()
    assert summary.identity.name == stream
    assert summary.identity.arn.endswith(f":stream/{stream}")
    assert summary.identity.created == datetime.fromtimestamp(created, UTC)
    assert summary.service_time == datetime.fromtimestamp(int(clocked.clock.seconds), UTC)


def test_split_shards_have_one_parent(kinesis, stream, client):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.split_shard(StreamName=stream, ShardToSplit="shardId-000000000000", NewStartingHashKey=MIDDLE)
    parent, *children = client.list_shards()
    assert parent.parents == ()
    assert [child.parents for child in children] == [(parent.shard_id,)] * 2


def test_merged_shard_has_two_parents(kinesis, stream, client):
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    kinesis.merge_shards(
        StreamName=stream,
        ShardToMerge="shardId-000000000000",
        AdjacentShardToMerge="shardId-000000000001",
    )
    *parents, child = client.list_shards()
    assert set(child.parents) == {parent.shard_id for parent in parents}
    assert child.hash_range == ("0", str((1 << 128) - 1))


def test_lineage_order_compares_sequence_numbers_as_integers():
    parent = Shard("shardId-9", (), ("0", "1"), "9" + "0" * 54)
    child = Shard("shardId-1", ("shardId-9",), ("0", "1"), "1" + "0" * 55)
    assert in_lineage_order([child, parent]) == [parent, child]


def test_shards_with_the_same_start_are_ordered_by_id():
    later, earlier = (Shard(name, (), ("0", "1"), "7") for name in ("shardId-2", "shardId-1"))
    assert in_lineage_order([later, earlier]) == [earlier, later]


def test_unknown_parents_do_not_count_as_unfinished():
    assert unfinished_parents(("gone", "open", "done"), known={"open", "done"}, finished={"done"}) == (
        "open",
    )


def test_a_list_that_does_not_cover_all_hash_keys_is_incomplete(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=3)
    faults.answer("ListShards", lambda _, response: response.but(Shards=response.members["Shards"][::2]))
    with pytest.raises(ShardListIncomplete, match="hash keys"):
        client.list_shards()


def test_closed_shards_are_marked_as_closed(kinesis, stream, client):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.split_shard(StreamName=stream, ShardToSplit="shardId-000000000000", NewStartingHashKey=MIDDLE)
    assert [shard.closed for shard in client.list_shards()] == [True, False, False]


@pytest.mark.parametrize(
    ("region", "endpoint_url", "is_reported"),
    [
        ("nowhere-1", "https://kinesis.nowhere-1.amazonaws.com", True),
        ("eu-west-1", "https://kinesis.eu-west-1.amazonaws.com", False),
        ("cn-north-1", "https://kinesis.cn-north-1.amazonaws.com.cn", False),
        ("nowhere-1", "http://127.0.0.1:4567", False),
    ],
)
def test_a_connection_error_of_an_unknown_region_suggests_checking_its_name(
    region, endpoint_url, is_reported
):
    meta = SimpleNamespace(region_name=region, endpoint_url=endpoint_url)
    message = _unknown_region(meta, EndpointConnectionError(endpoint_url=endpoint_url))
    assert (region in message, bool(message)) == (is_reported, is_reported)
