"""Reading one shard's range: where it begins, where it ends, and what is kept after any error."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain

import pytest

from kinesis_assets.errors import InvalidInput, ReadFailed, ShardStalled
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.read_timing import ReadTiming
from kinesis_assets.kinesis.reading.range import RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from support.timing import READING, set_timing

SHARD = "shardId-000000000000"
ALL_KEYS = ("0", str((1 << 128) - 1))
BEGINNING = Position(PositionKind.TRIM_HORIZON)
MIDDLE = str(1 << 127)


@pytest.fixture
def put(kinesis, stream):
    """Puts records of numbered data into the test's stream, of one shard; gives their sequence numbers."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)

    def put(*data):
        entries = [{"Data": str(item).encode(), "PartitionKey": "k"} for item in data]
        answer = kinesis.put_records(StreamName=stream, Records=entries)
        return [record["SequenceNumber"] for record in answer["Records"]]

    return put


@pytest.fixture
def split(kinesis, stream):
    """Closes the test's shard."""
    return lambda: kinesis.split_shard(StreamName=stream, ShardToSplit=SHARD, NewStartingHashKey=MIDDLE)


@pytest.fixture
def reading_of(client):
    """A reading of the test's shard."""

    def reading_of(start=BEGINNING, **bounds):
        return ShardReading(client, ShardRange(SHARD, start, Bounds(**bounds), ALL_KEYS))

    return reading_of


def data(reading):
    """What a reading hands out, to its end."""
    return [int(record.data) for record in chain.from_iterable(reading)]


# Where a range begins


def test_trim_horizon_reads_everything_in_order(put, reading_of, faults):
    put(*range(10))
    faults.page_size(4)
    assert data(reading_of()) == list(range(10))


def test_resume_after_a_record_is_exclusive(put, reading_of):
    numbers = put(0, 1, 2)
    assert data(reading_of(Position.after(numbers[1]))) == [2]


def test_start_at_a_record_is_inclusive(put, reading_of):
    numbers = put(0, 1, 2)
    start = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=numbers[1])
    assert data(reading_of(start)) == [1, 2]


def test_start_at_a_time_is_inclusive(clocked, stream):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    begin = clocked.clock.seconds
    for item in range(3):
        clocked.clock.seconds = begin + item / 1000
        clocked.kinesis.put_record(StreamName=stream, Data=str(item).encode(), PartitionKey="k")
    start = Position.at_timestamp(datetime.fromtimestamp(begin, UTC) + timedelta(milliseconds=1))
    client = StreamClient(stream, clocked.settings)
    assert data(ShardReading(client, ShardRange(SHARD, start, Bounds(), ALL_KEYS))) == [1, 2]


def test_reading_tells_where_the_next_one_begins(put, reading_of):
    numbers = put(0, 1)
    reading = reading_of()
    assert data(reading) == [0, 1]
    put(2)
    assert reading.position == Position.after(numbers[-1])
    assert data(reading_of(reading.position)) == [2]


@pytest.mark.parametrize("start", ["TRIM_HORIZON", "AT_TIMESTAMP:2026-01-31T12:00:00Z"])
def test_empty_read_leaves_the_position_as_it_was(kinesis, stream, reading_of, start):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    reading = reading_of(Position.parse(start))
    assert data(reading) == []
    assert reading.position == Position.parse(start)
    assert reading.end is RangeEnd.TIP


def test_empty_resume_leaves_the_position_as_it_was(put, reading_of):
    last = Position.after(put(0)[-1])
    reading = reading_of(last)
    assert data(reading) == []
    assert reading.position == last


# Where it ends


def test_tip_ends_the_range_and_its_time_is_the_services(clocked, stream):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    clocked.clock.seconds += 1000.9
    reading = ShardReading(
        StreamClient(stream, clocked.settings), ShardRange(SHARD, BEGINNING, Bounds(), ALL_KEYS)
    )
    assert data(reading) == []
    assert reading.tip_time == datetime.fromtimestamp(int(clocked.clock.seconds), UTC)
    assert reading.millis_behind_latest == 0


