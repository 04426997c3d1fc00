"""Implausible pages are refused, requested again, and finally fail their shard."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinesis_assets.errors import ReadFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.kinesis.records.records import Record, Records, record_batch
from kinesis_assets.kinesis.records.wire import (
    LATEST_ARRIVAL,
    RepeatedPage,
    check_follows,
    checked,
    checked_lag,
)
from kinesis_assets.kinesis.settings import ReadTiming
from kinesis_assets.testing import UserRecord, aggregate
from support.one_shard import BEGINNING, SHARD, data


@pytest.fixture(params=[False, True], ids=["direct", "SDK"])
def client(stream, settings, virtual, request):
    settings = replace(settings, sdk_parser=request.param, timing=ReadTiming(clock=virtual))
    return StreamClient(stream, settings, attempts=1)


# Repeated pages


@pytest.mark.parametrize("back", [1, 2, 3])
def test_a_repeated_page_is_requested_again_without_loss_or_duplicates(put, reading_of, faults, back):
    numbers = put(b"0", b"1", b"2", b"3", b"4", b"5")
    faults.page_size(2)
    faults.repeat_page(back=back, after=1, times=2)
    reading = reading_of()
    assert data(reading) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert (reading.end, reading.position) == (RangeEnd.TIP, Position.after(numbers[-1]))
    assert faults.count("GetRecords") == 3 + 2
    again = [call.arguments for call in faults.calls if call.operation == "GetShardIterator"][1:]
    assert [each["StartingSequenceNumber"] for each in again] == [numbers[1]] * 2


def test_a_page_that_stays_repeated_fails_the_shard(put, reading_of, faults):
    numbers = put(b"0", b"1", b"2", b"3")
    faults.page_size(2)
    faults.repeat_page(after=1)
    reading, read = reading_of(), []
    with pytest.raises(ReadFailed, match=rf"\b{numbers[1]}\b"):
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


def test_a_page_that_begins_with_the_partly_read_aggregate_is_accepted(put, reading_of, faults):
    numbers = put(aggregate([UserRecord("k", b"0"), UserRecord("k", b"1"), UserRecord("k", b"2")]), b"3")
    reading = reading_of(Position.after(numbers[0], 0))
    assert data(reading) == [b"1", b"2", b"3"]
    assert faults.count("GetRecords") == 1


def test_a_page_that_begins_before_the_partly_read_aggregate_is_refused(put, reading_of, faults):
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
def test_the_first_number_of_a_page_is_compared_with_the_position_as_an_integer(position, accepted):
    refused = {1, NUMBER - 1, NUMBER} - set(accepted) if position.sequence_number else set()
    for number in accepted:
        check_follows(str(number), position)
    for number in refused:
        with pytest.raises(RepeatedPage):
            check_follows(str(number), position)
    check_follows(None, position)


# The order within a page


def test_a_page_whose_numbers_do_not_ascend_is_requested_again(put, reading_of, faults):
    put(b"0", b"1", b"2")
    faults.reverse_page(times=2)
    assert data(reading_of()) == [b"0", b"1", b"2"]
    assert faults.count("GetRecords") == 3


@pytest.mark.parametrize(
    "numbers",
    [[1, 1], [2, 1], [1, 3, 2], [9, 10, 9], [10, 9], [5, 6, 7, 7], [99, 100, 101, 100]],
)
def test_numbers_that_do_not_ascend_are_found(numbers):
    with pytest.raises(ValueError, match=rf"\b{numbers[-1]}\b.*\b{numbers[-2]}\b"):
        checked(Records.of([Record(str(number), 1.0, b"", "k") for number in numbers]))


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=12),
    st.sampled_from([1, 7, 8, 9, 15, 16, 17, 56, 128]),
    st.integers(0, 127),
)
def test_numbers_ascend_if_and_only_if_each_is_above_the_one_before(steps, length, digit):
    """The numbers have one length and differ from one digit on, in steps of 0 to 3, some descending."""
    unit = 10 ** (digit % length)
    numbers = [10 ** (length - 1) + step * unit + place * (step % 2) for place, step in enumerate(steps, 1)]
    records = Records.of([Record(str(number), 1.0, b"", "k") for number in numbers])
    wrong = [place for place in range(1, len(numbers)) if numbers[place] <= numbers[place - 1]]
    if not wrong:
        assert checked(records) is records
        return
    with pytest.raises(ValueError, match=rf"\b{numbers[wrong[0]]}\b.*\b{numbers[wrong[0] - 1]}\b"):
        checked(records)


@pytest.mark.parametrize("numbers", [[], [7], [1, 2, 3], [9, 10, 11], [99, 100, 10**55, 10**55 + 1]])
def test_numbers_that_ascend_are_accepted(numbers):
    checked(Records.of([Record(str(number), 1.0, b"", "k") for number in numbers]))


# Arrival times and lag


WRONG_ARRIVALS = [1e20, -1e20, 1e308, -1.0, math.nan, math.inf, -math.inf, LATEST_ARRIVAL]


@pytest.mark.parametrize("seconds", WRONG_ARRIVALS)
def test_an_arrival_out_of_range_fails_the_shard(put, reading_of, faults, seconds):
    put(b"0", b"1")
    faults.wrong_arrival(seconds)
    reading = reading_of()
    with pytest.raises(ReadFailed, match="GetRecords failed with IncompleteBody"):
        data(reading)
    assert (reading.end, reading.position, reading.records) == (None, BEGINNING, 0)


@pytest.mark.parametrize("seconds", WRONG_ARRIVALS)
def test_a_page_with_an_arrival_out_of_range_is_requested_again(put, reading_of, faults, seconds):
    put(b"0", b"1")
    faults.wrong_arrival(seconds, times=2)
    assert data(reading_of()) == [b"0", b"1"]


@pytest.mark.parametrize("seconds", [0.0, 1e-3, 1_763_659_200.123, math.nextafter(LATEST_ARRIVAL, 0)])
def test_every_arrival_in_range_is_accepted_and_converted(seconds):
    records = checked(Records.of([Record("1", seconds, b"", "k")]))
    assert records[0].arrival.year in {1970, 2025, 9997, 9998}
    record_batch("orders", SHARD, records)["approximate_arrival_timestamp"].to_pylist()


def test_the_error_names_the_record_and_its_arrival():
    records = [Record("1", 1.0, b"", "k"), Record("2", 1e20, b"", "k"), Record("3", 1e21, b"", "k")]
    with pytest.raises(ValueError, match=r"1e\+20 of record 2 "):
        checked(Records.of(records))


@pytest.mark.parametrize("milliseconds", [10**20, -(10**20), 3_200_000_000_000])
def test_a_lag_of_more_than_a_century_fails_the_shard(put, reading_of, faults, milliseconds):
    put(b"0")
    faults.answer("GetRecords", lambda _, response: response.but(MillisBehindLatest=milliseconds))
    with pytest.raises(ReadFailed, match="IncompleteBody"):
        data(reading_of())


def test_lag_of_the_longest_retention_is_accepted():
    assert checked_lag(366 * 86_400_000) == 366 * 86_400_000
