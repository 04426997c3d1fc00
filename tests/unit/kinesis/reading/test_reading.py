"""Reading one shard's range: where it begins and where it ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kinesis_assets.errors import InvalidInput, ShardStalled
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from support.one_shard import ALL_KEYS, BEGINNING, SHARD, items
from support.timing import set_timing

# Where a range begins


def test_trim_horizon_reads_everything_in_order(put, reading_of, faults):
    put(*range(10))
    faults.page_size(4)
    assert items(reading_of()) == list(range(10))


def test_resume_after_a_record_is_exclusive(put, reading_of):
    numbers = put(0, 1, 2)
    assert items(reading_of(Position.after(numbers[1]))) == [2]


def test_start_at_a_record_is_inclusive(put, reading_of):
    numbers = put(0, 1, 2)
    start = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=numbers[1])
    assert items(reading_of(start)) == [1, 2]


def test_start_at_a_time_is_inclusive(clocked, clocked_client, stream):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    begin = clocked.clock.seconds
    for item in range(3):
        clocked.clock.seconds = begin + item / 1000
        clocked.kinesis.put_record(StreamName=stream, Data=str(item).encode(), PartitionKey="k")
    start = Position.at_timestamp(datetime.fromtimestamp(begin, UTC) + timedelta(milliseconds=1))
    assert items(ShardReading(clocked_client, ShardRange(SHARD, start, Bounds(), ALL_KEYS))) == [1, 2]


def test_the_next_reading_begins_at_the_position_of_the_previous_one(put, reading_of):
    numbers = put(0, 1)
    reading = reading_of()
    assert items(reading) == [0, 1]
    put(2)
    assert reading.position == Position.after(numbers[-1])
    assert items(reading_of(reading.position)) == [2]


@pytest.mark.parametrize("start", ["TRIM_HORIZON", "AT_TIMESTAMP:2026-01-31T12:00:00Z"])
def test_an_empty_read_keeps_the_position(kinesis, stream, reading_of, start):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    reading = reading_of(Position.parse(start))
    assert items(reading) == []
    assert reading.position == Position.parse(start)
    assert reading.end is RangeEnd.TIP


def test_an_empty_resume_keeps_the_position(put, reading_of):
    last = Position.after(put(0)[-1])
    reading = reading_of(last)
    assert items(reading) == []
    assert reading.position == last


# Where it ends


def test_the_tip_ends_the_range_and_is_dated_by_the_service(clocked, clocked_client, stream):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    clocked.clock.seconds += 1000.9
    reading = ShardReading(clocked_client, ShardRange(SHARD, BEGINNING, Bounds(), ALL_KEYS))
    assert items(reading) == []
    assert reading.tip_time == datetime.fromtimestamp(int(clocked.clock.seconds), UTC)
    assert reading.millis_behind_latest == 0


def test_max_records_is_exact_across_pages(put, reading_of, faults):
    numbers = put(*range(10))
    faults.page_size(3)
    reading = reading_of(max_records=7)
    assert items(reading) == list(range(7))
    assert (reading.end, reading.records) == (RangeEnd.BOUND, 7)
    assert reading.position == Position.after(numbers[6])


def test_range_of_as_many_records_as_there_are_ends_at_the_tip(put, reading_of):
    put(0, 1)
    reading = reading_of(max_records=2)
    assert items(reading) == [0, 1]
    assert reading.end is RangeEnd.TIP


def test_max_bytes_ends_the_range_before_the_record_that_exceeds_it(put, reading_of):
    numbers = put(1, 22, 333, 4)
    reading = reading_of(max_bytes=5)
    assert items(reading) == [1, 22]
    assert (reading.end, reading.bytes) == (RangeEnd.BOUND, 3)
    assert reading.position == Position.after(numbers[1])


def test_max_bytes_counts_across_pages(put, reading_of, faults):
    put(11, 22, 33, 44)
    faults.page_size(1)
    assert items(reading_of(max_bytes=6)) == [11, 22, 33]


def test_the_first_record_is_read_even_if_it_exceeds_max_bytes(put, reading_of):
    put(333, 4)
    reading = reading_of(max_bytes=1)
    assert items(reading) == [333]
    assert reading.end is RangeEnd.BOUND


def test_the_first_record_of_a_resumed_range_is_read_even_if_it_exceeds_max_bytes(put, reading_of):
    numbers = put(1, 333)
    assert items(reading_of(Position.after(numbers[0]), max_bytes=1)) == [333]


def test_until_is_exclusive(clocked, clocked_client, stream):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    begin = clocked.clock.seconds
    for item in range(5):
        clocked.clock.seconds = begin + item / 1000
        clocked.kinesis.put_record(StreamName=stream, Data=str(item).encode(), PartitionKey="k")
    clocked.clock.seconds = begin + 2
    until = datetime.fromtimestamp(begin, UTC) + timedelta(milliseconds=3)
    reading = ShardReading(clocked_client, ShardRange(SHARD, BEGINNING, Bounds(until=until), ALL_KEYS))
    assert items(reading) == [0, 1, 2]
    assert reading.end is RangeEnd.BOUND
    assert reading.last_arrival == until - timedelta(milliseconds=1)
    assert reading.millis_behind_latest == 1997
    rest = ShardReading(clocked_client, ShardRange(SHARD, reading.position, Bounds(), ALL_KEYS))
    assert items(rest) == [3, 4]


def test_a_range_until_before_the_first_record_is_empty_and_keeps_the_position(put, reading_of):
    put(0)
    reading = reading_of(until=datetime(2026, 1, 1, tzinfo=UTC))
    assert items(reading) == []
    assert (reading.end, reading.position) == (RangeEnd.BOUND, BEGINNING)


def test_no_page_is_requested_after_max_seconds(put, reading_of, faults):
    put(*range(4))
    faults.page_size(2)
    reading = reading_of(max_seconds=1e-9)
    assert items(reading) == [0, 1]
    assert reading.end is RangeEnd.TIME_LIMIT


def test_max_seconds_counts_from_the_first_record(put, reading_of, faults):
    put(0, 1)
    faults.page_size(1)
    faults.empty_page(times=2)
    assert items(reading_of(max_seconds=1e-9)) == [0]


def test_closed_shard_ends_after_its_last_record_only(put, split, reading_of, faults):
    numbers = put(*range(5))
    split()
    faults.page_size(2)
    reading = reading_of()
    ends = [reading.end for _ in reading] + [reading.end]
    assert ends == [None, None, None, RangeEnd.SHARD_END]
    assert reading.position == Position.after(numbers[-1])


def test_a_bound_before_the_last_record_of_a_closed_shard_is_not_its_end(put, split, reading_of):
    put(0, 1, 2)
    split()
    reading = reading_of(max_records=2)
    assert items(reading) == [0, 1]
    assert reading.end is RangeEnd.BOUND


def test_last_page_of_a_closed_shard_cut_by_a_bound_is_not_its_end(put, split, reading_of):
    put(1, 2, 3)
    split()
    reading = reading_of(max_bytes=2)
    assert items(reading) == [1, 2]
    assert reading.end is RangeEnd.BOUND


def test_closed_shard_without_records_is_at_its_end(kinesis, stream, split, reading_of):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    split()
    reading = reading_of()
    assert items(reading) == []
    assert (reading.end, reading.position) == (RangeEnd.SHARD_END, BEGINNING)


def test_reading_continues_through_empty_pages_behind_the_tip(put, reading_of, faults):
    put(0, 1)
    faults.empty_page(times=3)
    reading = reading_of()
    assert items(reading) == [0, 1]
    assert reading.end is RangeEnd.TIP


def test_a_shard_with_empty_pages_for_too_long_is_stalled(put, reading_of, faults, client):
    put(0)
    set_timing(client, stall_seconds=0.3)
    faults.empty_page()
    reading = reading_of()
    with pytest.raises(ShardStalled, match=f"{SHARD}.*TRIM_HORIZON.*1000 ms behind"):
        items(reading)
    assert (reading.end, reading.position) == (None, BEGINNING)


def test_a_tip_earlier_than_tip_not_before_does_not_end_the_range(clocked, clocked_client, stream, faults):
    kinesis = clocked.kinesis
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    not_before = datetime.fromtimestamp(clocked.clock.seconds + 3, UTC)

    def a_second_later(*_):
        clocked.clock.seconds += 1

    faults.answer("GetRecords", a_second_later)
    range_ = ShardRange(SHARD, BEGINNING, Bounds(), ALL_KEYS, tip_not_before=not_before)
    reading = ShardReading(clocked_client, range_)
    assert items(reading) == []
    assert reading.tip_time == not_before
    assert faults.count("GetRecords") == 4


@pytest.mark.parametrize("bound", ["max_records", "max_bytes", "max_seconds"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_bound_that_is_not_positive_is_invalid_input(bound, value):
    with pytest.raises(InvalidInput, match=bound):
        Bounds(**{bound: value})


# Faults


def test_the_tip_ends_a_range_whose_until_is_in_the_future(put, reading_of):
    put(0)
    reading = reading_of(until=datetime.now(UTC) + timedelta(hours=1))
    assert items(reading) == [0]
    assert reading.end is RangeEnd.TIP


def test_a_reading_returns_only_the_records_of_its_shard(put, split, client):
    put(0)
    split()
    put(1)
    read = [
        items(ShardReading(client, ShardRange(shard.shard_id, BEGINNING, Bounds(), ALL_KEYS)))
        for shard in client.list_shards()
    ]
    assert sorted(read) == [[], [0], [1]]
    assert read[0] == [0]


def test_lag_after_a_bound_is_the_age_of_the_first_unread_record(clocked, clocked_client, stream):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    for item in (1, 22):
        clocked.kinesis.put_record(StreamName=stream, Data=str(item).encode(), PartitionKey="k")
        clocked.clock.seconds += 30
    reading = ShardReading(clocked_client, ShardRange(SHARD, BEGINNING, Bounds(max_bytes=2), ALL_KEYS))
    assert items(reading) == [1]
    assert reading.millis_behind_latest == 30_000
    assert reading.tip_time is None
