"""Scenarios with streams: their lifecycle, names, settings and lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from integration.emulators.recorded_api import DAY, GARBAGE, HASH_KEYS, MIB, NO_STREAM, arn, shard_id

if TYPE_CHECKING:
    from integration.emulators.recorded_api import RecordedApi


def stream_lifecycle(api: RecordedApi) -> None:
    """A stream is created, described, deleted and created again."""
    api("CreateStream", **api.name, ShardCount=3)
    api("DescribeStreamSummary", "created a moment ago", **api.name)
    api.settle()
    api("DescribeStream", **api.name)
    api("DescribeStreamSummary", **api.name)
    api("ListShards", **api.name)
    api("PutRecord", **api.name, PartitionKey="k", Data=b"before")
    before = api.iterator("before")
    api("DeleteStream", **api.name)
    api("DescribeStreamSummary", "deleted a moment ago", **api.name)
    api.settle()
    api("DescribeStreamSummary", "gone", **api.name)
    api("CreateStream", "again", **api.name, ShardCount=1)
    api.settle()
    api("DescribeStream", "again", **api.name)
    api.read("again")
    api("GetRecords", "from before", ShardIterator=before)


def creating_twice(api: RecordedApi) -> None:
    api.create(1)
    api("CreateStream", "again", **api.name, ShardCount=1)


def creating_two_shards(api: RecordedApi) -> None:
    api.create(2)
    api("ListShards", **api.name)


def creating_with_invalid_arguments(api: RecordedApi) -> None:
    api("CreateStream", "no name", ShardCount=1)
    api("CreateStream", "an empty name", StreamName="", ShardCount=1)
    api("CreateStream", "a long name", StreamName="x" * 129, ShardCount=1)
    api("CreateStream", "a name of other characters", StreamName="a b", ShardCount=1)
    api("CreateStream", "a number for a name", StreamName=1, ShardCount=1)
    api("CreateStream", "no shards", **api.name, ShardCount=0)
    api("CreateStream", "a word for shards", **api.name, ShardCount="one")
    api("CreateStream", "more shards than an account may have", **api.name, ShardCount=20_001)
    api("DescribeStreamSummary", "not created", **api.name)


def creating_with_bad_options(api: RecordedApi) -> None:
    options: dict[str, dict[str, Any]] = {
        "small": {"MaxRecordSizeInKiB": 1023},
        "enormous": {"MaxRecordSizeInKiB": 10_241},
        "sometimes": {"StreamModeDetails": {"StreamMode": "SOMETIMES"}},
    }
    for note, option in options.items():
        api("CreateStream", note, StreamName=f"{api.stream}-{note}", ShardCount=1, **option)


def creating_without_shard_count(api: RecordedApi) -> None:
    api("CreateStream", **api.name)


def creating_on_demand(api: RecordedApi) -> None:
    api("CreateStream", **api.name, StreamModeDetails={"StreamMode": "ON_DEMAND"})


def distributing(api: RecordedApi) -> None:
    api.create(1)
    strategy = "UpdateStreamRecordDistributionStrategy"
    auto = {"StreamARN": api.arn, "RecordDistributionStrategy": "AUTO"}
    api(strategy, "of a provisioned one", **auto)
    api("UpdateStreamMode", "to nothing", StreamARN=api.arn)
    api("UpdateStreamMode", StreamARN=api.arn, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    api.settle()
    api(strategy, "to AUTO", **auto)
    api.settle()
    first = api("PutRecord", "with a key", **api.name, Data=b"d", PartitionKey="k")
    api("PutRecord", "without a key", **api.name, Data=b"d")
    order = {"SequenceNumberForOrdering": first["SequenceNumber"]}
    api("PutRecord", "in order", **api.name, Data=b"d", PartitionKey="k", **order)
    api(strategy, "back", StreamARN=api.arn, RecordDistributionStrategy="USER_PARTITION_KEY")
    api("PutRecord", "without one again", **api.name, Data=b"d")


def creating_for_large_records(api: RecordedApi) -> None:
    api.create(1, MaxRecordSizeInKiB=2048, StreamModeDetails={"StreamMode": "PROVISIONED"})
    api("DescribeStreamSummary", **api.name)
    api("PutRecord", "of 2 MiB", **api.name, PartitionKey="k", Data=bytes(2 * MIB - 1))
    api("PutRecord", "of 2 MiB and 1 byte", **api.name, PartitionKey="k", Data=bytes(2 * MIB + 1))


def resizing_records(api: RecordedApi) -> None:
    api.create(1)
    api("UpdateMaxRecordSize", "to 2 MiB", StreamARN=api.arn, MaxRecordSizeInKiB=2048)
    api.settle()
    api("DescribeStreamSummary", **api.name)
    api("PutRecord", "of more than 1 MiB", **api.name, PartitionKey="k", Data=bytes(MIB + 1))
    for size in (1023, 10_241):
        api("UpdateMaxRecordSize", f"to {size} KiB", StreamARN=api.arn, MaxRecordSizeInKiB=size)
    api("UpdateMaxRecordSize", "to nothing", StreamARN=api.arn)


def _stream_operations() -> dict[str, dict[str, Any]]:
    """Return the operations on a stream with their other arguments; DeleteStream comes last."""
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


def by_arn(api: RecordedApi) -> None:
    api.create(3)
    for operation, arguments in _stream_operations().items():
        api(operation, StreamARN=api.arn, **arguments)
        api.settle()


def unknown_name(api: RecordedApi) -> None:
    for operation, arguments in _stream_operations().items():
        api(operation, StreamName=NO_STREAM, **arguments)


def unknown_arn(api: RecordedApi) -> None:
    for operation, arguments in _stream_operations().items():
        api(operation, StreamARN=arn(NO_STREAM), **arguments)
    api("UpdateMaxRecordSize", StreamARN=arn(NO_STREAM), MaxRecordSizeInKiB=1024)


def neither_name_nor_arn(api: RecordedApi) -> None:
    for operation, arguments in _stream_operations().items():
        api(operation, **arguments)
    api("UpdateMaxRecordSize", MaxRecordSizeInKiB=1024)


def name_and_arn(api: RecordedApi) -> None:
    api.create(1)
    api("DescribeStreamSummary", **api.name, StreamARN=api.arn)
    api("DescribeStreamSummary", "of two streams", **api.name, StreamARN=arn(NO_STREAM))
    api("DescribeStreamSummary", "no ARN", **api.name, StreamARN="arn:of:nothing")


def listing_streams(api: RecordedApi) -> None:
    """Streams whose names sort after all others, because tests share the emulators."""
    for number in range(12):
        api.stream = f"zz.{number:02}"
        api("CreateStream", api.stream, **api.name, ShardCount=1)
        if number % 4 == 3:  # at most five streams may be CREATING
            api.settle()
    after = {"ExclusiveStartStreamName": "zz.00"}
    api("ListStreams", "eleven", **after)
    page = api("ListStreams", "two", **after, Limit=2)
    api("ListStreams", "two more by name", ExclusiveStartStreamName="zz.02", Limit=2)
    api("ListStreams", "two more by token", NextToken=page["NextToken"], Limit=2)
    api("ListStreams", "the last", ExclusiveStartStreamName="zz.10", Limit=2)
    api("ListStreams", "none", ExclusiveStartStreamName="zz.11")
    api("ListStreams", "after an unknown one", ExclusiveStartStreamName="zz.10a")
    api("ListStreams", "no limit at all", **after, Limit=0)
    api("ListStreams", "too high a limit", **after, Limit=10_001)
    api("ListStreams", "garbage for a token", NextToken=GARBAGE)


def retaining(api: RecordedApi) -> None:
    api.create(1)
    for operation, start, bad in (
        ("IncreaseStreamRetentionPeriod", 48, 24),
        ("DecreaseStreamRetentionPeriod", 47, 48),
    ):
        for hours in (start, bad, start, 23, 0, -1, 8761):
            note = f"to {hours} from {start}" if hours != start else f"to {hours} at {api.now % DAY}"
            api(operation, note, **api.name, RetentionPeriodHours=hours)
        api(operation, "to nothing", **api.name)
        api("DescribeStreamSummary", f"{start}", **api.name)
    for hours in (168, 8760):
        api("IncreaseStreamRetentionPeriod", f"to {hours}", **api.name, RetentionPeriodHours=hours)
        api("DescribeStreamSummary", f"{hours}", **api.name)


def trimming_records(api: RecordedApi) -> None:
    """Two records, the first of which has expired."""
    api.create(1)
    first = api("PutRecord", "one", **api.name, PartitionKey="k", Data=b"one")
    api.advance(DAY / 2)
    api("PutRecord", "two", **api.name, PartitionKey="k", Data=b"two")
    api.advance(DAY / 2)
    api.read("the horizon")
    number = {"StartingSequenceNumber": first["SequenceNumber"]}
    api.read("the expired record", ShardIteratorType="AT_SEQUENCE_NUMBER", **number)


def trimming_shards(api: RecordedApi) -> None:
    """A closed shard, which is listed until its records have expired."""
    api.create(1)
    api("SplitShard", **api.name, ShardToSplit=shard_id(0), NewStartingHashKey=str(HASH_KEYS // 2))
    api.settle()
    api.advance(DAY / 2)
    api("ListShards", "half a day", **api.name)
    api.advance(DAY / 2)
    api("ListShards", "a day", **api.name)
    api.iterator("a day")


def tagging(api: RecordedApi) -> None:
    api.create(1)
    api("AddTagsToStream", **api.name, Tags={"team": "shop", "stage": "test"})
    api("ListTagsForStream", **api.name)
    api("RemoveTagsFromStream", **api.name, TagKeys=["stage"])
    api("ListTagsForStream", "after the removal", **api.name)
    for operation, arguments in (
        ("AddTagsToStream", {"Tags": {"team": "shop"}}),
        ("ListTagsForStream", {}),
        ("RemoveTagsFromStream", {"TagKeys": ["team"]}),
    ):
        api(operation, "of no stream", StreamName=NO_STREAM, **arguments)
