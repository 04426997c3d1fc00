"""Scenarios that get iterators and read records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.emulators.recorded_api import (
    DAY,
    GARBAGE,
    HASH_KEYS,
    NO_STREAM,
    STEP_SECONDS,
    arn,
    shard_id,
    timestamp,
)

if TYPE_CHECKING:
    from integration.emulators.recorded_api import RecordedApi

NUMBERED = ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")


def reading(api: RecordedApi) -> None:
    api.create(1)
    start = api.iterator("an empty shard")
    latest = api.iterator("new records", ShardIteratorType="LATEST")
    api("GetRecords", "an empty shard", ShardIterator=start)
    put = [
        api("PutRecord", f"{number}", **api.name, PartitionKey="k", Data=f"{number}".encode())
        for number in range(4)
    ]
    third = api.now - STEP_SECONDS
    api("GetRecords", "all", ShardIterator=start)
    api("GetRecords", "new records", ShardIterator=latest)
    page = api("GetRecords", "two", ShardIterator=start, Limit=2)
    page = api("GetRecords", "two more", ShardIterator=page["NextShardIterator"], Limit=2)
    api("GetRecords", "the tip", ShardIterator=page["NextShardIterator"])
    api("GetRecords", "two once more", ShardIterator=start, Limit=2)
    for kind in NUMBERED:
        for number in (0, 1, 3):
            start_at = {"StartingSequenceNumber": put[number]["SequenceNumber"]}
            api.read(f"{kind} {number}", ShardIteratorType=kind, **start_at)
    timed = {"its": third, "just before its": third - 0.001, "just after its": third + 0.001}
    for label, seconds in {**timed, "a day before its": third - DAY}.items():
        api.read(f"{label} time", ShardIteratorType="AT_TIMESTAMP", Timestamp=timestamp(seconds))
    api.read("past the tip", ShardIteratorType="AT_TIMESTAMP", Timestamp=timestamp(api.now - 1))
    api.read("LATEST", ShardIteratorType="LATEST")


def reading_records_of_one_call(api: RecordedApi) -> None:
    """Records with the same arrival time."""
    api.create(1)
    records = [{"PartitionKey": "k", "Data": f"{number}".encode()} for number in range(3)]
    api("PutRecords", **api.name, Records=records)
    arrival = timestamp(api.now)
    page = api("GetRecords", "two", ShardIterator=api.iterator("two"), Limit=2)
    api("GetRecords", "the last", ShardIterator=page["NextShardIterator"])
    api.read("their time", ShardIteratorType="AT_TIMESTAMP", Timestamp=arrival)


def reading_from_the_start_of_a_shard(api: RecordedApi) -> None:
    api.create(1)
    bounds = api("ListShards", **api.name)["Shards"][0]["SequenceNumberRange"]
    number = {"StartingSequenceNumber": bounds["StartingSequenceNumber"]}
    start = api.iterator("before a record", ShardIteratorType="AT_SEQUENCE_NUMBER", **number)
    api("PutRecord", **api.name, PartitionKey="k", Data=b"d")
    api("GetRecords", "before a record", ShardIterator=start)
    for kind in NUMBERED:
        api.read(kind, ShardIteratorType=kind, **number)


def reading_from_the_end_of_a_shard(api: RecordedApi) -> None:
    api.create(1)
    api("PutRecord", **api.name, PartitionKey="k", Data=b"d")
    api("SplitShard", **api.name, ShardToSplit=shard_id(0), NewStartingHashKey=str(HASH_KEYS // 2))
    api.settle()
    bounds = api("ListShards", **api.name)["Shards"][0]["SequenceNumberRange"]
    for kind in NUMBERED:
        api.read(kind, ShardIteratorType=kind, StartingSequenceNumber=bounds["EndingSequenceNumber"])


def starting_with_invalid_arguments(api: RecordedApi) -> None:
    api.create(3)
    record = api.name | {"PartitionKey": "k", "Data": b"d"}
    own = api("PutRecord", "below", **record, ExplicitHashKey="0")
    other = api("PutRecord", "above", **record, ExplicitHashKey=str(HASH_KEYS - 1))
    api("GetShardIterator", "no type", **api.name, ShardId=shard_id(0))
    api("GetShardIterator", "no shard", **api.name, ShardIteratorType="LATEST")
    api.iterator("an unknown type", ShardIteratorType="SOMETIMES")
    api.iterator("an unknown shard", ShardId=shard_id(3))
    api.iterator("a word for a shard", ShardId="first")
    api.iterator("no shard id", ShardId="a b")
    for kind in NUMBERED:
        api.iterator(f"{kind} of none", ShardIteratorType=kind)
        api.iterator(f"{kind} of a word", ShardIteratorType=kind, StartingSequenceNumber="one")
        api.iterator(f"{kind} of 1", ShardIteratorType=kind, StartingSequenceNumber="1")
        foreign = {"StartingSequenceNumber": other["SequenceNumber"]}
        api.iterator(f"{kind} of another shard", ShardIteratorType=kind, **foreign)
    number = {"StartingSequenceNumber": own["SequenceNumber"]}
    for kind in ("TRIM_HORIZON", "LATEST"):
        api.iterator(f"{kind} of a number", ShardIteratorType=kind, **number)
    timed = {"ShardIteratorType": "AT_TIMESTAMP"}
    api.iterator("AT_TIMESTAMP of none", **timed)
    api.iterator("AT_TIMESTAMP of the future", **timed, Timestamp=timestamp(api.now + 3600))
    api.iterator("AT_TIMESTAMP of a number", **timed, Timestamp=timestamp(api.now - 60), **number)


def starting_from_the_number_of_another_stream(api: RecordedApi) -> None:
    own, api.stream = api.stream, f"{api.stream}-other"
    api.create(1)
    number = api("PutRecord", **api.name, PartitionKey="k", Data=b"d")["SequenceNumber"]
    api.stream = own
    api("CreateStream", "own", **api.name, ShardCount=1)
    api.settle()
    api("PutRecord", "own", **api.name, PartitionKey="k", Data=b"d")
    for kind in NUMBERED:
        api.iterator(kind, ShardIteratorType=kind, StartingSequenceNumber=number)


def reading_with_invalid_arguments(api: RecordedApi) -> None:
    api.create(1)
    start = api.iterator("all")
    api("GetRecords", "no iterator")
    api("GetRecords", "an empty iterator", ShardIterator="")
    api("GetRecords", "garbage", ShardIterator=GARBAGE)
    api("GetRecords", "no base64", ShardIterator="not an iterator")
    api("GetRecords", "too long an iterator", ShardIterator="A" * 513)
    api("GetRecords", "no limit at all", ShardIterator=start, Limit=0)
    api("GetRecords", "too high a limit", ShardIterator=start, Limit=10_001)
    api("GetRecords", "by its ARN", ShardIterator=start, StreamARN=api.arn)
    api("GetRecords", "by the ARN of another", ShardIterator=start, StreamARN=arn(NO_STREAM))
    api("DeleteStream", **api.name)
    api.settle()
    api("GetRecords", "of a deleted stream", ShardIterator=start)


def expiring(api: RecordedApi) -> None:
    """Iterators and tokens, which expire after five minutes."""
    api.create(3)
    start = api.iterator("all")
    token = api("ListShards", "one", **api.name, MaxResults=1)["NextToken"]
    api.advance(290)
    fresh = api("GetRecords", "early", ShardIterator=start)["NextShardIterator"]
    api("ListShards", "early", NextToken=token)
    api.advance(10)
    api("GetRecords", "late", ShardIterator=start)
    api("GetRecords", "renewed", ShardIterator=fresh)
    api("ListShards", "late", NextToken=token)