def test_most_records_are_exact_over_pages(put, reading_of, faults):
    numbers = put(*range(10))
    faults.page_size(3)
    reading = reading_of(max_records=7)
    assert data(reading) == list(range(7))
    assert (reading.end, reading.records) == (RangeEnd.BOUND, 7)
    assert reading.position == Position.after(numbers[6])


def test_range_of_as_many_records_as_there_are_ends_at_the_tip(put, reading_of):
    put(0, 1)
    reading = reading_of(max_records=2)
    assert data(reading) == [0, 1]
    assert reading.end is RangeEnd.TIP


def test_most_bytes_end_the_range_before_the_record_that_exceeds(put, reading_of):
    numbers = put(1, 22, 333, 4)
    reading = reading_of(max_bytes=5)
    assert data(reading) == [1, 22]
    assert (reading.end, reading.bytes) == (RangeEnd.BOUND, 3)
    assert reading.position == Position.after(numbers[1])


def test_most_bytes_count_over_pages(put, reading_of, faults):
    put(11, 22, 33, 44)
    faults.page_size(1)
    assert data(reading_of(max_bytes=6)) == [11, 22, 33]


def test_first_record_is_taken_whatever_its_bytes(put, reading_of):
    put(333, 4)
    reading = reading_of(max_bytes=1)
    assert data(reading) == [333]
    assert reading.end is RangeEnd.BOUND


def test_first_record_of_a_resumed_range_is_taken_whatever_its_bytes(put, reading_of):
    numbers = put(1, 333)
    assert data(reading_of(Position.after(numbers[0]), max_bytes=1)) == [333]


def test_until_is_exclusive(clocked, stream):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    begin = clocked.clock.seconds
    for item in range(5):
        clocked.clock.seconds = begin + item / 1000
        clocked.kinesis.put_record(StreamName=stream, Data=str(item).encode(), PartitionKey="k")
    clocked.clock.seconds = begin + 2
    until = datetime.fromtimestamp(begin, UTC) + timedelta(milliseconds=3)
    client = StreamClient(stream, clocked.settings)
    reading = ShardReading(client, ShardRange(SHARD, BEGINNING, Bounds(until=until), ALL_KEYS))
    assert data(reading) == [0, 1, 2]
    assert reading.end is RangeEnd.BOUND
    assert reading.last_arrival == until - timedelta(milliseconds=1)
    assert reading.millis_behind_latest == 1997
    rest = ShardReading(client, ShardRange(SHARD, reading.position, Bounds(), ALL_KEYS))
    assert data(rest) == [3, 4]


def test_range_until_before_the_first_record_is_empty_and_moves_nothing(put, reading_of):
    put(0)
    reading = reading_of(until=datetime(2026, 1, 1, tzinfo=UTC))
    assert data(reading) == []
    assert (reading.end, reading.position) == (RangeEnd.BOUND, BEGINNING)


def test_most_seconds_begin_no_further_page(put, reading_of, faults):
    put(*range(4))
    faults.page_size(2)
    reading = reading_of(max_seconds=1e-9)
    assert data(reading) == [0, 1]
    assert reading.end is RangeEnd.TIME_LIMIT


def test_most_seconds_count_from_the_first_record(put, reading_of, faults):
    put(0, 1)
    faults.page_size(1)
    faults.empty_page(times=2)
    assert data(reading_of(max_seconds=1e-9)) == [0]


def test_closed_shard_ends_after_its_last_record_only(put, split, reading_of, faults):
    numbers = put(*range(5))
    split()
    faults.page_size(2)
    reading = reading_of()
    ends = [reading.end for _ in reading] + [reading.end]
    assert ends == [None, None, None, RangeEnd.SHARD_END]
    assert reading.position == Position.after(numbers[-1])


def test_closed_shard_is_not_at_its_end_when_a_bound_comes_first(put, split, reading_of):
    put(0, 1, 2)
    split()
    reading = reading_of(max_records=2)
    assert data(reading) == [0, 1]
    assert reading.end is RangeEnd.BOUND


