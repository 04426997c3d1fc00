"""On iterators and reading records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.emulators.talk import DAY, GARBAGE, HASH_KEYS, NO_STREAM, STEP_SECONDS, arn, moment, shard_id

if TYPE_CHECKING:
    from integration.emulators.talk import Talk

NUMBERED = ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")


def reading(talk: Talk) -> None:
    talk.create(1)
    start = talk.iterator("an empty shard")
    latest = talk.iterator("what comes", ShardIteratorType="LATEST")
    talk("GetRecords", "an empty shard", ShardIterator=start)
    put = [
        talk("PutRecord", f"{number}", **talk.name, PartitionKey="k", Data=f"{number}".encode())
        for number in range(4)
    ]
    third = talk.now - STEP_SECONDS
    talk("GetRecords", "all", ShardIterator=start)
    talk("GetRecords", "what came", ShardIterator=latest)
    page = talk("GetRecords", "two", ShardIterator=start, Limit=2)
    page = talk("GetRecords", "two more", ShardIterator=page["NextShardIterator"], Limit=2)
    talk("GetRecords", "the tip", ShardIterator=page["NextShardIterator"])
    talk("GetRecords", "two once more", ShardIterator=start, Limit=2)
    for kind in NUMBERED:
        for number in (0, 1, 3):
            told = {"StartingSequenceNumber": put[number]["SequenceNumber"]}
            talk.read(f"{kind} {number}", ShardIteratorType=kind, **told)
    timed = {"its": third, "just before its": third - 0.001, "just after its": third + 0.001}
    for whose, seconds in {**timed, "a day before its": third - DAY}.items():
        talk.read(f"{whose} time", ShardIteratorType="AT_TIMESTAMP", Timestamp=moment(seconds))
    talk.read("past the tip", ShardIteratorType="AT_TIMESTAMP", Timestamp=moment(talk.now - 1))
    talk.read("LATEST", ShardIteratorType="LATEST")


def reading_what_was_put_together(talk: Talk) -> None:
    """Records of one arrival time."""
    talk.create(1)
    records = [{"PartitionKey": "k", "Data": f"{number}".encode()} for number in range(3)]
    talk("PutRecords", **talk.name, Records=records)
    arrival = moment(talk.now)
    page = talk("GetRecords", "two", ShardIterator=talk.iterator("two"), Limit=2)
    talk("GetRecords", "the last", ShardIterator=page["NextShardIterator"])
    talk.read("their time", ShardIteratorType="AT_TIMESTAMP", Timestamp=arrival)


def reading_from_the_start_of_a_shard(talk: Talk) -> None:
    talk.create(1)
    bounds = talk("ListShards", **talk.name)["Shards"][0]["SequenceNumberRange"]
    number = {"StartingSequenceNumber": bounds["StartingSequenceNumber"]}
    start = talk.iterator("before a record", ShardIteratorType="AT_SEQUENCE_NUMBER", **number)
    talk("PutRecord", **talk.name, PartitionKey="k", Data=b"d")
    talk("GetRecords", "before a record", ShardIterator=start)
    for kind in NUMBERED:
        talk.read(kind, ShardIteratorType=kind, **number)


def reading_from_the_end_of_a_shard(talk: Talk) -> None:
    talk.create(1)
    talk("PutRecord", **talk.name, PartitionKey="k", Data=b"d")
    talk("SplitShard", **talk.name, ShardToSplit=shard_id(0), NewStartingHashKey=str(HASH_KEYS // 2))
    talk.settle()
    bounds = talk("ListShards", **talk.name)["Shards"][0]["SequenceNumberRange"]
    for kind in NUMBERED:
        talk.read(kind, ShardIteratorType=kind, StartingSequenceNumber=bounds["EndingSequenceNumber"])


def starting_badly(talk: Talk) -> None:
    talk.create(3)
    record = talk.name | {"PartitionKey": "k", "Data": b"d"}
    own = talk("PutRecord", "below", **record, ExplicitHashKey="0")
    other = talk("PutRecord", "above", **record, ExplicitHashKey=str(HASH_KEYS - 1))
    talk("GetShardIterator", "no type", **talk.name, ShardId=shard_id(0))
    talk("GetShardIterator", "no shard", **talk.name, ShardIteratorType="LATEST")
    talk.iterator("an unknown type", ShardIteratorType="SOMETIMES")
    talk.iterator("an unknown shard", ShardId=shard_id(3))
    talk.iterator("a word for a shard", ShardId="first")
    talk.iterator("no shard id", ShardId="a b")
    for kind in NUMBERED:
        talk.iterator(f"{kind} of none", ShardIteratorType=kind)
        talk.iterator(f"{kind} of a word", ShardIteratorType=kind, StartingSequenceNumber="one")
        talk.iterator(f"{kind} of 1", ShardIteratorType=kind, StartingSequenceNumber="1")
        foreign = {"StartingSequenceNumber": other["SequenceNumber"]}
        talk.iterator(f"{kind} of another shard", ShardIteratorType=kind, **foreign)
    number = {"StartingSequenceNumber": own["SequenceNumber"]}
    for kind in ("TRIM_HORIZON", "LATEST"):
        talk.iterator(f"{kind} of a number", ShardIteratorType=kind, **number)
    timed = {"ShardIteratorType": "AT_TIMESTAMP"}
    talk.iterator("AT_TIMESTAMP of none", **timed)
    talk.iterator("AT_TIMESTAMP of the future", **timed, Timestamp=moment(talk.now + 3600))
    talk.iterator("AT_TIMESTAMP of a number", **timed, Timestamp=moment(talk.now - 60), **number)


def starting_from_the_number_of_another_stream(talk: Talk) -> None:
    own, talk.stream = talk.stream, f"{talk.stream}-other"
    talk.create(1)
    number = talk("PutRecord", **talk.name, PartitionKey="k", Data=b"d")["SequenceNumber"]
    talk.stream = own
    talk("CreateStream", "own", **talk.name, ShardCount=1)
    talk.settle()
    talk("PutRecord", "own", **talk.name, PartitionKey="k", Data=b"d")
    for kind in NUMBERED:
        talk.iterator(kind, ShardIteratorType=kind, StartingSequenceNumber=number)


def reading_badly(talk: Talk) -> None:
    talk.create(1)
    start = talk.iterator("all")
    talk("GetRecords", "no iterator")
    talk("GetRecords", "an empty iterator", ShardIterator="")
    talk("GetRecords", "garbage", ShardIterator=GARBAGE)
    talk("GetRecords", "no base64", ShardIterator="not an iterator")
    talk("GetRecords", "too long an iterator", ShardIterator="A" * 513)
    talk("GetRecords", "no limit at all", ShardIterator=start, Limit=0)
    talk("GetRecords", "too high a limit", ShardIterator=start, Limit=10_001)
    talk("GetRecords", "by its ARN", ShardIterator=start, StreamARN=talk.arn)
    talk("GetRecords", "by the ARN of another", ShardIterator=start, StreamARN=arn(NO_STREAM))
    talk("DeleteStream", **talk.name)
    talk.settle()
    talk("GetRecords", "of a deleted stream", ShardIterator=start)


def expiring(talk: Talk) -> None:
    """Iterators and tokens, which last for five minutes."""
    talk.create(3)
    start = talk.iterator("all")
    token = talk("ListShards", "one", **talk.name, MaxResults=1)["NextToken"]
    talk.later(290)
    fresh = talk("GetRecords", "early", ShardIterator=start)["NextShardIterator"]
    talk("ListShards", "early", NextToken=token)
    talk.later(10)
    talk("GetRecords", "late", ShardIterator=start)
    talk("GetRecords", "renewed", ShardIterator=fresh)
    talk("ListShards", "late", NextToken=token)
