"""Responses that are too long are requested again with fewer records, in bounded memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kinesis_assets.errors import ReadFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.reading.calls import PageLimit
from kinesis_assets.kinesis.reading.range import Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.settings import LARGEST_BODY, PageSizes
from kinesis_assets.kinesis.transport.concurrency import Turns
from kinesis_assets.kinesis.transport.signed_call import MEMORY_PER_BODY_BYTE
from support.one_shard import ALL_KEYS, BEGINNING, SHARD, data
from support.recording_limiter import RecordingLimiter
from support.timing import EXACT

MIB = 1 << 20


SIZES = PageSizes(page=16, largest_body=MIB // 2)


@pytest.fixture(params=[False, True], ids=["direct", "SDK"])
def client(stream, settings, virtual, request):
    """A client that requests at most 16 records, and accepts half a mebibyte."""
    timing = replace(EXACT, clock=virtual)
    settings = replace(settings, sdk_parser=request.param, timing=timing, page_sizes=SIZES)
    return StreamClient(stream, settings, attempts=1)


@pytest.fixture
def put(kinesis, stream):
    """Put records into the test's stream, which has one shard; return their data."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)

    def put(count):
        data = [b"%d" % number for number in range(count)]
        entries = [{"Data": each, "PartitionKey": "k"} for each in data]
        kinesis.put_records(StreamName=stream, Records=entries)
        return data

    return put


@pytest.fixture
def reading(client):
    return ShardReading(client, ShardRange(SHARD, BEGINNING, Bounds(), ALL_KEYS))


def limits(faults):
    """The limit of each GetRecords call."""
    return [call.arguments["Limit"] for call in faults.calls if call.operation == "GetRecords"]


def test_shard_whose_pages_are_too_long_is_read_with_the_limit_that_fits(put, reading, faults):
    whole = put(40)
    faults.long_page(above=4, size=MIB)
    assert data(reading) == whole
    assert reading.end is RangeEnd.TIP
    assert limits(faults) == [16, 8, 4, 4, 4, 4, 8, 4, 4, 4, 4, 4, 4]


def test_the_smaller_page_is_requested_with_the_same_iterator(put, reading, faults):
    put(20)
    faults.long_page(above=4, size=MIB)
    data(reading)
    assert faults.count("GetShardIterator") == 1


def test_records_are_read_one_by_one_if_no_larger_page_fits(put, reading, faults):
    whole = put(7)
    faults.long_page(above=1, size=MIB)
    assert data(reading) == whole
    assert limits(faults) == [16, 8, 4, 2, 1, 1, 1, 1, 2, 1, 1, 1]


def test_the_limit_grows_again_when_pages_are_shorter(put, reading, faults):
    whole = put(100)
    faults.long_page(above=2, size=MIB, times=3)
    assert data(reading) == whole
    assert limits(faults) == [16, 8, 4, *[2] * 4, *[4] * 4, *[8] * 4, *[16] * 3]


def test_a_single_record_that_is_too_long_fails_after_bounded_attempts(put, reading, faults):
    put(2)
    faults.long_page(above=0, size=MIB)
    with pytest.raises(ReadFailed, match=r"ResponseTooLong: the response has \d+ bytes, more than 524288"):
        data(reading)
    assert limits(faults) == [16, 8, 4, 2, *[1] * 6]
    assert reading.position == BEGINNING


def test_iterator_that_is_too_long_is_requested_again_and_no_limit_is_halved(put, reading, faults):
    whole = put(3)
    longer = b" " * MIB
    faults.answer("GetShardIterator", lambda _, response: response.with_body(response.body + longer), times=1)
    assert data(reading) == whole
    assert limits(faults) == [16]


def test_next_call_waits_as_long_as_after_the_largest_page(put, reading, faults, virtual):
    put(1)
    faults.long_page(above=0, size=MIB, times=1)
    data(reading)
    assert max(virtual.waits) == pytest.approx(10 * MIB / 2e6)


def test_halving_starts_at_the_limit_that_the_bounds_allow(put, client, faults):
    put(6)
    faults.long_page(above=2, size=MIB, times=2)
    assert len(data(ShardReading(client, ShardRange(SHARD, BEGINNING, Bounds(max_records=6), ALL_KEYS)))) == 6
    assert limits(faults)[:3] == [6, 3, 1]


def test_stop_ends_a_shard_whose_pages_are_too_long(put, client, faults):
    put(6)
    turns = Turns(1)
    faults.long_page(above=0, size=MIB)
    faults.answer("GetRecords", lambda *_: turns.stop())
    reading = ShardReading(client, ShardRange(SHARD, BEGINNING, Bounds(), ALL_KEYS), turns=turns)
    assert data(reading) == []
    assert (reading.end, reading.position) == (RangeEnd.BOUND, BEGINNING)
    assert limits(faults) == [16]


@pytest.mark.slow
def test_a_response_that_is_too_long_reserves_no_memory(put, stream, settings, virtual, faults):
    put(6)
    limiter = RecordingLimiter(1 << 40)
    faults.long_page(above=3, size=32 * MIB)
    bodies = []
    faults.answer("GetRecords", lambda _, response: bodies.append(len(response.body)))
    client = StreamClient(stream, replace(settings, timing=replace(EXACT, clock=virtual)), attempts=1)
    reading = ShardReading(client, ShardRange(SHARD, BEGINNING, Bounds(), ALL_KEYS), limiter=limiter)
    assert len(data(reading)) == 6
    short = [body for body in bodies if body <= LARGEST_BODY]
    assert len(short) < len(bodies)
    assert [each for each in limiter.requested if each > MEMORY_PER_BODY_BYTE * 1000] == []
    assert limiter.requested == [int(MEMORY_PER_BODY_BYTE * body) for body in short]


# PageLimit


def rejected_calls(limit, calls, fitting):
    """Count the calls that request more records than fit."""
    rejected = 0
    for _ in range(calls):
        if limit.records > fitting:
            rejected += 1
            assert limit.halve(limit.records)
        else:
            limit.note_received()
    return rejected


@pytest.mark.parametrize("fitting", [1, 2, 1000, 5000, 9999])
def test_few_calls_are_rejected_where_pages_stay_too_long(fitting):
    limit = PageLimit(10_000)
    assert rejected_calls(limit, 1000, fitting) <= 14 + 8
    assert rejected_calls(limit, 1000, fitting) <= 5


def test_the_limit_stays_between_one_and_its_maximum():
    limit = PageLimit(10_000)
    for _ in range(100):
        limit.note_received()
    assert limit.records == 10_000
    while limit.halve(limit.records):
        pass
    assert limit.records == 1
    assert rejected_calls(limit, 200, 10_000) == 0
    assert limit.records == 10_000
