"""What every peer on boto3 has in common: its client, and the pages of a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3

if TYPE_CHECKING:
    from collections.abc import Iterator


def client(url: str) -> Any:
    """A plain one, as anybody makes it."""
    return boto3.client("kinesis", endpoint_url=url, region_name="us-east-1")


def shard_ids(kinesis: Any, stream: str) -> list[str]:
    """Every shard of a stream."""
    answer = kinesis.list_shards(StreamName=stream)
    listed = answer["Shards"]
    while token := answer.get("NextToken"):
        answer = kinesis.list_shards(NextToken=token)
        listed += answer["Shards"]
    return [shard["ShardId"] for shard in listed]


def pages(kinesis: Any, stream: str, shard_id: str) -> Iterator[list[dict[str, Any]]]:
    """The records of a shard from TRIM_HORIZON to its tip, a page at a time, unpaced."""
    answer = kinesis.get_shard_iterator(StreamName=stream, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON")
    iterator = answer["ShardIterator"]
    while True:
        page = kinesis.get_records(ShardIterator=iterator, Limit=10_000)
        if page["Records"]:
            yield page["Records"]
        if page["MillisBehindLatest"] == 0:
            return
        iterator = page["NextShardIterator"]
