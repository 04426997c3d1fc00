"""An aggregate of more sub-records than are taken out at once, and how much is asked for."""

from __future__ import annotations

import threading
import time
from itertools import chain

import pyarrow as pa
import pytest

from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading import call_pacing
from kinesis_assets.kinesis.reading.range import RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records import aggregation
from kinesis_assets.kinesis.records.aggregation import deaggregate, deaggregate_slices
from kinesis_assets.kinesis.records.page_checks import first_invalid_number
from kinesis_assets.kinesis.records.record import Record, Records
from kinesis_assets.kinesis.transport.awaitables import Pause
from kinesis_assets.testing import UserRecord, aggregate
from support.timing import set_timing

SHARD = "shardId-000000000000"
ALL_KEYS = ("0", str((1 << 128) - 1))
BEGINNING = Position.parse("TRIM_HORIZON")


@pytest.fixture(autouse=True)
def slices_of_three(client, monkeypatch):
    monkeypatch.setattr(aggregation, "SLICE", 3)
    set_timing(client, seconds_between_calls=0.0)


@pytest.fixture
def put(kinesis, stream):
    kinesis.create_stream(StreamName=stream, ShardCount=1)

    def put(*data):
        entries = [{"Data": item, "PartitionKey": "k"} for item in data]
        answer = kinesis.put_records(StreamName=stream, Records=entries)
        return [record["SequenceNumber"] for record in answer["Records"]]

    return put


def of(*items):
    return aggregate(UserRecord("k", b"%d" % item) for item in items)


def reading_of(client, start=BEGINNING, **bounds):
    return ShardReading(client, ShardRange(SHARD, start, Bounds(**bounds), ALL_KEYS))


def data(reading):
    return [int(record.data) for record in chain.from_iterable(reading)]


def test_an_aggregate_comes_in_slices_and_its_position_is_inside_until_the_last(put, client):
    numbers = put(b"0", of(*range(1, 9)), b"9")
    reading = reading_of(client)
    seen = [([int(record.data) for record in records], str(reading.position)) for records in reading]
    aggregate_, last = (f"AFTER_SEQUENCE_NUMBER:{number}" for number in numbers[1:])
    assert seen == [([0, 1, 2, 3], f"{aggregate_}:2"), ([4, 5, 6], f"{aggregate_}:5"), ([7, 8, 9], last)]
    assert (reading.records, reading.end) == (10, RangeEnd.TIP)


@pytest.mark.parametrize("most", range(1, 13))
def test_ranges_of_any_length_give_each_sub_record_once(put, client, most):
    put(of(*range(7)), b"7", of(8, 9, 10), of(11))
    position, seen = BEGINNING, []
    for _ in range(20):
        reading = reading_of(client, position, max_records=most)
        seen += data(reading)
        position = reading.position
    assert seen == list(range(12))


@pytest.mark.parametrize("steps", range(1, 5))
def test_who_goes_between_two_slices_goes_on_exactly_there(put, client, steps):
    put(b"0", of(*range(1, 12)), b"12")
    reading = reading_of(client)
    walk = iter(reading)
    seen = [int(record.data) for _ in range(steps) for record in next(walk, [])]
    assert seen + data(reading_of(client, reading.position)) == list(range(13))


def test_slices_are_the_whole():
    record = Record("1", 1.0, of(*range(10)), "a")
    assert [len(part) for part in deaggregate_slices(record, ALL_KEYS)] == [3, 3, 3, 1]
    assert [int(part.data) for part in deaggregate(record, ALL_KEYS)] == list(range(10))


def test_what_is_unsound_in_a_later_slice_leaves_the_record_whole():
    message = aggregation.AggregatedRecord()
    message.partition_key_table.append(b"k")
    for item in range(10):
        message.records.add(partition_key_index=int(item == 9), data=b"%d" % item)
    body = message.SerializeToString()
    record = Record("1", 1.0, aggregation.MAGIC + body + aggregation._md5(body), "a")
    (only,) = deaggregate(record, ALL_KEYS)
    assert only.data == record.data
    assert "sub-record 9 has an index beyond" in only.error


# Steps and limits


def own(steps):
    """Records and pauses; all else is waited out."""
    for step in steps:
        if isinstance(step, (Pause, Records)):
            yield step
        else:
            step.block()


class NeverAsleep:
    """The machine's clock, on which nothing may wait."""

    monotonic, time = staticmethod(time.monotonic), staticmethod(time.time)

    def sleep(self, seconds):
        pytest.fail(f"a step waited {seconds} s")


def test_steps_tell_pauses_and_never_wait(put, client, faults):
    set_timing(client, seconds_between_calls=60.0, clock=NeverAsleep())
    put(b"0", b"1")
    faults.page_size(1)
    pauses = [step.seconds for step in own(reading_of(client).steps()) if isinstance(step, Pause)]
    assert 30 < max(pauses) <= 60


def test_who_is_told_to_stop_after_a_failed_call_makes_no_other(put, client, faults):
    put(b"0")
    stop = threading.Event()
    faults.throttle()
    range_ = ShardRange(SHARD, BEGINNING, Bounds(), ALL_KEYS)
    reading = ShardReading(client, range_, stop=stop)
    steps = own(reading.steps())
    faults.clear()
    faults.fail(times=1, status=400, code="ExpiredIteratorException")
    next(steps), next(steps)
    assert faults.count("GetRecords") == 1
    stop.set()
    assert list(steps) == []
    assert (reading.end, reading.position) == (RangeEnd.BOUND, BEGINNING)
    assert faults.count("GetRecords") == 1


def test_no_more_is_asked_for_than_the_bytes_that_are_left_hold(put, client, faults, monkeypatch):
    monkeypatch.setattr(call_pacing, "MIN_LIMIT", 1)
    put(*[b"%03d" % item for item in range(100)])
    faults.page_size(10)
    assert data(reading_of(client, max_bytes=60)) == list(range(20))
    limits = [call.arguments["Limit"] for call in faults.calls if call.operation == "GetRecords"]
    assert limits == [10_000, 12]


# Numbers


@pytest.mark.parametrize("wrong", ["", "0", "01", "-1", "1\n", "1\n2", "x", "१", "1" * 130, " 1"])
def test_the_one_that_is_no_number_is_found_among_many(wrong):
    texts = [str(49590338271490256608559692538361571095921575989136588898 + item) for item in range(50)]
    assert first_invalid_number(pa.array(texts)) is None
    for place in (0, 25, 50):
        among = [*texts[:place], wrong, *texts[place:]]
        assert first_invalid_number(pa.array(among)) == (None if wrong == "0" else wrong)


def test_no_numbers_are_fine():
    assert first_invalid_number(pa.array([], pa.string())) is None
