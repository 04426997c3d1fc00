"""On streams: their life, their names, their settings and their lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from integration.emulators.talk import DAY, GARBAGE, HASH_KEYS, MIB, NO_STREAM, arn, shard_id

if TYPE_CHECKING:
    from integration.emulators.talk import Talk


def a_streams_life(talk: Talk) -> None:
    """A stream is created, described, deleted and created again."""
    talk("CreateStream", **talk.name, ShardCount=3)
    talk("DescribeStreamSummary", "created a moment ago", **talk.name)
    talk.settle()
    talk("DescribeStream", **talk.name)
    talk("DescribeStreamSummary", **talk.name)
    talk("ListShards", **talk.name)
    talk("PutRecord", **talk.name, PartitionKey="k", Data=b"before")
    before = talk.iterator("before")
    talk("DeleteStream", **talk.name)
    talk("DescribeStreamSummary", "deleted a moment ago", **talk.name)
    talk.settle()
    talk("DescribeStreamSummary", "gone", **talk.name)
    talk("CreateStream", "again", **talk.name, ShardCount=1)
    talk.settle()
    talk("DescribeStream", "again", **talk.name)
    talk.read("again")
    talk("GetRecords", "from before", ShardIterator=before)


def creating_twice(talk: Talk) -> None:
    talk.create(1)
    talk("CreateStream", "again", **talk.name, ShardCount=1)


def creating_two_shards(talk: Talk) -> None:
    talk.create(2)
    talk("ListShards", **talk.name)


def creating_badly(talk: Talk) -> None:
    talk("CreateStream", "no name", ShardCount=1)
    talk("CreateStream", "an empty name", StreamName="", ShardCount=1)
    talk("CreateStream", "a long name", StreamName="x" * 129, ShardCount=1)
    talk("CreateStream", "a name of other characters", StreamName="a b", ShardCount=1)
    talk("CreateStream", "a number for a name", StreamName=1, ShardCount=1)
    talk("CreateStream", "no shards", **talk.name, ShardCount=0)
    talk("CreateStream", "a word for shards", **talk.name, ShardCount="one")
    talk("CreateStream", "more shards than an account may have", **talk.name, ShardCount=20_001)
    talk("DescribeStreamSummary", "not created", **talk.name)


def creating_with_bad_options(talk: Talk) -> None:
    options: dict[str, dict[str, Any]] = {
        "small": {"MaxRecordSizeInKiB": 1023},
        "enormous": {"MaxRecordSizeInKiB": 10_241},
        "sometimes": {"StreamModeDetails": {"StreamMode": "SOMETIMES"}},
    }
    for note, option in options.items():
        talk("CreateStream", note, StreamName=f"{talk.stream}-{note}", ShardCount=1, **option)


def creating_without_shard_count(talk: Talk) -> None:
    talk("CreateStream", **talk.name)


def creating_on_demand(talk: Talk) -> None:
    talk("CreateStream", **talk.name, StreamModeDetails={"StreamMode": "ON_DEMAND"})


def distributing(talk: Talk) -> None:
    talk.create(1)
    strategy = "UpdateStreamRecordDistributionStrategy"
    auto = {"StreamARN": talk.arn, "RecordDistributionStrategy": "AUTO"}
    talk(strategy, "of a provisioned one", **auto)
    talk("UpdateStreamMode", "to nothing", StreamARN=talk.arn)
    talk("UpdateStreamMode", StreamARN=talk.arn, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    talk.settle()
    talk(strategy, "to AUTO", **auto)
    talk.settle()
    first = talk("PutRecord", "with a key", **talk.name, Data=b"d", PartitionKey="k")
    talk("PutRecord", "without a key", **talk.name, Data=b"d")
    order = {"SequenceNumberForOrdering": first["SequenceNumber"]}
    talk("PutRecord", "in order", **talk.name, Data=b"d", PartitionKey="k", **order)
    talk(strategy, "back", StreamARN=talk.arn, RecordDistributionStrategy="USER_PARTITION_KEY")
    talk("PutRecord", "without one again", **talk.name, Data=b"d")


def creating_for_large_records(talk: Talk) -> None:
    talk.create(1, MaxRecordSizeInKiB=2048, StreamModeDetails={"StreamMode": "PROVISIONED"})
    talk("DescribeStreamSummary", **talk.name)
    talk("PutRecord", "of 2 MiB", **talk.name, PartitionKey="k", Data=bytes(2 * MIB - 1))
    talk("PutRecord", "of 2 MiB and 1 byte", **talk.name, PartitionKey="k", Data=bytes(2 * MIB + 1))


def resizing_records(talk: Talk) -> None:
    talk.create(1)
    talk("UpdateMaxRecordSize", "to 2 MiB", StreamARN=talk.arn, MaxRecordSizeInKiB=2048)
    talk.settle()
    talk("DescribeStreamSummary", **talk.name)
    talk("PutRecord", "of more than 1 MiB", **talk.name, PartitionKey="k", Data=bytes(MIB + 1))
    for size in (1023, 10_241):
        talk("UpdateMaxRecordSize", f"to {size} KiB", StreamARN=talk.arn, MaxRecordSizeInKiB=size)
    talk("UpdateMaxRecordSize", "to nothing", StreamARN=talk.arn)


def _naming_a_stream() -> dict[str, dict[str, Any]]:
    """The operations on a named stream, each with what else it needs; the one that ends it comes last."""
    return {
        "DescribeStream": {},
        "DescribeStreamSummary": {},
        "ListShards": {},
        "GetShardIterator": {"ShardId": shard_id(0), "ShardIteratorType": "LATEST"},
        "PutRecord": {"PartitionKey": "k", "Data": b"d"},
        "PutRecords": {"Records": [{"PartitionKey": "k", "Data": b"d"}]},
        "IncreaseStreamRetentionPeriod": {"RetentionPeriodHours": 24},
        "DecreaseStreamRetentionPeriod": {"RetentionPeriodHours": 24},
        "SplitShard": {"ShardToSplit": shard_id(0), "NewStartingHashKey": str(HASH_KEYS // 4)},
        "MergeShards": {"ShardToMerge": shard_id(1), "AdjacentShardToMerge": shard_id(2)},
        "UpdateShardCount": {"TargetShardCount": 2, "ScalingType": "UNIFORM_SCALING"},
        "DeleteStream": {},
    }


def by_arn(talk: Talk) -> None:
    talk.create(3)
    for operation, arguments in _naming_a_stream().items():
        talk(operation, StreamARN=talk.arn, **arguments)
        talk.settle()


def unknown_name(talk: Talk) -> None:
    for operation, arguments in _naming_a_stream().items():
        talk(operation, StreamName=NO_STREAM, **arguments)


def unknown_arn(talk: Talk) -> None:
    for operation, arguments in _naming_a_stream().items():
        talk(operation, StreamARN=arn(NO_STREAM), **arguments)
    talk("UpdateMaxRecordSize", StreamARN=arn(NO_STREAM), MaxRecordSizeInKiB=1024)


def neither_name_nor_arn(talk: Talk) -> None:
    for operation, arguments in _naming_a_stream().items():
        talk(operation, **arguments)
    talk("UpdateMaxRecordSize", MaxRecordSizeInKiB=1024)


def name_and_arn(talk: Talk) -> None:
    talk.create(1)
    talk("DescribeStreamSummary", **talk.name, StreamARN=talk.arn)
    talk("DescribeStreamSummary", "of two streams", **talk.name, StreamARN=arn(NO_STREAM))
    talk("DescribeStreamSummary", "no ARN", **talk.name, StreamARN="arn:of:nothing")


def listing_streams(talk: Talk) -> None:
    """Streams whose names are after all others, as emulators are shared."""
    for number in range(12):
        talk.stream = f"zz.{number:02}"
        talk("CreateStream", talk.stream, **talk.name, ShardCount=1)
        if number % 4 == 3:  # no more than five may be CREATING
            talk.settle()
    after = {"ExclusiveStartStreamName": "zz.00"}
    talk("ListStreams", "eleven", **after)
    page = talk("ListStreams", "two", **after, Limit=2)
    talk("ListStreams", "two more by name", ExclusiveStartStreamName="zz.02", Limit=2)
    talk("ListStreams", "two more by token", NextToken=page["NextToken"], Limit=2)
    talk("ListStreams", "the last", ExclusiveStartStreamName="zz.10", Limit=2)
    talk("ListStreams", "none", ExclusiveStartStreamName="zz.11")
    talk("ListStreams", "after one that is not there", ExclusiveStartStreamName="zz.10a")
    talk("ListStreams", "no limit at all", **after, Limit=0)
    talk("ListStreams", "too high a limit", **after, Limit=10_001)
    talk("ListStreams", "garbage for a token", NextToken=GARBAGE)


def retaining(talk: Talk) -> None:
    talk.create(1)
    for operation, start, bad in (
        ("IncreaseStreamRetentionPeriod", 48, 24),
        ("DecreaseStreamRetentionPeriod", 47, 48),
    ):
        for hours in (start, bad, start, 23, 0, -1, 8761):
            note = f"to {hours} from {start}" if hours != start else f"to {hours} at {talk.now % DAY}"
            talk(operation, note, **talk.name, RetentionPeriodHours=hours)
        talk(operation, "to nothing", **talk.name)
        talk("DescribeStreamSummary", f"{start}", **talk.name)
    for hours in (168, 8760):
        talk("IncreaseStreamRetentionPeriod", f"to {hours}", **talk.name, RetentionPeriodHours=hours)
        talk("DescribeStreamSummary", f"{hours}", **talk.name)


def trimming_records(talk: Talk) -> None:
    """Of two records the first is past its retention."""
    talk.create(1)
    first = talk("PutRecord", "one", **talk.name, PartitionKey="k", Data=b"one")
    talk.later(DAY / 2)
    talk("PutRecord", "two", **talk.name, PartitionKey="k", Data=b"two")
    talk.later(DAY / 2)
    talk.read("the horizon")
    number = {"StartingSequenceNumber": first["SequenceNumber"]}
    talk.read("what is gone", ShardIteratorType="AT_SEQUENCE_NUMBER", **number)


def trimming_shards(talk: Talk) -> None:
    """A closed shard is listed for as long as its records are kept."""
    talk.create(1)
    talk("SplitShard", **talk.name, ShardToSplit=shard_id(0), NewStartingHashKey=str(HASH_KEYS // 2))
    talk.settle()
    talk.later(DAY / 2)
    talk("ListShards", "half a day", **talk.name)
    talk.later(DAY / 2)
    talk("ListShards", "a day", **talk.name)
    talk.iterator("a day")
