"""Scenarios that list shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.emulators.recorded_api import DAY, GARBAGE, HASH_KEYS, shard_id, timestamp

if TYPE_CHECKING:
    from integration.emulators.recorded_api import RecordedApi


def listing_shards(api: RecordedApi) -> None:
    api.create(5)
    api("ListShards", "all", **api.name)
    page = api("ListShards", "two", **api.name, MaxResults=2)
    token = api("ListShards", "two more", NextToken=page["NextToken"], MaxResults=2)["NextToken"]
    api("ListShards", "the rest", NextToken=token)
    api("ListShards", "exactly all", **api.name, MaxResults=5)
    api("ListShards", "after the third", **api.name, ExclusiveStartShardId=shard_id(2))
    api("ListShards", "after an unknown one", **api.name, ExclusiveStartShardId=shard_id(7))
    api("ListShards", "no results at all", **api.name, MaxResults=0)
    api("ListShards", "too many results", **api.name, MaxResults=10_001)
    api("ListShards", "garbage for a token", NextToken=GARBAGE)
    api("ListShards", "a token and a name", NextToken=token, **api.name)
    api("ListShards", "a token and a start", NextToken=token, ExclusiveStartShardId=shard_id(2))


def listing_shards_of_a_creation(api: RecordedApi) -> None:
    api.create(1)
    created = api("DescribeStreamSummary", **api.name)["StreamDescriptionSummary"]["StreamCreationTimestamp"]
    api("ListShards", "of that time", **api.name, StreamCreationTimestamp=created)
    api("ListShards", "of another time", **api.name, StreamCreationTimestamp=timestamp(api.now - DAY))


def describing_shards(api: RecordedApi) -> None:
    api.create(3)
    api("DescribeStream", "two", **api.name, Limit=2)
    api("DescribeStream", "the rest", **api.name, ExclusiveStartShardId=shard_id(1))
    api("DescribeStream", "no limit at all", **api.name, Limit=0)
    api("DescribeStream", "too high a limit", **api.name, Limit=10_001)
    api("DescribeStream", "after no shard id", **api.name, ExclusiveStartShardId="a b")


def filtering_shards(api: RecordedApi) -> None:
    """The lineage 0 -> 3, 4 and 4 + 1 -> 5, and shard 2, listed for several times."""
    api.create(3)
    times = {"before all": api.now - DAY / 2, "at the start": api.now}
    api("SplitShard", **api.name, ShardToSplit=shard_id(0), NewStartingHashKey=str(HASH_KEYS // 4))
    api.settle()
    times["between"] = api.now
    api("MergeShards", **api.name, ShardToMerge=shard_id(4), AdjacentShardToMerge=shard_id(1))
    api.settle()
    times["at the end"] = api.now
    api("ListShards", "all", **api.name)
    for kind in ("AT_TRIM_HORIZON", "FROM_TRIM_HORIZON", "AT_LATEST"):
        api("ListShards", kind, **api.name, ShardFilter={"Type": kind})
    for kind in ("AT_TIMESTAMP", "FROM_TIMESTAMP"):
        for when, seconds in times.items():
            shard_filter = {"Type": kind, "Timestamp": timestamp(seconds)}
            api("ListShards", f"{kind} {when}", **api.name, ShardFilter=shard_filter)
    after = {"Type": "AFTER_SHARD_ID", "ShardId": shard_id(2)}
    api("ListShards", "AFTER_SHARD_ID", **api.name, ShardFilter=after)
    page = api("ListShards", "two", **api.name, ShardFilter={"Type": "FROM_TRIM_HORIZON"}, MaxResults=2)
    api("ListShards", "the rest", NextToken=page["NextToken"])
    api("ListShards", "AT_TIMESTAMP of none", **api.name, ShardFilter={"Type": "AT_TIMESTAMP"})
    api("ListShards", "AFTER_SHARD_ID of none", **api.name, ShardFilter={"Type": "AFTER_SHARD_ID"})
    api("ListShards", "AT_LATEST of a shard", **api.name, ShardFilter=after | {"Type": "AT_LATEST"})
    api("ListShards", "an unknown filter", **api.name, ShardFilter={"Type": "SOMETIMES"})
    api("ListShards", "a filter of no type", **api.name, ShardFilter={"ShardId": shard_id(2)})
