"""Aggregates are read as sub-records, and a range may end between any two of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import chain

import pytest

from kinesis_assets.errors import ReadFailed, TooManyBadRecords
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.aggregation import MAGIC, OUTSIDE_HASH_RANGE
from kinesis_assets.kinesis.records.records import record_batch
from kinesis_assets.kinesis.settings import PAGE_LIMIT
from kinesis_assets.testing import UserRecord, aggregate
from support.one_shard import ALL_KEYS, BEGINNING, LAST_KEY, SHARD, data
from support.timing import set_page_sizes

WRONG_MD5 = "aggregate: its MD5 does not match"


def together(*data, key=None):
    """An aggregate of these payloads."""
    return aggregate(UserRecord("k", item, key) for item in data)


def damaged(*data):
    """An aggregate with one flipped bit."""
    sound = together(*data)
    return sound[:-1] + bytes([sound[-1] ^ 1])


ENTRIES = [b"0", together(b"1", b"2", b"3"), b"4", together(b"5"), together(b"6", b"7")]
ITEMS = [b"%d" % item for item in range(8)]
PLACES = [(0, None), (1, 0), (1, 1), (1, None), (2, None), (3, None), (4, 0), (4, None)]
"""The position after each item: the index of its entry, and of its sub-record unless that is the last one."""


def position_after(items, numbers):
    """The position of a reading that has returned this number of `ITEMS`."""
    entry, sub = PLACES[items - 1]
    return Position.after(numbers[entry], sub)


# Sub-records


def test_batches_have_a_row_for_each_sub_record_with_its_place_in_the_aggregate(put, reading_of):
    numbers = put(*ENTRIES)
    (records,) = reading_of()
    batch = record_batch("orders", SHARD, records)
    assert batch["data"].to_pylist() == ITEMS
    assert batch["sequence_number"].to_pylist() == [numbers[entry] for entry, _ in PLACES]
    assert batch["sub_sequence_number"].to_pylist() == [0, 0, 1, 2, 0, 0, 0, 1]
    assert batch["error"].to_pylist() == [None] * 8


def test_sub_records_are_counted_one_by_one(put, reading_of):
    put(*ENTRIES)
    reading = reading_of()
    assert data(reading) == ITEMS
    assert (reading.records, reading.bytes) == (8, 8)
    assert (reading.bad_records, reading.outside_hash_range) == (0, 0)
    assert reading.end is RangeEnd.TIP


@pytest.mark.parametrize("payload", [b"\x00\xff\xfe", b"", MAGIC])
def test_the_payload_of_a_sub_record_is_unchanged(put, reading_of, payload):
    put(together(b"a", payload, b"b"))
    assert data(reading_of()) == [b"a", payload, b"b"]


def test_an_aggregate_larger_than_the_page_limit_is_read_completely(put, reading_of):
    items = [b"%d" % item for item in range(PAGE_LIMIT + 50)]
    put(b"before", together(*items), b"after")
    reading = reading_of()
    records = list(chain.from_iterable(reading))
    assert [record.data for record in records] == [b"before", *items, b"after"]
    assert [record.sub_sequence_number for record in records[1:-1]] == list(range(len(items)))


def test_a_range_may_end_inside_an_aggregate_larger_than_the_page_limit(put, reading_of):
    items = [b"%d" % item for item in range(PAGE_LIMIT + 50)]
    (number,) = put(together(*items))
    reading = reading_of(max_records=PAGE_LIMIT + 48)
    assert data(reading) == items[:-2]
    assert reading.position == Position.after(number, PAGE_LIMIT + 47)
    assert data(reading_of(reading.position)) == items[-2:]


# Bounds inside an aggregate


@pytest.mark.parametrize("items", range(1, 9))
def test_max_records_may_end_inside_an_aggregate_and_the_next_reading_resumes_exactly(put, reading_of, items):
    numbers = put(*ENTRIES)
    reading = reading_of(max_records=items)
    assert data(reading) == ITEMS[:items]
    assert reading.position == position_after(items, numbers)
    assert data(reading_of(reading.position)) == ITEMS[items:]


@pytest.mark.parametrize("items", range(1, 9))
def test_max_bytes_may_end_inside_an_aggregate_and_the_next_reading_resumes_exactly(put, reading_of, items):
    numbers = put(*ENTRIES)
    reading = reading_of(max_bytes=items)
    assert data(reading) == ITEMS[:items]
    assert reading.position == position_after(items, numbers)
    assert data(reading_of(reading.position)) == ITEMS[items:]


@pytest.mark.parametrize("step", [1, 2, 3])
def test_short_ranges_return_each_sub_record_once(put, reading_of, step):
    put(*ENTRIES)
    position, read = BEGINNING, []
    while len(read) < len(ITEMS):
        # Positions are kept as text or JSON between two runs.
        reading = reading_of(Position.parse(str(position)), max_records=step)
        taken = data(reading)
        assert len(taken) == min(step, len(ITEMS) - len(read))
        read += taken
        position = reading.position
    assert read == ITEMS
    assert data(reading_of(position)) == []


def test_the_first_sub_record_is_read_even_if_it_exceeds_max_bytes(put, reading_of):
    (number,) = put(together(b"0", b"large", b"2"))
    reading = reading_of(Position.after(number, 0), max_bytes=1)
    assert data(reading) == [b"large"]
    assert reading.position == Position.after(number, 1)


def test_bound_at_an_aggregates_end_is_a_position_after_the_whole_record(put, reading_of):
    number, _ = put(together(b"0", b"1"), together(b"2", b"3"))
    reading = reading_of(max_records=2)
    assert data(reading) == [b"0", b"1"]
    assert reading.position == Position.after(number)


def test_reading_after_an_aggregates_last_sub_record_begins_with_the_next_record(put, reading_of):
    number, _ = put(together(b"0", b"1"), b"2")
    assert data(reading_of(Position.after(number, 1))) == [b"2"]


def test_start_at_an_aggregate_is_its_first_sub_record(put, reading_of):
    _, number = put(b"0", together(b"1", b"2"))
    start = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=number)
    assert data(reading_of(start)) == [b"1", b"2"]


def test_a_failed_reading_from_inside_an_aggregate_keeps_its_position(put, reading_of, faults):
    (number,) = put(together(b"0", b"1"))
    start = Position.after(number, 0)
    faults.fail(code="AccessDeniedException", status=400)
    reading = reading_of(start)
    with pytest.raises(ReadFailed):
        data(reading)
    assert reading.position == start


def test_an_aggregate_that_arrived_at_until_is_excluded_completely(clocked, stream):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    first = clocked.kinesis.put_record(StreamName=stream, Data=together(b"0", b"1"), PartitionKey="k")
    clocked.clock.advance(0.001)
    until = datetime.fromtimestamp(clocked.clock.seconds, UTC)
    clocked.kinesis.put_record(StreamName=stream, Data=together(b"2", b"3"), PartitionKey="k")
    client = StreamClient(stream, clocked.settings)
    reading = ShardReading(client, ShardRange(SHARD, BEGINNING, Bounds(until=until), ALL_KEYS))
    assert data(reading) == [b"0", b"1"]
    assert (reading.end, reading.position) == (RangeEnd.BOUND, Position.after(first["SequenceNumber"]))
    later = Bounds(until=until + timedelta(milliseconds=1))
    assert data(ShardReading(client, ShardRange(SHARD, reading.position, later, ALL_KEYS))) == [b"2", b"3"]


def test_the_lag_inside_an_aggregate_is_the_age_of_the_aggregate(clocked, stream):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    clocked.kinesis.put_record(StreamName=stream, Data=together(b"0", b"1"), PartitionKey="k")
    clocked.clock.advance(30)
    client = StreamClient(stream, clocked.settings)
    reading = ShardReading(client, ShardRange(SHARD, BEGINNING, Bounds(max_records=1), ALL_KEYS))
    assert data(reading) == [b"0"]
    assert reading.millis_behind_latest == 30_000


def test_a_bound_inside_the_last_aggregate_of_a_closed_shard_is_not_its_end(put, reading_of, kinesis, stream):
    put(together(b"0", b"1"))
    kinesis.split_shard(StreamName=stream, ShardToSplit=SHARD, NewStartingHashKey=str(1 << 127))
    reading = reading_of(max_records=1)
    assert (data(reading), reading.end) == ([b"0"], RangeEnd.BOUND)
    rest = reading_of(reading.position)
    assert (data(rest), rest.end) == ([b"1"], RangeEnd.SHARD_END)


# A consumer that stops early


@pytest.fixture
def short_lists(client):
    """Return a page in several lists, each of as many aggregates as make three records."""
    set_page_sizes(client, page=3)


@pytest.mark.usefixtures("short_lists")
def test_a_consumer_that_stops_within_a_page_resumes_after_the_records_it_received(put, reading_of):
    numbers = put(together(b"0", b"1"), together(b"2", b"3"), together(b"4", b"5"))
    reading = reading_of()
    lists = iter(reading)
    assert [record.data for record in next(lists)] == [b"0", b"1", b"2", b"3"]
    lists.close()
    assert (reading.records, reading.end) == (4, None)
    assert reading.position == Position.after(numbers[1])
    assert data(reading_of(reading.position)) == [b"4", b"5"]


@pytest.mark.usefixtures("short_lists")
def test_a_consumer_that_stops_after_each_list_receives_each_record_once(put, reading_of):
    put(*ENTRIES)
    position, read = BEGINNING, []
    while len(read) < len(ITEMS):
        reading = reading_of(position)
        lists = iter(reading)
        read += [record.data for record in next(lists)]
        lists.close()
        position = reading.position
    assert read == ITEMS


@pytest.mark.usefixtures("short_lists")
def test_a_bound_in_a_later_list_of_a_page_is_exact(put, reading_of):
    numbers = put(together(b"0", b"1"), together(b"2", b"3"), together(b"4", b"5"))
    reading = reading_of(max_records=5)
    assert data(reading) == [b"0", b"1", b"2", b"3", b"4"]
    assert reading.position == Position.after(numbers[2], 0)
    assert data(reading_of(reading.position)) == [b"5"]


@pytest.mark.usefixtures("short_lists")
def test_a_resumed_reading_skips_sub_records_only_in_its_first_list(put, reading_of):
    numbers = put(together(b"0", b"1"), together(b"2", b"3"), together(b"4", b"5"))
    assert data(reading_of(Position.after(numbers[0], 0))) == [b"1", b"2", b"3", b"4", b"5"]


# Damaged aggregates, and sub-records of other shards


def test_an_aggregate_with_a_wrong_md5_is_one_marked_record(put, reading_of):
    bad = damaged(b"1", b"2")
    numbers = put(together(b"0"), bad, b"3")
    reading = reading_of()
    records = list(chain.from_iterable(reading))
    assert [(record.data, record.sub_sequence_number, record.error) for record in records] == [
        (b"0", 0, None),
        (bad, 0, WRONG_MD5),
        (b"3", 0, None),
    ]
    assert (reading.records, reading.bytes) == (3, 2 + len(bad))
    assert (reading.bad_records, reading.outside_hash_range) == (1, 0)
    assert reading.position == Position.after(numbers[-1])


def test_sub_records_of_another_shard_are_marked_and_counted_separately_from_damaged_records(put, reading_of):
    mixed = aggregate(
        [UserRecord("k", b"0", "7"), UserRecord("k", b"1", "8"), UserRecord("k", b"2", str(LAST_KEY))]
    )
    put(mixed, damaged(b"3"))
    reading = reading_of(hash_range=("0", "7"))
    records = list(chain.from_iterable(reading))
    errors = [record.error for record in records]
    assert errors == [None, OUTSIDE_HASH_RANGE, OUTSIDE_HASH_RANGE, WRONG_MD5]
    assert (reading.bad_records, reading.outside_hash_range) == (1, 2)


def test_records_beyond_a_bound_are_not_counted(put, reading_of):
    put(together(b"0", b"1", key=str(LAST_KEY)), damaged(b"2"))
    reading = reading_of(hash_range=("0", "7"), max_records=1)
    assert data(reading) == [b"0"]
    assert (reading.bad_records, reading.outside_hash_range) == (0, 1)


BAD = [damaged(b"bad %d" % number) for number in range(4)]
MIXED = [b"0", BAD[0], together(b"1", b"2"), BAD[1], BAD[2], b"3", BAD[3], b"4"]


@pytest.mark.parametrize(
    ("allowed", "read", "next_"),
    [
        (0, [b"0"], 1),
        (1, [b"0", BAD[0], b"1", b"2"], 3),
        (2, [b"0", BAD[0], b"1", b"2", BAD[1]], 4),
        (3, [b"0", BAD[0], b"1", b"2", BAD[1], BAD[2], b"3"], 6),
    ],
)
@pytest.mark.parametrize("page_size", [1, 10])
def test_a_range_ends_before_the_bad_record_that_exceeds_max_bad_records(
    put, reading_of, faults, allowed, read, next_, page_size
):
    numbers = put(*MIXED)
    faults.page_size(page_size)
    reading = reading_of(max_bad_records=allowed)
    taken = []
    with pytest.raises(TooManyBadRecords) as caught:
        taken.extend(chain.from_iterable(reading))
    assert [record.data for record in taken] == read
    assert (reading.records, reading.bad_records, reading.end) == (len(read), allowed, None)
    assert reading.position == Position.after(numbers[next_ - 1])
    assert caught.value.shard_id == SHARD
    assert f"record {numbers[next_]} is damaged ({WRONG_MD5})" in str(caught.value)
    assert f"max_bad_records allows {allowed} in a run" in str(caught.value)


@pytest.mark.parametrize("allowed", [4, 5, None])
def test_as_many_bad_records_as_allowed_are_read_with_all_the_rest(put, reading_of, allowed):
    put(*MIXED)
    reading = reading_of(max_bad_records=allowed)
    assert data(reading) == [b"0", BAD[0], b"1", b"2", BAD[1], BAD[2], b"3", BAD[3], b"4"]
    assert (reading.bad_records, reading.end) == (4, RangeEnd.TIP)


def test_sub_records_of_another_shard_are_not_bad_records(put, reading_of):
    put(together(b"0", b"1", key=str(LAST_KEY)))
    reading = reading_of(hash_range=("0", "7"), max_bad_records=0)
    assert data(reading) == [b"0", b"1"]
    assert reading.end is RangeEnd.TIP


def test_a_range_that_ends_before_the_bad_record_does_not_fail(put, reading_of):
    put(b"0", damaged(b"1"))
    reading = reading_of(max_bad_records=0, max_bytes=1)
    assert data(reading) == [b"0"]
    assert reading.end is RangeEnd.BOUND


def test_a_bad_record_that_arrived_after_until_does_not_fail_the_range(clocked, stream):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    clocked.kinesis.put_record(StreamName=stream, Data=b"0", PartitionKey="k")
    clocked.clock.advance(1)
    until = datetime.fromtimestamp(clocked.clock.seconds, UTC)
    clocked.kinesis.put_record(StreamName=stream, Data=damaged(b"1"), PartitionKey="k")
    range_ = ShardRange(SHARD, BEGINNING, Bounds(until=until), ALL_KEYS, max_bad_records=0)
    reading = ShardReading(StreamClient(stream, clocked.settings), range_)
    assert data(reading) == [b"0"]
    assert reading.end is RangeEnd.BOUND
