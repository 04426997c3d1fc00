"""The test kit as a whole: its imports, its public names, its environment and its clock."""

from __future__ import annotations

import subprocess
import sys
import time

import boto3
import pytest

from kinesis_assets import testing
from kinesis_assets.testing import Clock, Faults, LocalKinesis, aws_environment

SHARD = "shardId-000000000000"


def test_all_public_names_exist():
    assert all(hasattr(testing, name) for name in testing.__all__)
    assert testing.__all__ == sorted(testing.__all__)


@pytest.mark.slow
def test_kit_does_not_import_pytest_spark_or_dagster():
    without = "import sys; sys.modules.update(dict.fromkeys(('pytest', 'pyspark', 'dagster', 'deltalake')));"
    subprocess.run([sys.executable, "-c", f"{without} import kinesis_assets.testing"], check=True)


def test_environment_points_the_sdk_to_the_embedded_stream(monkeypatch):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    faults = Faults()
    with LocalKinesis(wrap=faults.around) as local:
        for name, value in aws_environment(local).items():
            monkeypatch.setenv(name, value)
        boto3.Session().client("kinesis").list_streams()
    assert faults.count("ListStreams") == 1


def test_clock_stops_until_it_is_advanced(clocked):
    clocked.kinesis.create_stream(StreamName="orders", ShardCount=1)

    def arrival():
        clocked.kinesis.put_record(StreamName="orders", Data=b"0", PartitionKey="k")
        start = {"StreamName": "orders", "ShardId": SHARD, "ShardIteratorType": "TRIM_HORIZON"}
        iterator = clocked.kinesis.get_shard_iterator(**start)["ShardIterator"]
        record = clocked.kinesis.get_records(ShardIterator=iterator)["Records"][-1]
        return record["ApproximateArrivalTimestamp"].timestamp()

    first = arrival()
    assert arrival() == first
    clocked.clock.advance(2.5)
    assert arrival() == first + 2.5


def test_advanced_clock_expires_closed_shards(clocked):
    kinesis = clocked.kinesis
    kinesis.create_stream(StreamName="orders", ShardCount=1)
    kinesis.split_shard(StreamName="orders", ShardToSplit=SHARD, NewStartingHashKey=str(2**127))
    clocked.clock.advance(24 * 3600 + 1)
    listed = kinesis.list_shards(StreamName="orders")["Shards"]
    assert [shard["ShardId"][-1] for shard in listed] == ["1", "2"]


def test_clock_starts_at_the_current_time():
    before = int(time.time())  # the clock starts at a second
    assert before <= Clock()() <= time.time()
