"""`spark.read.format("kinesis")` reads a closed range, with the same result at every read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.records.records import RECORD_SCHEMA
from kinesis_assets.spark.data_source import KinesisDataSource
from kinesis_assets.testing import UserRecord, aggregate

MIDDLE = str(1 << 127)


@pytest.fixture
def clock(clocked):
    """The clock of the service, which the test advances."""
    return clocked.clock


@pytest.fixture
def put(clocked, stream):
    """Puts numbered records into the test's stream."""

    def put(*items, key="0"):
        entries = [
            {"Data": str(item).encode(), "PartitionKey": "k", "ExplicitHashKey": key} for item in items
        ]
        clocked.kinesis.put_records(StreamName=stream, Records=entries)

    return put


@pytest.fixture
def create(clocked, stream):
    """Creates the test's stream."""
    return lambda shards=1: clocked.kinesis.create_stream(StreamName=stream, ShardCount=shards)


@pytest.fixture
def split(clocked, stream):
    """Splits the test's shard in its middle."""
    return lambda: clocked.kinesis.split_shard(
        StreamName=stream, ShardToSplit="shardId-000000000000", NewStartingHashKey=MIDDLE
    )


@pytest.fixture
def load(clocked, spark, stream):
    """Returns a DataFrame of the test's stream."""
    spark.dataSource.register(KinesisDataSource)

    def load(**options):
        return spark.read.format("kinesis").options(**options_of(clocked, stream, **options)).load()

    return load


def options_of(clocked, stream, /, **options):
    """Return the options of a read of a stream. An option that is None is omitted."""
    place = {
        "stream": stream,
        "endpoint_url": clocked.settings.endpoint_url,
        "region_name": clocked.settings.region_name,
    }
    return {name: value for name, value in (place | options).items() if value is not None}


def reader_of(clocked, stream, /, **options):
    """Return the reader that Spark's workers use, in this process."""
    return KinesisDataSource(options_of(clocked, stream, **options)).reader(from_arrow_schema(RECORD_SCHEMA))


def at(clock):
    """Return the service's time as an option."""
    return datetime.fromtimestamp(clock.seconds, UTC).isoformat()


def items(frame):
    """Return the numbers in a DataFrame, sorted."""
    return sorted(int(row.data) for row in frame.select("data").collect())


def test_a_range_contains_exactly_the_records_before_its_end(create, put, clock, load):
    create(2)
    put(0, 1)
    put(2, key=MIDDLE)
    clock.seconds += 1
    until = at(clock)
    put(3)
    put(4, key=MIDDLE)
    clock.seconds += 10
    assert items(load(until=until)) == [0, 1, 2]


def test_a_range_begins_at_its_start(create, put, clock, load):
    create()
    put(0)
    clock.seconds += 1
    start = at(clock)
    put(1)
    clock.seconds += 1
    until = at(clock)
    clock.seconds += 10
    assert items(load(start=f"AT_TIMESTAMP:{start}", until=until)) == [1]


def test_columns_contain_the_fields_of_the_records(create, put, clock, load, stream):
    create()
    put(7)
    arrival = datetime.fromtimestamp(clock.seconds, UTC)
    clock.seconds += 10
    frame = load(until=arrival.replace(microsecond=1000).isoformat())
    assert frame.schema == from_arrow_schema(RECORD_SCHEMA)
    (row,) = frame.collect()
    assert (row.stream, row.shard_id, bytes(row.data), row.partition_key, row.error) == (
        stream,
        "shardId-000000000000",
        b"7",
        "k",
        None,
    )
    assert row.sub_sequence_number == 0
    assert row.approximate_arrival_timestamp.astimezone(UTC) == arrival


def test_records_without_a_partition_key_have_a_null_key(clocked, create, clock, load, stream):
    create(2)
    kinesis = clocked.kinesis
    arn = kinesis.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamARN"]
    kinesis.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    kinesis.update_stream_record_distribution_strategy(StreamARN=arn, RecordDistributionStrategy="AUTO")
    apart = aggregate([UserRecord("k", b"1", "0"), UserRecord("k", b"2", MIDDLE)])
    kinesis.put_records(
        StreamName=stream,
        Records=[{"Data": b"0"}, {"Data": apart}, {"Data": apart, "PartitionKey": "k"}],
    )
    clock.seconds += 1
    until = at(clock)
    clock.seconds += 10
    rows = load(until=until).select("data", "partition_key", "error").collect()
    assert sorted((bytes(row.data), row.partition_key, row.error) for row in rows) == [
        (b"0", None, None),
        *[(b"1", "k", None)] * 2,
        *[(b"2", "k", None)] * 2,
    ]


def test_repeated_reads_return_the_same_rows_although_records_were_put(create, put, clock, load):
    create()
    put(0, 1)
    clock.seconds += 1
    until = at(clock)
    clock.seconds += 10
    frame = load(until=until)
    assert items(frame) == [0, 1]
    put(2)
    clock.seconds += 10
    assert frame.count() == 2
    assert items(frame.union(frame)) == [0, 0, 1, 1]


