"""Aggregates longer than a slice, the steps of a reading, and checks of sequence numbers."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from kinesis_assets.kinesis.reading.range import Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records import aggregation
from kinesis_assets.kinesis.records.aggregation import deaggregate_slices
from kinesis_assets.kinesis.records.records import Record
from kinesis_assets.kinesis.records.wire import first_invalid_number
from kinesis_assets.kinesis.transport.concurrency import Turns
from kinesis_assets.testing import UserRecord, aggregate
from support.aggregates import deaggregate
from support.one_shard import ALL_KEYS, BEGINNING, SHARD, items
from support.timing import set_page_sizes


@pytest.fixture(autouse=True)
def slices_of_three(client):
    set_page_sizes(client, sub_records=3)


def aggregate_of(*items):
    return aggregate(UserRecord("k", b"%d" % item) for item in items)


def reading_of(client, start=BEGINNING, **bounds):
    return ShardReading(client, ShardRange(SHARD, start, Bounds(**bounds), ALL_KEYS))


def test_the_position_is_inside_an_aggregate_until_its_last_slice_is_read(put, client):
    numbers = put(b"0", aggregate_of(*range(1, 9)), b"9")
    reading = reading_of(client)
    seen = [([int(record.data) for record in records], str(reading.position)) for records in reading]
    aggregate_, last = (f"AFTER_SEQUENCE_NUMBER:{number}" for number in numbers[1:])
    assert seen == [([0, 1, 2, 3], f"{aggregate_}:2"), ([4, 5, 6], f"{aggregate_}:5"), ([7, 8, 9], last)]
    assert (reading.records, reading.end) == (10, RangeEnd.TIP)


@pytest.mark.parametrize("length", range(1, 13))
def test_ranges_of_any_length_return_each_sub_record_once(put, client, length):
    put(aggregate_of(*range(7)), b"7", aggregate_of(8, 9, 10), aggregate_of(11))
    position, seen = BEGINNING, []
    for _ in range(20):
        reading = reading_of(client, position, max_records=length)
        seen += items(reading)
        position = reading.position
    assert seen == list(range(12))


@pytest.mark.parametrize("steps", range(1, 5))
def test_a_reading_that_stops_between_two_slices_is_resumed_exactly_there(put, client, steps):
    put(b"0", aggregate_of(*range(1, 12)), b"12")
    reading = reading_of(client)
    walk = iter(reading)
    seen = [int(record.data) for _ in range(steps) for record in next(walk, [])]
    assert seen + items(reading_of(client, reading.position)) == list(range(13))


def test_slices_add_up_to_the_whole_aggregate():
    record = Record("1", 1.0, aggregate_of(*range(10)), "a")
    assert [len(part) for part in deaggregate_slices(record, ALL_KEYS, 3)] == [3, 3, 3, 1]
    assert [int(part.data) for part in deaggregate(record, ALL_KEYS)] == list(range(10))


def test_damage_in_a_later_slice_keeps_the_record_whole():
    message = aggregation.AggregatedRecord()
    message.partition_key_table.append(b"k")
    for item in range(10):
        message.records.add(partition_key_index=int(item == 9), data=b"%d" % item)
    body = message.SerializeToString()
    record = Record("1", 1.0, aggregation.MAGIC + body + aggregation._md5(body), "a")
    (only,) = deaggregate(record, ALL_KEYS)
    assert only.data == record.data
    assert "sub-record 9 has an index beyond" in only.error


def damaged(body, chance):
    """Return an encoded message of which some bytes may be others, missing or repeated."""
    for _ in range(chance.randrange(3)):
        place, byte = chance.randrange(len(body)), chance.randbytes(1)
        body = chance.choice(
            [body[:place] + byte + body[place + 1 :], body[:place] + body[place + 1 :], body[place:] + body]
        )
    return body


@pytest.mark.slow
def test_an_aggregate_that_is_parsed_in_parts_has_the_same_records_or_the_same_error(monkeypatch):
    chance = random.Random(1)
    users = [
        UserRecord(f"key-{number}", bytes(number % 200), None if number % 3 else str(number << 120))
        for number in range(250)
    ]
    body = aggregate(users)[len(aggregation.MAGIC) : -16]
    bodies = [body, *(damaged(body, chance) for _ in range(200))]
    records = [
        Record("1", 1.0, aggregation.MAGIC + each + aggregation._md5(each), "k")
        for each in [*bodies, b"\x0a" + b"\xff" * 9, b"\x0a" + b"\x80" * 9 + b"\x00"]
    ]
    expected = [deaggregate(record, ALL_KEYS) for record in records]
    assert {len(found) for found in expected} >= {1, 250}
    monkeypatch.setattr(aggregation, "_WHOLE_BYTES", 0)
    for size in (1, 100, 10_000):
        monkeypatch.setattr(aggregation, "_PART_BYTES", size)
        assert len(aggregation._parts(records[0].data)) > 1
        assert [deaggregate(record, ALL_KEYS) for record in records] == expected


def test_only_one_part_of_a_large_aggregate_is_parsed_at_a_time(monkeypatch):
    data = aggregate_of(*range(500))
    monkeypatch.setattr(aggregation, "_WHOLE_BYTES", len(data) - 1)
    monkeypatch.setattr(aggregation, "_PART_BYTES", 100)
    parts = aggregation._parse(data).parts
    assert b"".join(parts) == data[len(aggregation.MAGIC) : -16]
    assert max(map(len, parts)) < 120
    monkeypatch.setattr(aggregation, "_WHOLE_BYTES", len(data))
    assert len(aggregation._parse(data).parts) == 1


# Steps and limits


def test_no_call_is_made_after_a_stop_that_follows_a_failed_call(put, client, faults):
    put(b"0")
    faults.fail(times=1, status=400, code="ExpiredIteratorException")

    class Stopping(Turns):
        async def pause(self, seconds):
            if faults.count("GetRecords"):
                self.stop()
            await super().pause(seconds)

    reading = ShardReading(client, ShardRange(SHARD, BEGINNING, Bounds(), ALL_KEYS), turns=Stopping(1))
    assert items(reading) == []
    assert (reading.end, reading.position) == (RangeEnd.BOUND, BEGINNING)
    assert faults.count("GetRecords") == 1


def test_the_limit_of_a_request_follows_the_bytes_that_are_left(put, client, faults):
    set_page_sizes(client, smallest_request=1)
    put(*[b"%03d" % item for item in range(100)])
    faults.page_size(10)
    assert items(reading_of(client, max_bytes=60)) == list(range(20))
    limits = [call.arguments["Limit"] for call in faults.calls if call.operation == "GetRecords"]
    assert limits == [10_000, 12]


# Sequence numbers


@pytest.mark.parametrize("wrong", ["", "0", "01", "-1", "1\n", "1\n2", "x", "१", "1" * 130, " 1"])
def test_one_invalid_sequence_number_is_found_among_many(wrong):
    texts = [str(49590338271490256608559692538361571095921575989136588898 + item) for item in range(50)]
    assert first_invalid_number(pa.array(texts)) is None
    for place in (0, 25, 50):
        among = [*texts[:place], wrong, *texts[place:]]
        assert first_invalid_number(pa.array(among)) == (None if wrong == "0" else wrong)


def test_an_empty_page_has_no_invalid_sequence_number():
    assert first_invalid_number(pa.array([], pa.string())) is None
