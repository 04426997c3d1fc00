"""The options of the data source "kinesis". It reads in tests/integration/spark/test_data_source.py."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import InvalidInput
from kinesis_assets.spark.data_source import KinesisDataSource


@pytest.mark.parametrize("until", ["noon", "2026-01-31T12:00:00", "9999-12-31T23:59:59-01:00"])
def test_an_end_that_is_no_time_in_utc_is_refused(until):
    source = KinesisDataSource({"stream": "orders", "until": until})
    with pytest.raises(InvalidInput, match="2026-01-31T12:00:00Z"):
        source.reader(source.schema())


def test_a_shard_that_is_named_twice_is_read_once(kinesis, local_kinesis, stream):
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    shard_id = "shardId-000000000001"
    source = KinesisDataSource(
        {
            "stream": stream,
            "until": "2026-01-31T12:00:00Z",
            "shard_ids": f"{shard_id}, {shard_id}",
            "endpoint_url": local_kinesis.endpoint_url,
        }
    )
    partitions = source.reader(source.schema()).partitions()
    assert [each.range.shard_id for each in partitions] == [shard_id]
