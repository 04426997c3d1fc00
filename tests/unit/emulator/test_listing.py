"""ListShards: pagination, tokens and shard filters."""

from datetime import UTC, datetime

import pytest


def at(moment):
    return datetime.fromtimestamp(moment, UTC)


@pytest.fixture
def split_at(create, clock):
    """A stream of two shards, and the time one minute later at which the first of them was split."""
    stream = create(2)
    clock.advance(60)
    moment = clock()
    stream.split(0)
    clock.advance(60)
    return stream, moment


def pages(client, stream, size, **more):
    """Request all pages with NextToken only."""
    page = client.list_shards(StreamName=stream.name, MaxResults=size, **more)
    listed = [page["Shards"]]
    while "NextToken" in page:
        page = client.list_shards(NextToken=page["NextToken"], MaxResults=size)
        listed.append(page["Shards"])
    return [[int(shard["ShardId"][-12:]) for shard in shards] for shards in listed]


def test_every_shard_is_listed_by_shard_id(split_at):
    stream, _ = split_at
    assert stream.numbers() == [0, 1, 2, 3]


def test_pages_are_requested_with_the_token_only(create, client):
    assert pages(client, create(5), 2) == [[0, 1], [2, 3], [4]]


def test_a_full_last_page_has_no_token(create, client):
    assert pages(client, create(4), 2) == [[0, 1], [2, 3]]


def test_a_page_holds_1000_shards(create, client):
    stream = create(1001)
    page = client.list_shards(StreamName=stream.name, MaxResults=10_000)
    assert len(page["Shards"]) == 1000
    assert len(client.list_shards(NextToken=page["NextToken"])["Shards"]) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("StreamName", "any"),
        ("StreamARN", "arn:aws:kinesis:us-east-1:000000000000:stream/any"),
        ("StreamCreationTimestamp", at(0)),
        ("ExclusiveStartShardId", "shardId-000000000000"),
        ("ShardFilter", {"Type": "AT_LATEST"}),
    ],
)
def test_a_token_cannot_be_combined_with_a_stream_or_shards(create, client, refused, name, value):
    token = client.list_shards(StreamName=create(2).name, MaxResults=1)["NextToken"]
    with refused("InvalidArgumentException", f"NextToken and {name} cannot be provided together."):
        client.list_shards(NextToken=token, **{name: value})


def test_neither_token_nor_stream_is_refused(client, refused):
    with refused("InvalidArgumentException", "Either NextToken or StreamName should be provided."):
        client.list_shards()


def test_a_token_is_valid_for_300_seconds(create, client, clock, refused):
    token = client.list_shards(StreamName=create(2).name, MaxResults=1)["NextToken"]
    clock.advance(300)
    client.list_shards(NextToken=token)
    clock.advance(0.001)
    with refused("ExpiredNextTokenException"):
        client.list_shards(NextToken=token)


def test_each_page_renews_the_token(create, client, clock):
    page = client.list_shards(StreamName=create(4).name, MaxResults=1)
    for _ in range(3):
        clock.advance(200)
        page = client.list_shards(NextToken=page["NextToken"], MaxResults=1)
    assert page["Shards"][0]["ShardId"] == "shardId-000000000003"


@pytest.mark.parametrize("token", ["nonsense", "AAAA"])
def test_an_invalid_token_is_refused(client, refused, token):
    with refused("InvalidArgumentException", "Invalid NextToken."):
        client.list_shards(NextToken=token)


def test_a_token_does_not_outlive_its_stream(create, client, refused):
    stream = create(2)
    token = client.list_shards(StreamName=stream.name, MaxResults=1)["NextToken"]
    client.delete_stream(StreamName=stream.name)
    client.create_stream(StreamName=stream.name, ShardCount=2)
    with refused("ResourceNotFoundException"):
        client.list_shards(NextToken=token)


def test_the_exclusive_start_is_not_listed(create, client):
    stream = create(4)
    listed = pages(client, stream, 2, ExclusiveStartShardId="shardId-000000000000")
    assert listed == [[1, 2], [3]]


