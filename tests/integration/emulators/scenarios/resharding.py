"""Scenarios that split, merge and scale, and then read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.emulators.recorded_api import HASH_KEYS, shard_id

if TYPE_CHECKING:
    from integration.emulators.recorded_api import RecordedApi


def splitting(api: RecordedApi) -> None:
    api.create(1)
    record = api.name | {"PartitionKey": "k", "Data": b"d"}
    middle = HASH_KEYS // 3
    start = api.iterator("all")
    latest = api.iterator("new records", ShardIteratorType="LATEST")
    api("PutRecord", "one", **record)
    last = api("PutRecord", "two", **record)
    api("SplitShard", **api.name, ShardToSplit=shard_id(0), NewStartingHashKey=str(middle))
    api("DescribeStreamSummary", "a moment ago", **api.name)
    api.settle()
    api("DescribeStreamSummary", **api.name)
    for key in (0, middle - 1, middle, HASH_KEYS - 1):
        api("PutRecord", f"to {key}", **record, ExplicitHashKey=str(key))
    api("ListShards", **api.name)
    api("DescribeStream", **api.name)
    page = api("GetRecords", "one of the parent", ShardIterator=start, Limit=1)
    api("GetRecords", "the last of the parent", ShardIterator=page["NextShardIterator"])
    api("GetRecords", "all of the parent", ShardIterator=start)
    api("GetRecords", "new records of the parent", ShardIterator=latest)
    api.read("LATEST of the parent", ShardIteratorType="LATEST")
    number = {"StartingSequenceNumber": last["SequenceNumber"]}
    api.read("past the last of the parent", ShardIteratorType="AFTER_SEQUENCE_NUMBER", **number)
    for child in (1, 2):
        api.read(f"all of {child}", ShardId=shard_id(child))


def splitting_an_empty_shard(api: RecordedApi) -> None:
    api.create(1)
    start = api.iterator("before")
    api("SplitShard", **api.name, ShardToSplit=shard_id(0), NewStartingHashKey=str(HASH_KEYS // 2))
    api.settle()
    api("GetRecords", "before", ShardIterator=start)
    for kind in ("TRIM_HORIZON", "LATEST"):
        api.read(kind, ShardIteratorType=kind)


def splitting_with_invalid_arguments(api: RecordedApi) -> None:
    api.create(1)
    first = api.name | {"ShardToSplit": shard_id(0)}
    api("SplitShard", "no key", **first)
    api("SplitShard", "no shard", **api.name, NewStartingHashKey="7")
    api("SplitShard", "an unknown shard", **first | {"ShardToSplit": shard_id(2)}, NewStartingHashKey="7")
    api("SplitShard", "a word for a shard", **first | {"ShardToSplit": "first"}, NewStartingHashKey="7")
    api("SplitShard", "a word for a key", **first, NewStartingHashKey="half")
    api("SplitShard", "a key out of range", **first, NewStartingHashKey=str(HASH_KEYS))
    api("ListShards", "no change", **api.name)


def splitting_at_the_edges(api: RecordedApi) -> None:
    """Splits at the lowest and the highest valid keys, and at invalid keys next to them."""
    api.create(5)
    fifth = HASH_KEYS // 5
    for note, shard, key in (
        ("the third key", 4, 4 * fifth + 2),
        ("the last key but one", 6, HASH_KEYS - 2),
        ("the first key", 0, 0),
        ("the second key", 1, fifth + 1),
        ("the last key", 2, 3 * fifth - 1),
        ("past the last key", 3, 4 * fifth),
    ):
        api("SplitShard", note, **api.name, ShardToSplit=shard_id(shard), NewStartingHashKey=str(key))
        api.settle()
        api("ListShards", f"split at {note}", **api.name)


def splitting_a_closed_shard(api: RecordedApi) -> None:
    api.create(1)
    first = api.name | {"ShardToSplit": shard_id(0)}
    api("SplitShard", **first, NewStartingHashKey=str(HASH_KEYS // 2))
    api.settle()
    api("SplitShard", "again", **first, NewStartingHashKey=str(HASH_KEYS // 3))


def merging(api: RecordedApi) -> None:
    api.create(3)
    record = api.name | {"PartitionKey": "k", "Data": b"d"}
    starts = [api.iterator(f"all of {parent}", ShardId=shard_id(parent)) for parent in (0, 1)]
    for key in (0, HASH_KEYS // 2):
        api("PutRecord", f"to {key}", **record, ExplicitHashKey=str(key))
    api("MergeShards", **api.name, ShardToMerge=shard_id(0), AdjacentShardToMerge=shard_id(1))
    api("DescribeStreamSummary", "a moment ago", **api.name)
    api.settle()
    api("DescribeStreamSummary", **api.name)
    for key in (1, HASH_KEYS // 2 + 1):
        api("PutRecord", f"to {key}", **record, ExplicitHashKey=str(key))
    api("ListShards", **api.name)
    for parent, start in enumerate(starts):
        api("GetRecords", f"all of {parent}", ShardIterator=start)
    api.read("all of the child", ShardId=shard_id(3))


def merging_backwards(api: RecordedApi) -> None:
    """A merge that names the upper shard first."""
    api.create(3)
    api("MergeShards", **api.name, ShardToMerge=shard_id(1), AdjacentShardToMerge=shard_id(0))
    api.settle()
    api("ListShards", **api.name)


def merging_with_invalid_arguments(api: RecordedApi) -> None:
    api.create(3)
    for note, first, second in (
        ("not adjacent", shard_id(0), shard_id(2)),
        ("one with itself", shard_id(0), shard_id(0)),
        ("an unknown shard", shard_id(3), shard_id(0)),
        ("with an unknown shard", shard_id(0), shard_id(3)),
        ("a word for a shard", "first", shard_id(0)),
        ("no shard id", "a b", shard_id(0)),
    ):
        api("MergeShards", note, **api.name, ShardToMerge=first, AdjacentShardToMerge=second)
    api("MergeShards", "one", **api.name, ShardToMerge=shard_id(0))
    api("ListShards", "no change", **api.name)


def merging_a_closed_shard(api: RecordedApi) -> None:
    api.create(3)
    api("MergeShards", **api.name, ShardToMerge=shard_id(0), AdjacentShardToMerge=shard_id(1))
    api.settle()
    api("MergeShards", "again", **api.name, ShardToMerge=shard_id(1), AdjacentShardToMerge=shard_id(2))


def resharding_twice_at_once(api: RecordedApi) -> None:
    api.create(3)
    api("SplitShard", **api.name, ShardToSplit=shard_id(0), NewStartingHashKey="7")
    api("MergeShards", "at once", **api.name, ShardToMerge=shard_id(1), AdjacentShardToMerge=shard_id(2))


def scaling(api: RecordedApi) -> None:
    api.create(3)
    for note, count in {"up": 5, "down": 3, "nowhere": 3}.items():
        evenly = {"TargetShardCount": count, "ScalingType": "UNIFORM_SCALING"}
        api("UpdateShardCount", note, **api.name, **evenly)
        api.settle()
        api("DescribeStreamSummary", note, **api.name)
        api("ListShards", note, **api.name)


def scaling_with_invalid_arguments(api: RecordedApi) -> None:
    api.create(3)
    evenly = api.name | {"ScalingType": "UNIFORM_SCALING"}
    api("UpdateShardCount", "to more than double", **evenly, TargetShardCount=7)
    api("UpdateShardCount", "to none", **evenly, TargetShardCount=0)
    api("UpdateShardCount", "to nothing", **evenly)
    api("UpdateShardCount", "an unknown type", **evenly | {"ScalingType": "ANYHOW"}, TargetShardCount=4)
    api("ListShards", "no change", **api.name)
    api("UpdateShardCount", "to less than half", **evenly, TargetShardCount=1)
