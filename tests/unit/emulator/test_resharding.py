"""SplitShard, MergeShards and UpdateShardCount."""

import pytest


def keys(shard):
    return int(shard["HashKeyRange"]["StartingHashKey"]), int(shard["HashKeyRange"]["EndingHashKey"])


def sequence(shard, end="StartingSequenceNumber"):
    return int(shard["SequenceNumberRange"][end])


def open_ranges(stream):
    return sorted(keys(shard) for shard in stream.shards("AT_LATEST"))


def even_ranges(count):
    width = 2**128 // count
    ends = [width * i for i in range(1, count)] + [2**128]
    return [(width * i, end - 1) for i, end in enumerate(ends)]


def parents_of(stream):
    return {
        shard["ShardId"][-1]: [
            shard[name][-1] for name in ("ParentShardId", "AdjacentParentShardId") if name in shard
        ]
        for shard in stream.shards()
    }


def test_the_children_of_a_split_share_the_hash_keys_of_their_parent(stream):
    stream.split(at=1000)
    parent, lower, upper = stream.shards()
    assert keys(lower) == (0, 999)
    assert keys(upper) == (1000, keys(parent)[1])
    assert parents_of(stream) == {"0": [], "1": ["0"], "2": ["0"]}


def test_the_child_of_a_merge_has_the_hash_keys_and_names_of_both_parents(create):
    stream = create(3)
    stream.merge(1, 2)
    child = stream.shard(3)
    assert keys(child) == (keys(stream.shard(1))[0], keys(stream.shard(2))[1])
    assert parents_of(stream) == {"0": [], "1": [], "2": [], "3": ["1", "2"]}


def test_a_split_closes_the_parent_above_its_last_record(stream):
    number = int(stream.put(b"")["SequenceNumber"])
    stream.split()
    parent, *children = stream.shards()
    assert sequence(parent, "EndingSequenceNumber") > number
    assert all("EndingSequenceNumber" not in child["SequenceNumberRange"] for child in children)


def test_sequence_numbers_of_children_are_above_all_of_their_parents(create):
    stream = create(2)
    stream.split(0)
    stream.merge(3, 1)
    shards = {shard["ShardId"]: shard for shard in stream.shards()}
    for child in shards.values():
        for name in ("ParentShardId", "AdjacentParentShardId"):
            if name in child:
                assert sequence(child) > sequence(shards[child[name]], "EndingSequenceNumber")


def test_sequence_numbers_grow_across_reshards_within_a_second_and_beyond_16_shards(create):
    stream = create(15)
    stream.split(14)
    stream.split(15)
    grandparent, parent, child = (stream.shard(number) for number in (14, 15, 17))
    assert sequence(parent) > sequence(grandparent, "EndingSequenceNumber")
    assert sequence(child) > sequence(parent, "EndingSequenceNumber")


def test_records_before_a_split_stay_in_the_parent_and_those_after_go_to_children(stream):
    stream.put(b"before", ExplicitHashKey="0")
    stream.split()
    put = stream.put(b"after", ExplicitHashKey="0")
    assert put["ShardId"] == "shardId-000000000001"
    assert (stream.data(0), stream.data(1), stream.data(2)) == ([b"before"], [b"after"], [])


def test_records_before_a_merge_stay_in_the_parents_and_those_after_go_to_the_child(create):
    stream = create(2)
    for shard in stream.shards():
        stream.put_to(shard, b"before")
    stream.merge(0, 1)
    stream.put(b"after")
    assert [stream.data(number) for number in range(3)] == [[b"before"], [b"before"], [b"after"]]


def test_the_page_with_the_last_record_of_a_closed_shard_ends_it_and_names_the_children(stream):
    stream.put(b"last")
    stream.split(at=1000)
    page = stream.page()
    assert [record["Data"] for record in page["Records"]] == [b"last"]
    assert "NextShardIterator" not in page
    assert page["MillisBehindLatest"] == 0
    lower, upper = page["ChildShards"]
    assert lower == {
        "ShardId": "shardId-000000000001",
        "ParentShards": ["shardId-000000000000"],
        "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "999"},
    }
    assert upper["ShardId"] == "shardId-000000000002"


def test_a_page_before_the_end_of_a_closed_shard_names_no_children(stream):
    stream.put(b"one")
    stream.put(b"two")
    stream.split()
    page = stream.page(Limit=1)
    assert page["NextShardIterator"]
    assert "ChildShards" not in page


