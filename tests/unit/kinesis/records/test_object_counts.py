"""Objects per record: counts that do not depend on the machine and must not grow."""

from __future__ import annotations

import gc
import json
import sys
from base64 import b64encode
from zlib import crc32

import msgspec
import pytest

from kinesis_assets.kinesis.records import records as checksums_module
from kinesis_assets.kinesis.records.records import checksums, record_batch
from kinesis_assets.kinesis.records.wire import WirePage

RECORDS = 10_000
MAX_BLOCKS = 5  # sequence number, arrival, data, key, and a share of the lists


def page() -> bytes:
    data = b64encode(bytes(1_000)).decode()
    records = [
        {
            "SequenceNumber": str((1 << 185) + number),
            "ApproximateArrivalTimestamp": 1_700_000_000.0 + number / 1000,
            "Data": data,
            "PartitionKey": f"key-{number}",
        }
        for number in range(RECORDS)
    ]
    return json.dumps({"Records": records, "MillisBehindLatest": 0, "NextShardIterator": "n"}).encode()


@pytest.mark.slow
def test_a_parsed_record_is_four_objects_that_the_garbage_collector_does_not_track():
    body, decoder = page(), msgspec.json.Decoder(WirePage)
    gc.collect()
    seen, blocks = len(gc.get_objects()), sys.getallocatedblocks()
    records = decoder.decode(body).to_result().records
    grown = sys.getallocatedblocks() - blocks
    assert grown / RECORDS <= MAX_BLOCKS
    assert len(gc.get_objects()) - seen < 100
    assert len(records) == RECORDS


@pytest.mark.slow
def test_the_checksum_of_a_page_needs_one_crc(monkeypatch):
    records = msgspec.json.decode(page(), type=WirePage).to_result().records
    assert {len(number) for number in records.numbers} == {len(records.numbers[0])}
    taken = []
    monkeypatch.setattr(checksums_module, "crc32", lambda data: taken.append(data) or crc32(data))
    checksums(records)
    assert len(taken) == 1


@pytest.mark.slow
def test_a_batch_keeps_no_python_object_per_record():
    records = msgspec.json.decode(page(), type=WirePage).to_result().records
    checksums(records)
    record_batch("stream", "shard", records)
    blocks = sys.getallocatedblocks()
    batch = record_batch("stream", "shard", records)
    assert (sys.getallocatedblocks() - blocks) / RECORDS < 0.01
    assert batch.num_rows == RECORDS
