"""Streams with automatic record distribution: partition keys are optional and do not select the shard."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import pyarrow as pa
import pytest
from msgspec import structs

from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.reading.range import Bounds, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.aggregation import OUTSIDE_HASH_RANGE
from kinesis_assets.kinesis.records.records import RECORD_SCHEMA, Record, Records, record_batch
from kinesis_assets.testing import UserRecord, aggregate
from support.aggregates import deaggregate
from support.one_shard import BEGINNING, SHARD

FEW_KEYS = ("0", "9")
INSIDE, OUTSIDE = "5", "10"
AGGREGATE = aggregate([UserRecord("k", b"inside", INSIDE), UserRecord("k", b"outside", OUTSIDE)])


@pytest.fixture(params=[False, True], ids=["direct", "SDK"])
def client(stream, settings, request):
    return StreamClient(stream, replace(settings, sdk_parser=request.param), attempts=1)


@pytest.fixture
def arn(kinesis, stream, settings):
    """The ARN of the test's stream, which has one shard and is on demand."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    arn = StreamClient(stream, settings).describe().identity.arn
    kinesis.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    return arn


@pytest.fixture
def distribute(kinesis, arn):
    """Set the stream's record distribution strategy."""

    def distribute(strategy):
        kinesis.update_stream_record_distribution_strategy(StreamARN=arn, RecordDistributionStrategy=strategy)

    return distribute


def read(client, hash_range=FEW_KEYS):
    pages = ShardReading(client, ShardRange(SHARD, BEGINNING, Bounds(), hash_range))
    return list(chain.from_iterable(pages))


def test_records_with_and_without_a_partition_key_are_read_together(kinesis, stream, client, distribute):
    kinesis.put_record(StreamName=stream, Data=b"0", PartitionKey="ключ")
    distribute("AUTO")
    kinesis.put_records(StreamName=stream, Records=[{"Data": b"1"}, {"Data": b"2", "PartitionKey": "k"}])
    distribute("USER_PARTITION_KEY")
    kinesis.put_record(StreamName=stream, Data=b"3", PartitionKey="k")
    found = [(record.data, record.partition_key, record.error) for record in read(client)]
    assert found == [(b"0", "ключ", None), (b"1", None, None), (b"2", "k", None), (b"3", "k", None)]


def test_a_null_partition_key_is_missing_and_an_empty_one_is_kept(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    record = {"SequenceNumber": "1", "ApproximateArrivalTimestamp": 1.5, "Data": "eA=="}
    records = [record | {"PartitionKey": None}, record | {"SequenceNumber": "2", "PartitionKey": ""}]
    faults.answer("GetRecords", lambda _, response: response.but(Records=records))
    assert [each.partition_key for each in read(client)] == [None, ""]


@pytest.mark.parametrize("keys", [["k", None, "é"], [None, None], [None], ["", None], ["a", "b"], []])
def test_missing_keys_are_null_in_arrow(keys):
    records = Records.of([Record(str(number), 1.0, b"x", key) for number, key in enumerate(keys, 1)])
    batch = record_batch("orders", SHARD, records)
    batch.validate(full=True)
    assert batch.schema == RECORD_SCHEMA
    assert batch["partition_key"].to_pylist() == keys
    assert records.key_bytes == sum(len((key or "").encode()) for key in keys)
    assert records.key_column.equals(pa.array(keys, pa.string()))


def test_an_aggregate_without_a_partition_key_is_not_checked_against_the_hash_range():
    record = Record("1", 1.0, AGGREGATE, None)
    assert [part.error for part in deaggregate(record, FEW_KEYS)] == [None, None]
    with_key = Record("1", 1.0, AGGREGATE, "k")
    assert [part.error for part in deaggregate(with_key, FEW_KEYS)] == [None, OUTSIDE_HASH_RANGE]


def test_without_a_hash_range_no_aggregate_is_checked():
    assert [part.error for part in deaggregate(Record("1", 1.0, AGGREGATE, "k"), None)] == [None, None]


def test_an_invalid_hash_key_is_not_an_error_in_an_aggregate_without_a_partition_key():
    (back,) = deaggregate(Record("1", 1.0, aggregate([UserRecord("k", b"x", "1" * 40)]), None), FEW_KEYS)
    assert back.error is None


@pytest.mark.parametrize("key", [{}, {"PartitionKey": "k"}], ids=["without a key", "with a key"])
@pytest.mark.parametrize("back", [False, True], ids=["still AUTO", "switched back"])
def test_the_range_of_an_on_demand_stream_has_no_hash_range_whatever_its_current_strategy(
    kinesis, stream, client, distribute, table, key, back
):
    distribute("AUTO")
    kinesis.put_record(StreamName=stream, Data=AGGREGATE, **key)
    if back:
        distribute("USER_PARTITION_KEY")
    plan = plan_run(client, table, asked=[SHARD], policy=ReadPolicy())
    assert plan.ranges[SHARD].hash_range is None
    assert [record.error for record in chain.from_iterable(ShardReading(client, plan.ranges[SHARD]))] == [
        None
    ] * 2


def test_the_range_of_a_provisioned_stream_checks_later_aggregates_against_the_shards_hash_keys(
    kinesis, stream, client, table
):
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    first = client.list_shards()[0]
    outside = aggregate([UserRecord("k", b"in", "0"), UserRecord("k", b"out", str((1 << 128) - 1))])
    kinesis.put_record(StreamName=stream, Data=outside, PartitionKey="k", ExplicitHashKey="0")
    plan = plan_run(client, table, asked=[first.shard_id], policy=ReadPolicy())
    planned = plan.ranges[SHARD]
    assert planned.hash_range == first.hash_range
    for range_, error in ((planned, None), (structs.replace(planned, provisioned=None), OUTSIDE_HASH_RANGE)):
        found = chain.from_iterable(ShardReading(client, range_))
        assert [record.error for record in found] == [None, error]


def test_a_stream_without_a_mode_is_provisioned(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=1)

    def without_mode(_, response):
        summary = dict(response.members["StreamDescriptionSummary"])
        del summary["StreamModeDetails"]
        return response.but(StreamDescriptionSummary=summary)

    faults.answer("DescribeStreamSummary", without_mode)
    assert not client.describe().on_demand