def test_a_read_at_the_end_of_a_closed_shard_is_empty_and_names_the_children(create):
    stream = create(2)
    tip = stream.page()["NextShardIterator"]
    stream.merge(0, 1)
    page = stream.page(tip)
    assert page["Records"] == []
    assert "NextShardIterator" not in page
    assert [(child["ShardId"], child["ParentShards"]) for child in page["ChildShards"]] == [
        ("shardId-000000000002", ["shardId-000000000000", "shardId-000000000001"])
    ]


def test_latest_of_a_closed_shard_is_its_end(stream):
    stream.put(b"one")
    stream.split()
    page = stream.page(stream.iterator("LATEST"))
    assert page["Records"] == []
    assert "NextShardIterator" not in page


@pytest.mark.parametrize("at", [0, 1, 2**128 - 1])
def test_a_split_at_the_edge_of_a_shard_is_refused(stream, refused, at):
    with refused("InvalidArgumentException", "NewStartingHashKey"):
        stream.split(at=at)


def test_shards_that_are_not_adjacent_cannot_be_merged(create, refused):
    stream = create(3)
    with refused("InvalidArgumentException", "not an adjacent pair"):
        stream.merge(0, 2)
    with refused("InvalidArgumentException", "not an adjacent pair"):
        stream.merge(0, 0)
    with refused("InvalidArgumentException", "not an adjacent pair"):
        stream.merge(1, 0)  # the lower one goes first
    assert stream.numbers() == [0, 1, 2]


def test_a_closed_shard_can_be_neither_split_nor_merged(create, refused):
    stream = create(2)
    stream.split(0)
    with refused("InvalidArgumentException", "already been merged or split"):
        stream.split(0)
    with refused("InvalidArgumentException", "already been merged or split"):
        stream.merge(0, 1)
    assert stream.numbers("AT_LATEST") == [1, 2, 3]


def test_an_unknown_shard_can_be_neither_split_nor_merged(stream, client, refused):
    with refused("ResourceNotFoundException", "shardId-000000000009"):
        client.split_shard(
            StreamName=stream.name, ShardToSplit="shardId-000000000009", NewStartingHashKey="1000"
        )
    with refused("ResourceNotFoundException", "shardId-000000000009"):
        stream.merge(0, 9)


@pytest.mark.parametrize(
    ("count", "target"), [(1, 2), (2, 4), (2, 3), (3, 5), (4, 2), (5, 3), (3, 2), (2, 1)]
)
def test_uniform_scaling_leaves_even_open_shards(create, count, target):
    stream = create(count)
    response = stream.scale(target)
    assert (response["CurrentShardCount"], response["TargetShardCount"]) == (count, target)
    assert response["StreamName"] == stream.name
    assert response["StreamARN"] == stream.arn
    assert open_ranges(stream) == even_ranges(target)


def test_doubling_splits_every_shard_once(create):
    stream = create(2)
    stream.scale(4)
    assert parents_of(stream) == {"0": [], "1": [], "2": ["0"], "3": ["0"], "4": ["1"], "5": ["1"]}


def test_halving_merges_every_pair_once(create):
    stream = create(4)
    stream.scale(2)
    assert parents_of(stream) == {"0": [], "1": [], "2": [], "3": [], "4": ["0", "1"], "5": ["2", "3"]}


def test_scaling_by_other_factors_splits_shards_and_then_merges_the_parts(create):
    stream = create(2)
    stream.scale(3)
    assert parents_of(stream) == {
        "0": [], "1": [], "2": ["0"], "3": ["0"], "4": ["1"], "5": ["1"], "6": ["3", "4"],
    }  # fmt: skip


def test_scaling_to_the_current_count_changes_nothing(create):
    stream = create(3)
    stream.scale(3)
    assert stream.numbers() == [0, 1, 2]


def test_uneven_shards_are_evened_out(stream):
    stream.split(at=1000)
    stream.scale(2)
    assert open_ranges(stream) == even_ranges(2)


@pytest.mark.parametrize(("count", "target"), [(2, 5), (5, 2)])
def test_one_scaling_can_at_most_double_or_halve_the_shard_count(create, refused, count, target):
    stream = create(count)
    with refused("LimitExceededException", f"is {count}"):
        stream.scale(target)


def test_records_stay_readable_across_several_reshards(create):
    stream = create(1)
    expected = []
    for target in (2, 3, 2, 1):
        data = [b"%d to %d" % (target, i) for i in range(20)]
        expected += data
        for i, each in enumerate(data):
            stream.put(each, f"key {i}")
        stream.scale(target)
    read = [record for number in stream.numbers() for record in stream.data(number)]
    assert sorted(read) == sorted(expected)