def test_last_page_of_a_closed_shard_cut_by_a_bound_is_not_its_end(put, split, reading_of):
    put(1, 2, 3)
    split()
    reading = reading_of(max_bytes=2)
    assert data(reading) == [1, 2]
    assert reading.end is RangeEnd.BOUND


def test_closed_shard_without_records_is_at_its_end(kinesis, stream, split, reading_of):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    split()
    reading = reading_of()
    assert data(reading) == []
    assert (reading.end, reading.position) == (RangeEnd.SHARD_END, BEGINNING)


def test_empty_pages_behind_the_tip_are_read_on(put, reading_of, faults):
    put(0, 1)
    faults.empty_page(times=3)
    reading = reading_of()
    assert data(reading) == [0, 1]
    assert reading.end is RangeEnd.TIP


def test_empty_pages_for_too_long_are_a_stalled_shard(put, reading_of, faults, client):
    put(0)
    set_timing(client, stall_seconds=0.3)
    faults.empty_page()
    reading = reading_of()
    with pytest.raises(ShardStalled, match=f"{SHARD}.*TRIM_HORIZON.*1000 ms behind"):
        data(reading)
    assert (reading.end, reading.position) == (None, BEGINNING)


def test_tip_counts_only_in_an_answer_given_late_enough(clocked, stream, faults):
    kinesis = clocked.kinesis
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    not_before = datetime.fromtimestamp(clocked.clock.seconds + 3, UTC)

    def a_second_later(*_):
        clocked.clock.seconds += 1

    faults.answer("GetRecords", a_second_later)
    range_ = ShardRange(SHARD, BEGINNING, Bounds(), ALL_KEYS, tip_not_before=not_before)
    reading = ShardReading(StreamClient(stream, clocked.settings), range_)
    assert data(reading) == []
    assert reading.tip_time == not_before
    assert faults.count("GetRecords") == 4


@pytest.mark.parametrize("bound", ["max_records", "max_bytes", "max_seconds"])
@pytest.mark.parametrize("value", [0, -1])
def test_bound_that_lets_nothing_through_is_invalid_input(bound, value):
    with pytest.raises(InvalidInput, match=bound):
        Bounds(**{bound: value})


# Faults on the way


def test_expired_iterator_is_taken_anew_at_the_exact_position(put, reading_of, faults):
    numbers = put(*range(6))
    faults.page_size(2)
    faults.expire(after=1, times=1)
    assert data(reading_of()) == list(range(6))
    first, second = (call.arguments for call in faults.calls if call.operation == "GetShardIterator")
    assert first["ShardIteratorType"] == "TRIM_HORIZON"
    assert (second["ShardIteratorType"], second["StartingSequenceNumber"]) == (
        "AFTER_SEQUENCE_NUMBER",
        numbers[1],
    )


def test_iterator_that_expires_between_pages_loses_and_doubles_nothing(clocked, stream, faults):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    for item in range(6):
        clocked.kinesis.put_record(StreamName=stream, Data=str(item).encode(), PartitionKey="k")
    faults.page_size(2)
    reading = ShardReading(
        StreamClient(stream, clocked.settings), ShardRange(SHARD, BEGINNING, Bounds(), ALL_KEYS)
    )
    read = []
    for records in reading:
        read += [int(record.data) for record in records]
        assert read == list(range(len(read)))
        clocked.clock.seconds += 301
    assert len(read) == 6
    assert faults.count("GetShardIterator") == 3


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_cut_body_is_read_again_without_loss_or_double(put, reading_of, faults, kept):
    put(*range(6))
    faults.page_size(2)
    faults.cut_body(kept=kept, after=1, times=1)
    assert data(reading_of()) == list(range(6))
    assert faults.count("GetRecords") == 4


