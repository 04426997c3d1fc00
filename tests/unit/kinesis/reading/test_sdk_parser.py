"""The SDK's parser returns the same batches and raises the same errors as the package's own."""

from __future__ import annotations

import json
import random

import pytest

from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.reading.range import Bounds, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.records import record_batch
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.testing import UserRecord, aggregate
from support.one_shard import ALL_KEYS, BEGINNING, SHARD


@pytest.fixture
def by_sdk(stream, settings):
    """A client whose responses the SDK parses."""
    return StreamClient(stream, ClientSettings(settings.region_name, settings.endpoint_url, sdk_parser=True))


def read(client):
    """A shard's batches and the attributes of its reading."""
    reading = ShardReading(client, ShardRange(SHARD, BEGINNING, Bounds(), ALL_KEYS))
    batches = [record_batch("orders", SHARD, records) for records in reading]
    attributes = (reading.position, reading.records, reading.bytes, reading.checksum, reading.last_arrival)
    return batches, attributes, (reading.bad_records, reading.end, reading.millis_behind_latest)


@pytest.mark.slow
def test_both_parsers_give_the_same_batches(kinesis, stream, client, by_sdk):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    chance = random.Random(5)
    entries = [
        (b"", "k"),
        (bytes(range(256)) * 10, "k"),
        (chance.randbytes(1_000_000), "large"),
        ("é ключ".encode(), "ключ 🔑 \\u0000"),
        (aggregate(UserRecord(f"ключ {item}", chance.randbytes(50)) for item in range(300)), "a"),
        (aggregate([UserRecord("k", b"x")])[:-1] + b"\x00", "damaged"),
        *[(chance.randbytes(chance.randrange(2000)), f"key {item}") for item in range(200)],
    ]
    for data, key in entries:
        kinesis.put_record(StreamName=stream, Data=data, PartitionKey=key)
    batches, *attributes = read(client)
    assert sum(batch.num_rows for batch in batches) == 4 + 300 + 1 + 200
    assert read(by_sdk) == (batches, *attributes)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"Records": null, "MillisBehindLatest": 0}',
        b'{"Records": [], "NextShardIterator": "abc"}',
        b'{"Records": [{"SequenceNumber": "1", "ApproximateArri',
        b'{"Records": [{"SequenceNumber": "1"}], "MillisBehindLatest": 0}',
        b'{"Records": [{"Data": "!"}], "MillisBehindLatest": 0}',
        b"<html>proxy</html>",
        *(
            json.dumps(
                {
                    "Records": [
                        {
                            "SequenceNumber": number,
                            "ApproximateArrivalTimestamp": 1.5,
                            "Data": "",
                            "PartitionKey": key,
                        }
                    ],
                    "MillisBehindLatest": 0,
                }
            ).encode()
            for number, key in (("-1", "k"), (1, "k"), ("\ud83d", "k"), ("1", "\ud83d"), ("1", 5))
        ),
    ],
)
@pytest.mark.parametrize("parser", ["client", "by_sdk"])
def test_a_body_that_is_not_a_page_fails_the_call_with_both_parsers(
    kinesis, stream, faults, request, parser, body
):
    client = request.getfixturevalue(parser)
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    iterator = client.shard_iterator(SHARD, BEGINNING)
    faults.answer("GetRecords", lambda _, response: response.with_body(body))
    with pytest.raises(CallFailed, match="IncompleteBody"):
        client.get_records(iterator, 10)


def test_the_settings_of_a_client_keep_the_parser(by_sdk):
    assert by_sdk.settings.sdk_parser
