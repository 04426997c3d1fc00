"""The calls to one stream: whole answers or an error."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from botocore.exceptions import EndpointConnectionError

from kinesis_assets.errors import CallFailed, InvalidInput, ShardListIncomplete, StreamNotFound
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.sdk_errors import _unknown_region
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.shards import Shard, in_lineage_order, unfinished_parents

MIDDLE = str(1 << 127)


def test_all_pages_of_the_shard_list_are_read_by_token_alone(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=7)
    faults.page_size(3, "ListShards")
    shards = client.list_shards()
    assert [shard.shard_id for shard in shards] == [f"shardId-{number:012}" for number in range(7)]
    first, *others = (call.arguments.keys() for call in faults.calls[1:])
    assert first == {"StreamName"}
    assert others == [{"NextToken"}, {"NextToken"}]


def test_list_of_more_shards_than_a_page_holds_is_whole(kinesis, stream, client, faults):
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
    faults.answer("ListShards", lambda _, answer: answer.but(Shards=[]))
    with pytest.raises(ShardListIncomplete, match=stream):
        client.list_shards()


def test_shard_named_twice_makes_the_list_incomplete(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    faults.answer("ListShards", lambda _, answer: answer.but(Shards=answer.members["Shards"] * 2))
    with pytest.raises(ShardListIncomplete, match="twice"):
        client.list_shards()


@pytest.mark.parametrize("body", [b"{}", b'{"Shards": [{"ShardId": "shar'], ids=["empty", "cut"])
def test_cut_body_of_the_shard_list_is_a_failed_call(kinesis, stream, client, faults, body):
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    faults.answer("ListShards", lambda _, answer: answer.with_body(body))
    with pytest.raises(CallFailed):
        client.list_shards()


def test_cut_body_of_an_iterator_is_a_failed_call(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    faults.cut_body("GetShardIterator")
    with pytest.raises(CallFailed, match="GetShardIterator"):
        client.shard_iterator("shardId-000000000000", Position(PositionKind.TRIM_HORIZON))


def test_cut_body_of_a_description_is_a_failed_call(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    faults.cut_body("DescribeStreamSummary")
    with pytest.raises(CallFailed, match="DescribeStreamSummary"):
        client.describe()


@pytest.mark.parametrize("call", [StreamClient.describe, StreamClient.list_shards])
def test_unknown_stream_is_not_found(client, call):
    with pytest.raises(StreamNotFound, match=client.stream):
        call(client)


def test_unknown_shard_is_a_failed_call_and_not_an_unknown_stream(kinesis, stream, client):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    with pytest.raises(CallFailed) as caught:
        client.shard_iterator("shardId-000000000009", Position(PositionKind.TRIM_HORIZON))
    assert caught.value.code == "ResourceNotFoundException"


def test_unreachable_endpoint_fails_after_six_tries(stream, sdk_waits):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = StreamClient(stream, ClientSettings("us-east-1", f"http://127.0.0.1:{port}"))
    with pytest.raises(CallFailed, match="DescribeStreamSummary failed with EndpointConnectionError"):
        client.describe()
    assert len(sdk_waits) == 5
    assert sum(sdk_waits) <= 31


@pytest.mark.usefixtures("sdk_waits")
@pytest.mark.parametrize(
    "trouble", [("ProvisionedThroughputExceededException", 400), ("InternalFailure", 500)]
)
def test_passing_trouble_is_the_sdks_to_retry(kinesis, stream, client, faults, trouble):
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    faults.answer("ListShards", lambda _, answer: answer.error(*trouble), times=2)
    assert len(client.list_shards()) == 2
    assert faults.count("ListShards") == 3


def test_lasting_trouble_is_a_failed_call(kinesis, stream, client, faults, sdk_waits):
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


def test_description_tells_identity_and_the_services_clock(clocked, stream):
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


def test_shards_of_one_start_are_ordered_by_id():
    later, earlier = (Shard(name, (), ("0", "1"), "7") for name in ("shardId-2", "shardId-1"))
    assert in_lineage_order([later, earlier]) == [earlier, later]


def test_parents_that_were_never_seen_are_not_waited_for():
    assert unfinished_parents(("gone", "open", "done"), known={"open", "done"}, finished={"done"}) == (
        "open",
    )


def test_list_that_leaves_hash_keys_out_is_incomplete(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=3)
    faults.answer("ListShards", lambda _, answer: answer.but(Shards=answer.members["Shards"][::2]))
    with pytest.raises(ShardListIncomplete, match="do not cover all hash keys"):
        client.list_shards()


def test_closed_shards_are_told_from_open_ones(kinesis, stream, client):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.split_shard(StreamName=stream, ShardToSplit="shardId-000000000000", NewStartingHashKey=MIDDLE)
    assert [shard.closed for shard in client.list_shards()] == [True, False, False]


@pytest.mark.parametrize(
    ("region", "endpoint_url", "is_told"),
    [
        ("nowhere-1", "https://kinesis.nowhere-1.amazonaws.com", True),
        ("eu-west-1", "https://kinesis.eu-west-1.amazonaws.com", False),
        ("cn-north-1", "https://kinesis.cn-north-1.amazonaws.com.cn", False),
        ("nowhere-1", "http://127.0.0.1:4567", False),
    ],
)
def test_a_host_that_does_not_answer_for_a_region_that_is_none(region, endpoint_url, is_told):
    meta = SimpleNamespace(region_name=region, endpoint_url=endpoint_url)
    said = _unknown_region(meta, EndpointConnectionError(endpoint_url=endpoint_url))
    assert said == (f". The SDK does not know the region {region}; check its name" if is_told else "")
