"""On lists of shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.emulators.talk import DAY, GARBAGE, HASH_KEYS, moment, shard_id

if TYPE_CHECKING:
    from integration.emulators.talk import Talk


def listing_shards(talk: Talk) -> None:
    talk.create(5)
    talk("ListShards", "all", **talk.name)
    page = talk("ListShards", "two", **talk.name, MaxResults=2)
    token = talk("ListShards", "two more", NextToken=page["NextToken"], MaxResults=2)["NextToken"]
    talk("ListShards", "the rest", NextToken=token)
    talk("ListShards", "exactly all", **talk.name, MaxResults=5)
    talk("ListShards", "after the third", **talk.name, ExclusiveStartShardId=shard_id(2))
    talk("ListShards", "after one that is not there", **talk.name, ExclusiveStartShardId=shard_id(7))
    talk("ListShards", "no results at all", **talk.name, MaxResults=0)
    talk("ListShards", "too many results", **talk.name, MaxResults=10_001)
    talk("ListShards", "garbage for a token", NextToken=GARBAGE)
    talk("ListShards", "a token and a name", NextToken=token, **talk.name)
    talk("ListShards", "a token and a start", NextToken=token, ExclusiveStartShardId=shard_id(2))


def listing_shards_of_a_creation(talk: Talk) -> None:
    talk.create(1)
    told = talk("DescribeStreamSummary", **talk.name)["StreamDescriptionSummary"]["StreamCreationTimestamp"]
    talk("ListShards", "of that time", **talk.name, StreamCreationTimestamp=told)
    talk("ListShards", "of another time", **talk.name, StreamCreationTimestamp=moment(talk.now - DAY))


def describing_shards(talk: Talk) -> None:
    talk.create(3)
    talk("DescribeStream", "two", **talk.name, Limit=2)
    talk("DescribeStream", "the rest", **talk.name, ExclusiveStartShardId=shard_id(1))
    talk("DescribeStream", "no limit at all", **talk.name, Limit=0)
    talk("DescribeStream", "too high a limit", **talk.name, Limit=10_001)
    talk("DescribeStream", "after no shard id", **talk.name, ExclusiveStartShardId="a b")


def filtering_shards(talk: Talk) -> None:
    """The lineage 0 -> 3, 4 and 4 + 1 -> 5 beside 2, seen from every time."""
    talk.create(3)
    moments = {"before all": talk.now - DAY / 2, "in the beginning": talk.now}
    talk("SplitShard", **talk.name, ShardToSplit=shard_id(0), NewStartingHashKey=str(HASH_KEYS // 4))
    talk.settle()
    moments["between"] = talk.now
    talk("MergeShards", **talk.name, ShardToMerge=shard_id(4), AdjacentShardToMerge=shard_id(1))
    talk.settle()
    moments["in the end"] = talk.now
    talk("ListShards", "all", **talk.name)
    for kind in ("AT_TRIM_HORIZON", "FROM_TRIM_HORIZON", "AT_LATEST"):
        talk("ListShards", kind, **talk.name, ShardFilter={"Type": kind})
    for kind in ("AT_TIMESTAMP", "FROM_TIMESTAMP"):
        for when, seconds in moments.items():
            shard_filter = {"Type": kind, "Timestamp": moment(seconds)}
            talk("ListShards", f"{kind} {when}", **talk.name, ShardFilter=shard_filter)
    after = {"Type": "AFTER_SHARD_ID", "ShardId": shard_id(2)}
    talk("ListShards", "AFTER_SHARD_ID", **talk.name, ShardFilter=after)
    page = talk("ListShards", "two", **talk.name, ShardFilter={"Type": "FROM_TRIM_HORIZON"}, MaxResults=2)
    talk("ListShards", "the rest", NextToken=page["NextToken"])
    talk("ListShards", "AT_TIMESTAMP of none", **talk.name, ShardFilter={"Type": "AT_TIMESTAMP"})
    talk("ListShards", "AFTER_SHARD_ID of none", **talk.name, ShardFilter={"Type": "AFTER_SHARD_ID"})
    talk("ListShards", "AT_LATEST of a shard", **talk.name, ShardFilter=after | {"Type": "AT_LATEST"})
    talk("ListShards", "an unknown filter", **talk.name, ShardFilter={"Type": "SOMETIMES"})
    talk("ListShards", "a filter of no type", **talk.name, ShardFilter={"ShardId": shard_id(2)})
