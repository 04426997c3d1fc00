"""Shared by the peers that use boto3: the client, and the pages of a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3

if TYPE_CHECKING:
    from collections.abc import Iterator


def client(url: str) -> Any:
    """Return a client with default settings."""
    return boto3.client("kinesis", endpoint_url=url, region_name="us-east-1")


def shard_ids(kinesis: Any, stream: str) -> list[str]:
    """Return the ids of all shards of a stream."""
    response = kinesis.list_shards(StreamName=stream)
    listed = response["Shards"]
    while token := response.get("NextToken"):
        response = kinesis.list_shards(NextToken=token)
        listed += response["Shards"]
    return [shard["ShardId"] for shard in listed]


def pages(kinesis: Any, stream: str, shard_id: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the pages of a shard from TRIM_HORIZON to its tip, without pacing the calls."""
    response = kinesis.get_shard_iterator(
        StreamName=stream, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
    )
    iterator = response["ShardIterator"]
    while True:
        page = kinesis.get_records(ShardIterator=iterator, Limit=10_000)
        if page["Records"]:
            yield page["Records"]
        if page["MillisBehindLatest"] == 0:
            return
        iterator = page["NextShardIterator"]
