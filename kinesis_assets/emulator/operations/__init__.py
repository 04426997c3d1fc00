"""The operations of the API. Each is a request structure whose `execute` returns a response structure.

Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_Operations.html
"""

from kinesis_assets.emulator.operations.consumers import (
    DeregisterStreamConsumer,
    DescribeStreamConsumer,
    ListStreamConsumers,
    RegisterStreamConsumer,
)
from kinesis_assets.emulator.operations.listing import ListShards
from kinesis_assets.emulator.operations.reading import GetRecords, GetShardIterator
from kinesis_assets.emulator.operations.streams import (
    AddTagsToStream,
    CreateStream,
    DecreaseStreamRetentionPeriod,
    DeleteStream,
    DescribeStream,
    DescribeStreamSummary,
    IncreaseStreamRetentionPeriod,
    ListStreams,
    ListTagsForStream,
    MergeShards,
    RemoveTagsFromStream,
    SplitShard,
    UpdateMaxRecordSize,
    UpdateShardCount,
    UpdateStreamMode,
    UpdateStreamRecordDistributionStrategy,
)
from kinesis_assets.emulator.operations.subscribing import SubscribeToShard
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
        DescribeStream,
        DescribeStreamConsumer,
        DescribeStreamSummary,
        GetRecords,
        GetShardIterator,
        IncreaseStreamRetentionPeriod,
        ListShards,
        ListStreamConsumers,
        ListStreams,
        ListTagsForStream,
        MergeShards,
        PutRecord,
        PutRecords,
        RegisterStreamConsumer,
        RemoveTagsFromStream,
        SplitShard,
        SubscribeToShard,
        UpdateMaxRecordSize,
        UpdateShardCount,
        UpdateStreamMode,
        UpdateStreamRecordDistributionStrategy,
    )
}
"""All operations of this endpoint by their names on the wire."""

__all__ = ["OPERATIONS"]
