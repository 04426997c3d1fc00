"""The operations of the API. Each is a request structure whose `execute` returns a response structure.

What an operation changes is changed when it returns.

Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_Operations.html
"""

from kinesis_assets.emulator.operations import (
    accounts,
    fan_out,
    listing,
    reading,
    streams,
    tags,
    writing,
)
from kinesis_assets.emulator.requests import Request

OPERATIONS: dict[str, type[Request]] = {
    operation.__name__: operation
    for operation in (
        accounts.DescribeAccountSettings,
        accounts.DescribeLimits,
        accounts.ListStreams,
        fan_out.DeregisterStreamConsumer,
        fan_out.DescribeStreamConsumer,
        fan_out.ListStreamConsumers,
        fan_out.RegisterStreamConsumer,
        fan_out.SubscribeToShard,
        listing.ListShards,
        reading.GetRecords,
        reading.GetShardIterator,
        streams.CreateStream,
        streams.DecreaseStreamRetentionPeriod,
        streams.DeleteStream,
        streams.DescribeStream,
        streams.DescribeStreamSummary,
        streams.IncreaseStreamRetentionPeriod,
        streams.MergeShards,
        streams.SplitShard,
        streams.UpdateMaxRecordSize,
        streams.UpdateShardCount,
        streams.UpdateStreamMode,
        streams.UpdateStreamRecordDistributionStrategy,
        tags.AddTagsToStream,
        tags.ListTagsForResource,
        tags.ListTagsForStream,
        tags.RemoveTagsFromStream,
        tags.TagResource,
        tags.UntagResource,
        writing.PutRecord,
        writing.PutRecords,
    )
}

__all__ = ["OPERATIONS"]