def test_a_range_up_to_now_waits_for_late_records(create, clock, load, faults):
    create()
    until = at(clock)
    clock.seconds += 0.9

    def later(*_):
        clock.seconds += 0.5

    faults.answer("GetRecords", later)
    assert items(load(until=until)) == []
    assert clock.seconds >= datetime.fromisoformat(until).timestamp() + 2


def test_only_the_named_shards_are_read(create, put, clock, load):
    create(2)
    put(0)
    put(1, key=MIDDLE)
    clock.seconds += 10
    until = at(clock)
    clock.seconds += 10
    assert items(load(until=until, shard_ids="shardId-000000000001")) == [1]


@pytest.mark.parametrize("shards", [1, 3])
def test_empty_shards_have_no_rows(create, clock, load, shards):
    create(shards)
    until = at(clock)
    clock.seconds += 10
    assert items(load(until=until)) == []


def test_closed_and_open_shards_are_read(create, put, split, clock, load):
    create()
    put(0)
    split()
    put(1)
    put(2, key=MIDDLE)
    clock.seconds += 1
    until = at(clock)
    clock.seconds += 10
    assert items(load(until=until)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "option until is missing"),
        ({"stream": None}, "option stream, until is missing"),
        ({"until": "2026-01-31T12:00:00Z", "topic": "orders"}, "unknown option topic"),
        ({"until": "2026-01-31T12:00:00Z", "start": "AT_SEQUENCE_NUMBER:1"}, "applies to one shard"),
        (
            {"until": "2026-01-31T12:00:00Z", "start": "AT_TIMESTAMP:2026-02-01T00:00:00Z"},
            "is not before until",
        ),
        ({"until": "2026-01-31T12:00:00Z", "start": "LATEST"}, "LATEST has no fixed meaning"),
        ({"until": "2026-01-31T12:00:00Z", "start": "EARLIEST"}, "invalid position 'EARLIEST'"),
        ({"until": "2026-01-31T12:00:00"}, "is not a time with an offset"),
        ({"until": "tomorrow"}, "is not a time with an offset"),
        ({"until": "2999-01-01T00:00:00Z"}, "is in the future"),
        ({"until": "2026-01-31T12:00:00Z", "shard_ids": "shardId-9"}, "has no shard shardId-9"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value,
)
def test_an_invalid_option_is_an_error(clocked, create, stream, options, error):
    create()
    with pytest.raises(InvalidInput, match=error):
        reader_of(clocked, stream, **options).partitions()


def test_an_error_of_an_option_is_reported_by_spark(create, load):
    create()
    with pytest.raises(PySparkException, match="option until is missing"):
        load().collect()


def test_a_missing_stream_is_an_error(load):
    with pytest.raises(PySparkException, match="no-such-stream: not found"):
        load(stream="no-such-stream", until="2026-01-31T12:00:00Z").collect()


def test_a_failed_shard_fails_the_read(create, put, clock, load, faults):
    create(2)
    put(0)
    clock.seconds += 1
    until = at(clock)
    clock.seconds += 10
    faults.fail(status=400, code="AccessDeniedException", shard_id="shardId-000000000001")
    with pytest.raises(PySparkException, match=r"shardId-000000000001.*AccessDeniedException"):
        load(until=until).collect()


def test_a_stream_is_read_by_its_arn(clocked, create, put, stream, faults):
    create()
    put(1, 2)
    arn = f"arn:aws:kinesis:us-east-1:000000000000:stream/{stream}"
    clocked.clock.advance(5)
    until = at(clocked.clock)
    clocked.clock.advance(10)
    faults.calls.clear()
    reader = reader_of(clocked, arn, until=until)
    (partition,) = reader.partitions()
    rows = [row for batch in reader.read(partition) for row in batch.to_pylist()]
    assert [row["stream"] for row in rows] == [stream] * 2
    assert not [call for call in faults.calls if "StreamName" in call.arguments]


def test_each_user_record_of_an_aggregate_is_a_row(clocked, create, load, stream):
    create()
    sound = aggregate([UserRecord("k", b"\x00\xff\xfe"), UserRecord("k", b"1")])
    damaged = aggregate([UserRecord("k", b"2")])
    damaged = damaged[:-1] + bytes([damaged[-1] ^ 1])
    for entry in (b"plain", sound, damaged):
        clocked.kinesis.put_record(StreamName=stream, Data=entry, PartitionKey="k")
    clocked.clock.advance(1)
    until = at(clocked.clock)
    clocked.clock.advance(10)
    rows = load(until=until).collect()
    assert sorted((bytes(row.data), row.sub_sequence_number, row.error) for row in rows) == [
        (b"\x00\xff\xfe", 0, None),
        (b"1", 1, None),
        (b"plain", 0, None),
        (damaged, 0, "aggregate: its MD5 does not match"),
    ]
