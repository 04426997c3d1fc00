"""Pages that cannot be what the service has: refused whole, asked for again, and the shard's own error."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinesis_assets.errors import CallFailed, ReadFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.arrow import record_batch
from kinesis_assets.kinesis.records.page_checks import LATEST_ARRIVAL, check_follows, checked, checked_lag
from kinesis_assets.kinesis.records.record import Record, Records
from kinesis_assets.testing import UserRecord, aggregate
from support.timing import set_timing
from support.virtual_time import VirtualTime

SHARD = "shardId-000000000000"
ALL_KEYS = ("0", str((1 << 128) - 1))
BEGINNING = Position(PositionKind.TRIM_HORIZON)


@pytest.fixture(autouse=True)
def virtual(client):
    """The reader's time, which passes only where it waits."""
    virtual = VirtualTime()
    set_timing(client, clock=virtual)
    return virtual


@pytest.fixture(params=[False, True], ids=["own HTTP", "SDK"])
def client(stream, settings, request):
    return StreamClient(stream, replace(settings, sdk_parser=request.param), attempts=1)


@pytest.fixture
def put(kinesis, stream):
    """Puts records into the test's stream, of one shard; gives their sequence numbers."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)

    def put(*data):
        entries = [{"Data": item, "PartitionKey": "k"} for item in data]
        answer = kinesis.put_records(StreamName=stream, Records=entries)
        return [record["SequenceNumber"] for record in answer["Records"]]

    return put


@pytest.fixture
def reading_of(client):
    def reading_of(start=BEGINNING, **limits):
        return ShardReading(client, ShardRange(SHARD, start, Bounds(**limits), ALL_KEYS))

    return reading_of


def data(reading):
    return [record.data for record in chain.from_iterable(reading)]


# Repeated pages


@pytest.mark.parametrize("back", [1, 2, 3])
def test_repeated_page_is_asked_for_again_and_doubles_and_loses_nothing(put, reading_of, faults, back):
    numbers = put(b"0", b"1", b"2", b"3", b"4", b"5")
    faults.page_size(2)
    faults.repeat_page(back=back, after=1, times=2)
    reading = reading_of()
    assert data(reading) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert (reading.end, reading.position) == (RangeEnd.TIP, Position.after(numbers[-1]))
    assert faults.count("GetRecords") == 3 + 2
    again = [call.arguments for call in faults.calls if call.operation == "GetShardIterator"][1:]
    assert [each["StartingSequenceNumber"] for each in again] == [numbers[1]] * 2


def test_page_that_stays_repeated_is_the_shards_own_error(put, reading_of, faults):
    numbers = put(b"0", b"1", b"2", b"3")
    faults.page_size(2)
    faults.repeat_page(after=1)
    reading, read = reading_of(), []
    with pytest.raises(
        ReadFailed, match=f"the page starts at sequence number {numbers[1]}, which a read from"
    ):
        read.extend(chain.from_iterable(reading))
    assert [record.data for record in read] == [b"0", b"1"]
    assert (reading.end, reading.position) == (None, Position.after(numbers[1]))
    assert faults.count("GetRecords") == 1 + 6


@pytest.mark.parametrize("kind", list(PositionKind)[3:])
def test_first_page_before_an_explicit_start_is_refused(put, reading_of, faults, kind):
    numbers = put(b"0", b"1", b"2")
    faults.repeat_page(times=1)
    after = kind is PositionKind.AFTER_SEQUENCE_NUMBER
    assert data(reading_of(Position(kind, sequence_number=numbers[1]))) == [b"1", b"2"][after:]
    assert faults.count("GetRecords") == 2


def test_page_that_begins_with_the_aggregate_in_which_a_read_goes_on_is_accepted(put, reading_of, faults):
    numbers = put(aggregate([UserRecord("k", b"0"), UserRecord("k", b"1"), UserRecord("k", b"2")]), b"3")
    reading = reading_of(Position.after(numbers[0], 0))
    assert data(reading) == [b"1", b"2", b"3"]
    assert faults.count("GetRecords") == 1


def test_page_before_the_aggregate_in_which_a_read_goes_on_is_refused(put, reading_of, faults):
    numbers = put(b"0", aggregate([UserRecord("k", b"1"), UserRecord("k", b"2")]), b"3")
    faults.repeat_page(times=1)
    assert data(reading_of(Position.after(numbers[1], 0))) == [b"2", b"3"]
    assert faults.count("GetRecords") == 2


NUMBER = 10**55


@pytest.mark.parametrize(
    ("position", "accepted"),
    [
        (Position.after(str(NUMBER)), [NUMBER + 1, 10**56]),
        (Position.after(str(NUMBER), 3), [NUMBER, NUMBER + 1, 10**56]),
        (
            Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=str(NUMBER)),
            [NUMBER, NUMBER + 1, 10**56],
        ),
        (BEGINNING, [1, NUMBER]),
        (Position.parse("AT_TIMESTAMP:2026-01-31T12:00:00Z"), [1, NUMBER]),
    ],
)
def test_pages_are_compared_with_positions_as_numbers_and_as_the_position_includes_its_record(
    position, accepted
):
    refused = {1, NUMBER - 1, NUMBER} - set(accepted) if position.sequence_number else set()
    for number in accepted:
        check_follows("orders", str(number), position)
    for number in refused:
        with pytest.raises(CallFailed, match="RepeatedPage"):
            check_follows("orders", str(number), position)
    check_follows("orders", None, position)


# The order within a page


def test_page_whose_numbers_do_not_ascend_is_asked_for_again(put, reading_of, faults):
    put(b"0", b"1", b"2")
    faults.reverse_page(times=2)
    assert data(reading_of()) == [b"0", b"1", b"2"]
    assert faults.count("GetRecords") == 3


@pytest.mark.parametrize(
    "numbers",
    [[1, 1], [2, 1], [1, 3, 2], [9, 10, 9], [10, 9], [5, 6, 7, 7], [99, 100, 101, 100]],
)
def test_numbers_that_do_not_ascend_are_found(numbers):
    with pytest.raises(ValueError, match=f"number {numbers[-1]} follows {numbers[-2]} in one page"):
        checked(Records.of([Record(str(number), 1.0, b"", "k") for number in numbers]))


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=12),
    st.sampled_from([1, 7, 8, 9, 15, 16, 17, 56, 128]),
    st.integers(0, 127),
)
def test_numbers_ascend_if_and_only_if_each_is_above_the_one_before(steps, length, digit):
    """Numbers of one length that differ from a digit on, in steps of 0 to 3, some of them falling."""
    unit = 10 ** (digit % length)
    numbers = [10 ** (length - 1) + step * unit + place * (step % 2) for place, step in enumerate(steps, 1)]
    records = Records.of([Record(str(number), 1.0, b"", "k") for number in numbers])
    wrong = [place for place in range(1, len(numbers)) if numbers[place] <= numbers[place - 1]]
    if not wrong:
        assert checked(records) is records
        return
    with pytest.raises(ValueError, match=f"number {numbers[wrong[0]]} follows {numbers[wrong[0] - 1]} in"):
        checked(records)


@pytest.mark.parametrize("numbers", [[], [7], [1, 2, 3], [9, 10, 11], [99, 100, 10**55, 10**55 + 1]])
def test_numbers_that_ascend_are_accepted(numbers):
    checked(Records.of([Record(str(number), 1.0, b"", "k") for number in numbers]))


# Arrivals, and other times


WRONG_ARRIVALS = [1e20, -1e20, 1e308, -1.0, math.nan, math.inf, -math.inf, LATEST_ARRIVAL]


@pytest.mark.parametrize("seconds", WRONG_ARRIVALS)
def test_arrival_that_no_calendar_has_is_the_shards_own_error(put, reading_of, faults, seconds):
    put(b"0", b"1")
    faults.wrong_arrival(seconds)
    reading = reading_of()
    with pytest.raises(ReadFailed, match="GetRecords failed with IncompleteBody"):
        data(reading)
    assert (reading.end, reading.position, reading.records) == (None, BEGINNING, 0)


@pytest.mark.parametrize("seconds", WRONG_ARRIVALS)
def test_arrival_that_no_calendar_has_is_asked_for_again(put, reading_of, faults, seconds):
    put(b"0", b"1")
    faults.wrong_arrival(seconds, times=2)
    assert data(reading_of()) == [b"0", b"1"]


@pytest.mark.parametrize("seconds", [0.0, 1e-3, 1_763_659_200.123, math.nextafter(LATEST_ARRIVAL, 0)])
def test_every_arrival_of_the_calendar_is_accepted_and_becomes_a_time(seconds):
    records = checked(Records.of([Record("1", seconds, b"", "k")]))
    assert records[0].arrival.year in {1970, 2025, 9997, 9998}
    record_batch("orders", SHARD, records)["approximate_arrival_timestamp"].to_pylist()


def test_message_names_the_record_and_its_arrival():
    records = [Record("1", 1.0, b"", "k"), Record("2", 1e20, b"", "k"), Record("3", 1e21, b"", "k")]
    with pytest.raises(ValueError, match=r"the arrival 1e\+20 of record 2 is outside the years 1970 to 9997"):
        checked(Records.of(records))


@pytest.mark.parametrize("milliseconds", [10**20, -(10**20), 3_200_000_000_000])
def test_lag_of_more_than_a_century_is_the_shards_own_error(put, reading_of, faults, milliseconds):
    put(b"0")
    faults.answer("GetRecords", lambda _, answer: answer.but(MillisBehindLatest=milliseconds))
    with pytest.raises(ReadFailed, match="IncompleteBody"):
        data(reading_of())


def test_lag_of_the_longest_retention_is_accepted():
    assert checked_lag(366 * 86_400_000) == 366 * 86_400_000
