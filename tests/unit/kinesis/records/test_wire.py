"""Parsing pages and records: every byte is preserved, and a truncated page is refused."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.records.records import RECORD_SCHEMA, Record, record_batch

SHARD = "shardId-000000000000"
BEGINNING = Position(PositionKind.TRIM_HORIZON)


def first_page(client):
    page, _ = client.get_records(client.shard_iterator(SHARD, BEGINNING), 10_000)
    return page


@pytest.mark.parametrize(
    "data",
    [bytes(range(256)), b"", b"\x00", "é€😀".encode(), b"\xa5" * ((1 << 20) - 1)],
    ids=["every byte", "empty", "zero", "utf-8", "1 MiB including the key"],
)
def test_data_is_preserved_byte_for_byte(kinesis, stream, client, data):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, Data=data, PartitionKey="k")
    (record,) = first_page(client).records
    assert record.data == data


def test_arrival_is_exact_to_the_millisecond(clocked, stream):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    begin = int(clocked.clock.seconds)
    for ms in range(0, 1000, 7):
        clocked.clock.seconds = begin + ms / 1000
        clocked.kinesis.put_record(StreamName=stream, Data=b"x", PartitionKey="k")
    page = first_page(StreamClient(stream, clocked.settings))
    assert [record.arrival_ms for record in page.records] == [begin * 1000 + ms for ms in range(0, 1000, 7)]


@pytest.mark.parametrize("second", [1_763_659_200, 1_795_195_705, 4_102_444_799])
def test_every_millisecond_of_a_second_is_read_exactly(second):
    for ms in range(1000):
        for text in (f"{second}.{ms:03}", f"{second // 10**9}.{second % 10**9:09}{ms:03}E9"):
            arrival = json.loads(text)
            assert Record("1", arrival, b"", "k").arrival_ms == second * 1000 + ms, text


def test_a_page_has_the_same_records_as_with_boto3(kinesis, stream, client):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_records(
        StreamName=stream,
        Records=[{"Data": f"{number}é".encode(), "PartitionKey": f"ключ {number}"} for number in range(100)],
    )
    iterator = kinesis.get_shard_iterator(StreamName=stream, ShardId=SHARD, ShardIteratorType="TRIM_HORIZON")
    plain = kinesis.get_records(ShardIterator=iterator["ShardIterator"])
    page = first_page(client)
    assert page.millis_behind_latest == plain["MillisBehindLatest"]
    assert [
        (record.sequence_number, record.data, record.partition_key, record.arrival_ms)
        for record in page.records
    ] == [
        (
            record["SequenceNumber"],
            record["Data"],
            record["PartitionKey"],
            round(record["ApproximateArrivalTimestamp"].timestamp() * 1000),
        )
        for record in plain["Records"]
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"NextShardIterator": "abc", "MillisBehindLatest": 0}',
        b'{"Records": null, "MillisBehindLatest": 0}',
        b'{"Records": [], "NextShardIterator": "abc"}',
        b'{"Records": [{"SequenceNumber": "1", "ApproximateArri',
        b"<html>proxy</html>",
    ],
    ids=[
        "empty body",
        "empty object",
        "without records",
        "null records",
        "without lag",
        "truncated",
        "not JSON",
    ],
)
def test_a_body_that_is_not_a_complete_page_fails_the_call(kinesis, stream, client, faults, body):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    faults.answer("GetRecords", lambda _, response: response.with_body(body))
    with pytest.raises(CallFailed) as caught:
        first_page(client)
    assert caught.value.code == "IncompleteBody"


@pytest.mark.parametrize("data", ["eA", "eA=", "e!A=", "eA==eA==", "e A=", "é€==", "eA=\n"])
def test_data_that_is_not_base64_fails_the_call(kinesis, stream, client, faults, data):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    record = {
        "SequenceNumber": "1",
        "ApproximateArrivalTimestamp": 1.5,
        "Data": data,
        "PartitionKey": "k",
    }
    faults.answer("GetRecords", lambda _, response: response.but(Records=[record]))
    with pytest.raises(CallFailed, match=r"IncompleteBody: .*base64"):
        first_page(client)


@pytest.mark.slow
def test_every_truncation_of_a_page_is_detected(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, Data=b"data", PartitionKey="k")
    whole = []
    faults.answer("GetRecords", lambda _, response: whole.append(response.body))
    first_page(client)
    for length in range(len(whole[0])):
        faults.clear()
        faults.answer(
            "GetRecords", lambda _, response, length=length: response.with_body(response.body[:length])
        )
        with pytest.raises(CallFailed, match="IncompleteBody"):
            first_page(client)


def test_explicit_nulls_are_treated_as_absent(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    record = {
        "SequenceNumber": "1",
        "ApproximateArrivalTimestamp": 1.5,
        "Data": "eA==",
        "PartitionKey": "k",
        "EncryptionType": None,
    }
    body = {"Records": [record], "NextShardIterator": None, "MillisBehindLatest": 0, "ChildShards": None}
    faults.answer("GetRecords", lambda _, response: response.with_body(json.dumps(body).encode()))
    page = first_page(client)
    assert list(page.records) == [Record("1", 1.5, b"x", "k")]
    assert page.next_shard_iterator is None


def test_unknown_members_are_ignored(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    record = {
        "SequenceNumber": "1",
        "ApproximateArrivalTimestamp": 1.5,
        "Data": "eA==",
        "PartitionKey": "k",
        "SubSequenceNumber": 7,
        "Error": "later",
    }
    faults.answer("GetRecords", lambda _, response: response.but(Later={"more": 1}, Records=[record]))
    assert list(first_page(client).records) == [Record("1", 1.5, b"x", "k")]


def test_batch_has_the_records_columns_in_their_order():
    records = [Record("9", 1_763_659_200.123, b"\x00", "k"), Record("10", 1_763_659_200.999, b"", "é")]
    batch = record_batch("orders", SHARD, records)
    assert batch.schema == RECORD_SCHEMA
    assert batch.drop_columns(["approximate_arrival_timestamp"]).to_pylist() == [
        {
            "stream": "orders",
            "shard_id": SHARD,
            "sequence_number": number,
            "sub_sequence_number": 0,
            "partition_key": key,
            "data": data,
            "error": None,
        }
        for number, key, data in [("9", "k", b"\x00"), ("10", "é", b"")]
    ]
    assert batch["approximate_arrival_timestamp"].cast(pa.int64()).to_pylist() == [
        1_763_659_200_123_000,
        1_763_659_200_999_000,
    ]