@pytest.mark.real_time
def test_reader_gives_up_after_bounded_tries_and_names_shard_and_position(put, reading_of, faults):
    numbers = put(*range(4))
    faults.page_size(2)
    faults.answer("GetRecords", lambda _, answer: answer.with_body(b"{}"), after=1)
    reading = reading_of()
    with pytest.raises(ReadFailed) as caught:
        data(reading)
    assert caught.value.shard_id == SHARD
    assert f"AFTER_SEQUENCE_NUMBER:{numbers[1]}" in str(caught.value)
    assert faults.count("GetRecords") == 1 + 6


@pytest.mark.real_time
def test_tries_are_counted_for_each_page(put, reading_of, faults):
    put(*range(4))
    faults.page_size(1)
    # Every other answer is cut: more cuts in all than one page would survive.
    faults.answer(
        "GetRecords",
        lambda _, answer: answer.with_body(b"{}") if faults.count("GetRecords") % 2 else None,
    )
    assert data(reading_of()) == [0, 1, 2, 3]


def test_error_after_some_pages_leaves_the_truth_about_them(put, reading_of, faults):
    numbers = put(*range(6))
    faults.page_size(2)
    faults.fail(status=400, code="AccessDeniedException", after=2)
    reading = reading_of()
    read = []
    with pytest.raises(ReadFailed, match="AccessDeniedException"):
        read.extend(int(record.data) for records in reading for record in records)
    assert reading.position == Position.after(numbers[3])
    assert (reading.records, reading.bytes, reading.end) == (4, 4, None)


def test_error_that_no_retry_helps_is_not_retried(put, reading_of, faults):
    put(0)
    faults.fail(status=400, code="AccessDeniedException")
    with pytest.raises(ReadFailed):
        data(reading_of())
    assert faults.count("GetRecords") == 1


@pytest.mark.parametrize("operation", ["GetRecords", "GetShardIterator"])
def test_resource_not_found_is_never_the_shards_end(put, reading_of, faults, operation):
    put(0)
    faults.fail(operation, status=400, code="ResourceNotFoundException")
    reading = reading_of()
    with pytest.raises(ReadFailed, match="ResourceNotFoundException"):
        data(reading)
    assert (reading.end, reading.position) == (None, BEGINNING)


def test_stream_deleted_while_read_is_a_failed_read(kinesis, put, stream, reading_of, faults):
    put(0, 1)
    faults.page_size(1)
    reading = reading_of()
    pages = iter(reading)
    next(pages)
    kinesis.delete_stream(StreamName=stream)
    with pytest.raises(ReadFailed):
        next(pages)
    assert reading.end is None


@pytest.mark.usefixtures("sdk_waits")
@pytest.mark.parametrize(
    "trouble", [("ProvisionedThroughputExceededException", 400), ("InternalFailure", 500)]
)
def test_passing_trouble_loses_and_doubles_nothing(put, reading_of, faults, trouble):
    put(*range(4))
    faults.page_size(2)
    faults.answer(
        "GetRecords",
        lambda _, answer: answer.error(*trouble) if faults.count("GetRecords") in (1, 3, 4) else None,
    )
    assert data(reading_of()) == [0, 1, 2, 3]


@pytest.mark.real_time
def test_page_is_asked_for_at_most_five_times_a_second(put, reading_of, faults):
    put(*range(11))
    faults.page_size(1)
    data(reading_of())
    times = [call.at for call in faults.calls if call.operation == "GetRecords"]
    assert len(times) == 11
    assert times[-1] - times[0] >= 10 * 0.2 - 0.2  # the first may have been long on its way


def test_tip_ends_a_range_whose_time_is_still_to_come(put, reading_of):
    put(0)
    reading = reading_of(until=datetime.now(UTC) + timedelta(hours=1))
    assert data(reading) == [0]
    assert reading.end is RangeEnd.TIP


def test_shard_has_its_own_records_alone(put, split, client):
    put(0)
    split()
    put(1)
    read = [
        data(ShardReading(client, ShardRange(shard.shard_id, BEGINNING, Bounds(), ALL_KEYS)))
        for shard in client.list_shards()
    ]
    assert sorted(read) == [[], [0], [1]]
    assert read[0] == [0]


