"""The operations of the API. Each is a request structure whose `execute` returns a response structure.

Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_Operations.html
"""

from kinesis_assets.emulator.operations.accounts import DescribeAccountSettings, DescribeLimits, ListStreams
from kinesis_assets.emulator.operations.consumers import (
    DeregisterStreamConsumer,
    DescribeStreamConsumer,
    ListStreamConsumers,
    RegisterStreamConsumer,
)
from kinesis_assets.emulator.operations.listing import ListShards
from kinesis_assets.emulator.operations.reading import GetRecords, GetShardIterator
from kinesis_assets.emulator.operations.streams import (
    CreateStream,
    DecreaseStreamRetentionPeriod,
    DeleteStream,
    DescribeStream,
    DescribeStreamSummary,
    IncreaseStreamRetentionPeriod,
    MergeShards,
    SplitShard,
    UpdateMaxRecordSize,
    UpdateShardCount,
    UpdateStreamMode,
    UpdateStreamRecordDistributionStrategy,
)
from kinesis_assets.emulator.operations.subscribing import SubscribeToShard
from kinesis_assets.emulator.operations.tags import (
    AddTagsToStream,
    ListTagsForResource,
    ListTagsForStream,
    RemoveTagsFromStream,
    TagResource,
    UntagResource,
)
from kinesis_assets.emulator.operations.writing import PutRecord, PutRecords
from kinesis_assets.emulator.requests import Request

OPERATIONS: dict[str, type[Request]] = {
    operation.__name__: operation
    for operation in (
        AddTagsToStream,
        CreateStream,
        DecreaseStreamRetentionPeriod,
        DeleteStream,
        DeregisterStreamConsumer,
        DescribeAccountSettings,
        DescribeLimits,
        DescribeStream,
        DescribeStreamConsumer,
        DescribeStreamSummary,
        GetRecords,
        GetShardIterator,
        IncreaseStreamRetentionPeriod,
        ListShards,
        ListStreamConsumers,
        ListStreams,
        ListTagsForResource,
        ListTagsForStream,
        MergeShards,
        PutRecord,
        PutRecords,
        RegisterStreamConsumer,
        RemoveTagsFromStream,
        SplitShard,
        SubscribeToShard,
        TagResource,
        UntagResource,
        UpdateMaxRecordSize,
        UpdateShardCount,
        UpdateStreamMode,
        UpdateStreamRecordDistributionStrategy,
    )
}

__all__ = ["OPERATIONS"]
