"""The operations of the API. Each is a request structure whose `execute` returns a response structure.

Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_Operations.html
"""

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
from kinesis_assets.emulator.operations.writing import PutRecord, PutRecords
from kinesis_assets.emulator.requests import Request

OPERATIONS: dict[str, type[Request]] = {
    operation.__name__: operation
    for operation in (
        AddTagsToStream,
        CreateStream,
        DecreaseStreamRetentionPeriod,
        DeleteStream,
        DescribeStream,
        DescribeStreamSummary,
        GetRecords,
        GetShardIterator,
        IncreaseStreamRetentionPeriod,
        ListShards,
        ListStreams,
        ListTagsForStream,
        MergeShards,
        PutRecord,
        PutRecords,
        RemoveTagsFromStream,
        SplitShard,
        UpdateMaxRecordSize,
        UpdateShardCount,
        UpdateStreamMode,
        UpdateStreamRecordDistributionStrategy,
    )
}
"""All operations of this endpoint by their names on the wire."""

__all__ = ["OPERATIONS"]