def test_lag_after_a_bound_is_the_age_of_the_first_unread_record(clocked, stream):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    for item in (1, 22):
        clocked.kinesis.put_record(StreamName=stream, Data=str(item).encode(), PartitionKey="k")
        clocked.clock.seconds += 30
    client = StreamClient(stream, clocked.settings)
    reading = ShardReading(client, ShardRange(SHARD, BEGINNING, Bounds(max_bytes=2), ALL_KEYS))
    assert data(reading) == [1]
    assert reading.millis_behind_latest == 30_000
    assert reading.tip_time is None


# Throttling, idle spans, closed shards


@pytest.fixture
def worker(stream, settings):
    """A client as a Spark task has it: the SDK tries nothing again; back-off takes no time."""
    timing = ReadTiming(page_retries=READING.page_retries)
    return StreamClient(stream, replace(settings, timing=timing), attempts=1)


@pytest.fixture
def patient(worker):
    """A reading by that client."""
    return lambda **fields: ShardReading(worker, ShardRange(SHARD, BEGINNING, Bounds(), ALL_KEYS, **fields))


@pytest.mark.real_time
@pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "KMSThrottlingException"])
def test_throttling_is_waited_out_however_often_it_comes(put, patient, faults, code):
    put(*range(3))
    faults.throttle(code=code, times=12)
    assert data(patient()) == [0, 1, 2]
    assert faults.count("GetShardIterator") == 1


def test_throttling_without_end_is_told_when_the_shard_counts_as_stalled(put, patient, faults, worker):
    set_timing(worker, stall_seconds=0.5)
    put(0)
    faults.throttle()
    with pytest.raises(ReadFailed, match="ProvisionedThroughputExceeded"):
        data(patient())


@pytest.mark.parametrize("status", [500, 503])
def test_failures_of_the_service_are_tried_again(put, patient, faults, status):
    put(0, 1)
    faults.fail(status=status, times=2)
    assert data(patient()) == [0, 1]


@pytest.mark.real_time
def test_empty_pages_that_come_nearer_to_the_tip_are_no_stall(put, reading_of, faults, client):
    set_timing(client, stall_seconds=0.3)
    put(0)
    behind = iter(range(80_000, 0, -10_000))
    faults.answer(
        "GetRecords",
        lambda call, answer: answer.but(
            Records=[], MillisBehindLatest=next(behind), NextShardIterator=call.arguments["ShardIterator"]
        ),
        times=8,
    )
    assert data(reading_of()) == [0]


def test_empty_pages_that_come_nearer_by_less_than_the_time_they_take_are_a_stall(
    put, reading_of, faults, client
):
    set_timing(client, stall_seconds=0.5)
    put(0)
    behind = itertools.count(10**6, -1)
    faults.answer(
        "GetRecords",
        lambda call, answer: answer.but(
            Records=[], MillisBehindLatest=next(behind), NextShardIterator=call.arguments["ShardIterator"]
        ),
    )
    with pytest.raises(ShardStalled):
        data(reading_of())


def test_closed_shard_ends_at_its_null_iterator_though_the_tip_was_told_before(
    put, split, patient, faults, kinesis, stream
):
    put(0, 1)
    split()
    after = kinesis.get_shard_iterator(StreamName=stream, ShardId=SHARD, ShardIteratorType="LATEST")
    faults.answer(
        "GetRecords",
        lambda _, answer: answer.but(NextShardIterator=after["ShardIterator"], MillisBehindLatest=0),
        times=1,
    )
    reading = patient(closed=True)
    assert data(reading) == [0, 1]
    assert reading.end is RangeEnd.SHARD_END


def test_page_of_many_bytes_is_followed_by_the_time_they_take(put, patient, faults, worker):
    set_timing(worker, bytes_per_second=10)
    put(10_000, 20_000)
    faults.page_size(1)
    data(patient())
    first, second, *_ = (call.at for call in faults.calls if call.operation == "GetRecords")
    assert second - first >= 0.4  # not its pace of 0.2 s
