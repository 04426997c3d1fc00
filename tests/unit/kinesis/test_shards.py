"""Listing shards: pagination, failures of a page, and incomplete lists."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from kinesis_assets.errors import CallFailed, ShardListIncomplete
from kinesis_assets.kinesis.stream import Shard, covers_all_hash_keys, in_lineage_order

MIDDLE = 1 << 127
LAST_KEY = (1 << 128) - 1


def shard_of(shard_id, start="1", parents=(), hash_range=("0", "9"), *, closed=False):
    return Shard(shard_id, parents, hash_range, start, closed)


def on_later_pages(change):
    """Change the responses to calls with a token."""
    return lambda call, response: change(response) if "NextToken" in call.arguments else None


# Pages


def test_each_of_thousands_of_shards_is_listed_once(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=2500)
    listed = [shard.shard_id for shard in client.list_shards()]
    assert sorted(listed) == [f"shardId-{number:012}" for number in range(2500)]
    assert faults.count("ListShards") == 3


@pytest.mark.parametrize("size", [1, 2, 5, 6, 7])
def test_the_page_size_does_not_change_the_list(kinesis, stream, client, faults, size):
    kinesis.create_stream(StreamName=stream, ShardCount=3)
    kinesis.update_shard_count(StreamName=stream, TargetShardCount=2, ScalingType="UNIFORM_SCALING")
    whole = client.list_shards()
    assert len(whole) > 5
    faults.page_size(size, "ListShards")
    assert client.list_shards() == whole


def test_an_empty_page_with_a_token_is_not_the_last_page(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=4)
    held = []

    def first_page_late(call, response):
        if "NextToken" in call.arguments:
            return response.but(Shards=held + response.members["Shards"])
        held.extend(response.members["Shards"])
        return response.but(Shards=[])

    faults.page_size(2, "ListShards")
    faults.answer("ListShards", first_page_late)
    assert len(client.list_shards()) == 4


def test_a_shard_that_was_split_between_two_pages_is_listed_with_its_children(
    kinesis, stream, client, faults
):
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    first, second = client.list_shards()

    def split():
        key = str(int(second.hash_range[0]) + (1 << 64))
        kinesis.split_shard(StreamName=stream, ShardToSplit=second.shard_id, NewStartingHashKey=key)

    faults.page_size(1, "ListShards")
    faults.before("ListShards", split, after=1, times=1)
    listed = client.list_shards()
    assert [shard.shard_id for shard in listed[:2]] == [first.shard_id, second.shard_id]
    assert [shard.parents for shard in listed[2:]] == [(second.shard_id,)] * 2


# Pages that fail


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda response: response.error("ExpiredNextTokenException"), "ExpiredNextTokenException"),
        (lambda response: response.error("ResourceNotFoundException"), "ResourceNotFoundException"),
        (lambda response: response.error("AccessDeniedException"), "AccessDeniedException"),
        (lambda response: response.error("LimitExceededException"), "LimitExceededException"),
        (lambda response: response.error("InternalFailure", 500), "InternalFailure"),
        (lambda response: response.with_body(b'{"Shards": [{"ShardId"'), "IncompleteBody"),
        (lambda response: response.with_body(b"{}"), "IncompleteBody"),
    ],
    ids=["expired", "not found", "denied", "throttled", "failure", "truncated body", "empty object"],
)
@pytest.mark.usefixtures("sdk_waits")
def test_a_permanent_failure_of_a_later_page_fails_the_whole_list(
    kinesis, stream, client, faults, change, code
):
    kinesis.create_stream(StreamName=stream, ShardCount=5)
    faults.page_size(2, "ListShards")
    faults.answer("ListShards", on_later_pages(change))
    with pytest.raises(CallFailed, match=stream) as caught:
        client.list_shards()
    assert (caught.value.operation, caught.value.code) == ("ListShards", code)


@pytest.mark.usefixtures("sdk_waits")
def test_a_throttled_later_page_is_retried_with_its_token(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=3)
    faults.page_size(2, "ListShards")
    faults.throttle("ListShards", code="LimitExceededException", after=1, times=3)
    assert len(client.list_shards()) == 3
    asked = [set(call.arguments) for call in faults.calls if call.operation == "ListShards"]
    assert asked == [{"StreamName"}, *[{"NextToken"}] * 4]


def test_a_stream_recreated_between_two_pages_fails_the_list(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=3)
    faults.page_size(2, "ListShards")
    faults.before("ListShards", lambda: faults.recreate(stream), after=1, times=1)
    with pytest.raises(CallFailed, match="ListShards"):
        client.list_shards()


def test_a_missing_token_makes_the_list_incomplete(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=5)
    faults.page_size(2, "ListShards")
    faults.answer("ListShards", lambda _, response: response.but(NextToken=None))
    with pytest.raises(ShardListIncomplete, match="hash keys"):
        client.list_shards()


@pytest.mark.parametrize("empty", [False, True])
def test_repeated_tokens_are_not_followed_forever(kinesis, stream, client, faults, empty):
    kinesis.create_stream(StreamName=stream, ShardCount=4)
    tokens = []

    def back_to_page_two(_, response):
        tokens.append(response.members.get("NextToken"))
        response = response.but(NextToken=tokens[0])
        return response.but(Shards=[]) if empty and len(tokens) > 1 else response

    faults.page_size(2, "ListShards")
    faults.answer("ListShards", back_to_page_two, times=20)
    with pytest.raises(ShardListIncomplete, match="NextToken"):
        client.list_shards()
    assert faults.count("ListShards") == 2


def test_a_repeated_page_makes_the_list_incomplete(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=4)
    pages = []

    def first_again(_, response):
        pages.append(response.members["Shards"])
        return response.but(Shards=pages[0])

    faults.page_size(2, "ListShards")
    faults.answer("ListShards", first_again)
    with pytest.raises(ShardListIncomplete, match="twice"):
        client.list_shards()


def test_a_list_of_only_closed_shards_is_incomplete(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.split_shard(
        StreamName=stream, ShardToSplit="shardId-000000000000", NewStartingHashKey=str(MIDDLE)
    )
    faults.answer("ListShards", lambda _, response: response.but(Shards=response.members["Shards"][:1]))
    with pytest.raises(ShardListIncomplete, match="hash keys"):
        client.list_shards()


# Numeric order


def test_lineage_order_holds_for_sequence_numbers_of_different_lengths():
    starts = ["9", "10", "99", "100", "9" * 55, "1" + "0" * 55]
    line = [
        shard_of(f"shardId-{len(starts) - number}", start, (f"shardId-{len(starts) - number + 1}",))
        for number, start in enumerate(starts)
    ]
    assert in_lineage_order(sorted(line, key=lambda shard: shard.shard_id)) == line


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_hash_keys_are_compared_as_numbers(order):
    ranges = [("0", "8"), ("9", "99"), ("100", str(LAST_KEY))]
    assert covers_all_hash_keys([shard_of(f"shardId-{place}", hash_range=ranges[place]) for place in order])


@pytest.mark.parametrize(
    "ranges",
    [
        [],
        [("1", str(LAST_KEY))],
        [("0", str(LAST_KEY - 1))],
        [("0", "8"), ("10", str(LAST_KEY))],
        [("0", "8"), ("100", str(LAST_KEY)), ("9", "98")],
    ],
    ids=[
        "no shards",
        "first key",
        "last key",
        "key in the middle",
        "key between numbers of different length",
    ],
)
def test_a_gap_in_the_hash_keys_of_open_shards_is_detected(ranges):
    shards = [shard_of(f"shardId-{number}", hash_range=keys) for number, keys in enumerate(ranges)]
    assert not covers_all_hash_keys(shards)


@pytest.mark.parametrize("closed", list(product([False, True], repeat=2))[1:])
def test_closed_shards_cover_no_hash_keys(closed):
    halves = [("0", str(MIDDLE - 1)), (str(MIDDLE), str(LAST_KEY))]
    shards = [
        shard_of(f"shardId-{number}", hash_range=half, closed=is_closed)
        for number, (half, is_closed) in enumerate(zip(halves, closed, strict=True))
    ]
    assert not covers_all_hash_keys(shards)


def test_overlapping_shards_cover_all_hash_keys():
    shards = [
        shard_of("shardId-0", hash_range=("0", str(LAST_KEY))),
        shard_of("shardId-1", hash_range=("0", str(MIDDLE - 1))),
        shard_of("shardId-2", hash_range=(str(MIDDLE), str(LAST_KEY))),
    ]
    assert covers_all_hash_keys(shards)