def test_the_creation_timestamp_distinguishes_streams_of_the_same_name(stream, client, clock, refused):
    created = client.describe_stream(StreamName=stream.name)["StreamDescription"]["StreamCreationTimestamp"]
    clock.advance(10)
    client.delete_stream(StreamName=stream.name)
    client.create_stream(StreamName=stream.name, ShardCount=1)
    with refused("ResourceNotFoundException"):
        client.list_shards(StreamName=stream.name, StreamCreationTimestamp=created)
    created = client.describe_stream(StreamName=stream.name)["StreamDescription"]["StreamCreationTimestamp"]
    assert client.list_shards(StreamName=stream.name, StreamCreationTimestamp=created)["Shards"]


def test_after_shard_id_lists_the_shards_that_follow(split_at):
    stream, _ = split_at
    assert stream.numbers("AFTER_SHARD_ID", ShardId="shardId-000000000001") == [2, 3]


def test_at_trim_horizon_lists_the_shards_that_were_open_then(split_at):
    stream, _ = split_at
    assert stream.numbers("AT_TRIM_HORIZON") == [0, 1]


def test_from_trim_horizon_lists_everything(split_at):
    stream, _ = split_at
    assert stream.numbers("FROM_TRIM_HORIZON") == [0, 1, 2, 3]


def test_at_latest_lists_the_open_shards(split_at):
    stream, _ = split_at
    assert stream.numbers("AT_LATEST") == [1, 2, 3]


def test_at_latest_excludes_a_shard_closed_in_this_millisecond(stream):
    stream.split()
    assert stream.numbers("AT_LATEST") == [1, 2]


def test_at_timestamp_lists_the_shards_that_were_open_then(split_at):
    stream, moment = split_at
    assert stream.numbers("AT_TIMESTAMP", Timestamp=at(moment - 10)) == [0, 1]
    assert stream.numbers("AT_TIMESTAMP", Timestamp=at(moment + 10)) == [1, 2, 3]


def test_from_timestamp_lists_the_shards_that_were_open_then_or_opened_later(split_at):
    stream, moment = split_at
    assert stream.numbers("FROM_TIMESTAMP", Timestamp=at(moment - 10)) == [0, 1, 2, 3]
    assert stream.numbers("FROM_TIMESTAMP", Timestamp=at(moment + 10)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("shard_filter", "numbers"),
    [
        ({"Type": "AFTER_SHARD_ID", "ShardId": "shardId-000000000000"}, [[1], [2], [3]]),
        ({"Type": "AT_TRIM_HORIZON"}, [[0], [1]]),
        ({"Type": "FROM_TRIM_HORIZON"}, [[0], [1], [2], [3]]),
        ({"Type": "AT_LATEST"}, [[1], [2], [3]]),
        ({"Type": "AT_TIMESTAMP", "Timestamp": at(0)}, [[0], [1]]),
        ({"Type": "FROM_TIMESTAMP", "Timestamp": at(0)}, [[0], [1], [2], [3]]),
    ],
)
def test_a_filter_applies_to_all_pages(split_at, client, shard_filter, numbers):
    stream, _ = split_at
    assert pages(client, stream, 1, ShardFilter=shard_filter) == numbers


def test_a_reshard_between_pages_hides_no_shard(create, client):
    stream = create(2)
    page = client.list_shards(StreamName=stream.name, MaxResults=1, ShardFilter={"Type": "AT_LATEST"})
    stream.split(1)
    rest = client.list_shards(NextToken=page["NextToken"])["Shards"]
    assert [shard["ShardId"] for shard in rest] == ["shardId-000000000001"]


@pytest.mark.parametrize(
    "shard_filter",
    [
        {"Type": "AFTER_SHARD_ID"},
        {"Type": "AT_TIMESTAMP"},
        {"Type": "FROM_TIMESTAMP"},
        {"Type": "AT_LATEST", "ShardId": "shardId-000000000000"},
        {"Type": "AT_TRIM_HORIZON", "Timestamp": at(0)},
    ],
)
def test_a_filter_without_its_value_or_with_the_value_of_another_is_refused(
    stream, client, refused, shard_filter
):
    with refused("InvalidArgumentException", shard_filter["Type"]):
        client.list_shards(StreamName=stream.name, ShardFilter=shard_filter)
