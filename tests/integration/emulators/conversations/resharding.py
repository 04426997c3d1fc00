"""On splitting, merging and scaling, and on what is then read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.emulators.talk import HASH_KEYS, shard_id

if TYPE_CHECKING:
    from integration.emulators.talk import Talk


def splitting(talk: Talk) -> None:
    talk.create(1)
    record = talk.name | {"PartitionKey": "k", "Data": b"d"}
    middle = HASH_KEYS // 3
    start = talk.iterator("all")
    latest = talk.iterator("what comes", ShardIteratorType="LATEST")
    talk("PutRecord", "one", **record)
    last = talk("PutRecord", "two", **record)
    talk("SplitShard", **talk.name, ShardToSplit=shard_id(0), NewStartingHashKey=str(middle))
    talk("DescribeStreamSummary", "a moment ago", **talk.name)
    talk.settle()
    talk("DescribeStreamSummary", **talk.name)
    for key in (0, middle - 1, middle, HASH_KEYS - 1):
        talk("PutRecord", f"to {key}", **record, ExplicitHashKey=str(key))
    talk("ListShards", **talk.name)
    talk("DescribeStream", **talk.name)
    page = talk("GetRecords", "one of the parent", ShardIterator=start, Limit=1)
    talk("GetRecords", "the last of the parent", ShardIterator=page["NextShardIterator"])
    talk("GetRecords", "all of the parent", ShardIterator=start)
    talk("GetRecords", "what came to the parent", ShardIterator=latest)
    talk.read("LATEST of the parent", ShardIteratorType="LATEST")
    number = {"StartingSequenceNumber": last["SequenceNumber"]}
    talk.read("past the last of the parent", ShardIteratorType="AFTER_SEQUENCE_NUMBER", **number)
    for child in (1, 2):
        talk.read(f"all of {child}", ShardId=shard_id(child))


def splitting_an_empty_shard(talk: Talk) -> None:
    talk.create(1)
    start = talk.iterator("before")
    talk("SplitShard", **talk.name, ShardToSplit=shard_id(0), NewStartingHashKey=str(HASH_KEYS // 2))
    talk.settle()
    talk("GetRecords", "before", ShardIterator=start)
    for kind in ("TRIM_HORIZON", "LATEST"):
        talk.read(kind, ShardIteratorType=kind)


def splitting_badly(talk: Talk) -> None:
    talk.create(1)
    first = talk.name | {"ShardToSplit": shard_id(0)}
    talk("SplitShard", "no key", **first)
    talk("SplitShard", "no shard", **talk.name, NewStartingHashKey="7")
    talk("SplitShard", "an unknown shard", **first | {"ShardToSplit": shard_id(2)}, NewStartingHashKey="7")
    talk("SplitShard", "a word for a shard", **first | {"ShardToSplit": "first"}, NewStartingHashKey="7")
    talk("SplitShard", "a word for a key", **first, NewStartingHashKey="half")
    talk("SplitShard", "a key out of range", **first, NewStartingHashKey=str(HASH_KEYS))
    talk("ListShards", "no change", **talk.name)


def splitting_at_the_edges(talk: Talk) -> None:
    """A shard at the lowest and the highest key that can be, and others at keys beside them that cannot."""
    talk.create(5)
    fifth = HASH_KEYS // 5
    for note, shard, key in (
        ("the third key", 4, 4 * fifth + 2),
        ("the last key but one", 6, HASH_KEYS - 2),
        ("the first key", 0, 0),
        ("the second key", 1, fifth + 1),
        ("the last key", 2, 3 * fifth - 1),
        ("past the last key", 3, 4 * fifth),
    ):
        talk("SplitShard", note, **talk.name, ShardToSplit=shard_id(shard), NewStartingHashKey=str(key))
        talk.settle()
        talk("ListShards", f"split at {note}", **talk.name)


def splitting_a_closed_shard(talk: Talk) -> None:
    talk.create(1)
    first = talk.name | {"ShardToSplit": shard_id(0)}
    talk("SplitShard", **first, NewStartingHashKey=str(HASH_KEYS // 2))
    talk.settle()
    talk("SplitShard", "again", **first, NewStartingHashKey=str(HASH_KEYS // 3))


def merging(talk: Talk) -> None:
    talk.create(3)
    record = talk.name | {"PartitionKey": "k", "Data": b"d"}
    starts = [talk.iterator(f"all of {parent}", ShardId=shard_id(parent)) for parent in (0, 1)]
    for key in (0, HASH_KEYS // 2):
        talk("PutRecord", f"to {key}", **record, ExplicitHashKey=str(key))
    talk("MergeShards", **talk.name, ShardToMerge=shard_id(0), AdjacentShardToMerge=shard_id(1))
    talk("DescribeStreamSummary", "a moment ago", **talk.name)
    talk.settle()
    talk("DescribeStreamSummary", **talk.name)
    for key in (1, HASH_KEYS // 2 + 1):
        talk("PutRecord", f"to {key}", **record, ExplicitHashKey=str(key))
    talk("ListShards", **talk.name)
    for parent, start in enumerate(starts):
        talk("GetRecords", f"all of {parent}", ShardIterator=start)
    talk.read("all of the child", ShardId=shard_id(3))


def merging_backwards(talk: Talk) -> None:
    """The upper shard is named first."""
    talk.create(3)
    talk("MergeShards", **talk.name, ShardToMerge=shard_id(1), AdjacentShardToMerge=shard_id(0))
    talk.settle()
    talk("ListShards", **talk.name)


def merging_badly(talk: Talk) -> None:
    talk.create(3)
    for note, first, second in (
        ("not adjacent", shard_id(0), shard_id(2)),
        ("one with itself", shard_id(0), shard_id(0)),
        ("an unknown shard", shard_id(3), shard_id(0)),
        ("with an unknown shard", shard_id(0), shard_id(3)),
        ("a word for a shard", "first", shard_id(0)),
        ("no shard id", "a b", shard_id(0)),
    ):
        talk("MergeShards", note, **talk.name, ShardToMerge=first, AdjacentShardToMerge=second)
    talk("MergeShards", "one", **talk.name, ShardToMerge=shard_id(0))
    talk("ListShards", "no change", **talk.name)


def merging_a_closed_shard(talk: Talk) -> None:
    talk.create(3)
    talk("MergeShards", **talk.name, ShardToMerge=shard_id(0), AdjacentShardToMerge=shard_id(1))
    talk.settle()
    talk("MergeShards", "again", **talk.name, ShardToMerge=shard_id(1), AdjacentShardToMerge=shard_id(2))


def resharding_twice_at_once(talk: Talk) -> None:
    talk.create(3)
    talk("SplitShard", **talk.name, ShardToSplit=shard_id(0), NewStartingHashKey="7")
    talk("MergeShards", "at once", **talk.name, ShardToMerge=shard_id(1), AdjacentShardToMerge=shard_id(2))


def scaling(talk: Talk) -> None:
    talk.create(3)
    for note, count in {"up": 5, "down": 3, "nowhere": 3}.items():
        evenly = {"TargetShardCount": count, "ScalingType": "UNIFORM_SCALING"}
        talk("UpdateShardCount", note, **talk.name, **evenly)
        talk.settle()
        talk("DescribeStreamSummary", note, **talk.name)
        talk("ListShards", note, **talk.name)


def scaling_badly(talk: Talk) -> None:
    talk.create(3)
    evenly = talk.name | {"ScalingType": "UNIFORM_SCALING"}
    talk("UpdateShardCount", "to more than double", **evenly, TargetShardCount=7)
    talk("UpdateShardCount", "to none", **evenly, TargetShardCount=0)
    talk("UpdateShardCount", "to nothing", **evenly)
    talk("UpdateShardCount", "anyhow", **evenly | {"ScalingType": "ANYHOW"}, TargetShardCount=4)
    talk("ListShards", "no change", **talk.name)
    talk("UpdateShardCount", "to less than half", **evenly, TargetShardCount=1)
