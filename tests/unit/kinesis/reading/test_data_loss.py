"""Detection of records that may have expired unread, and reading after such a gap."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kinesis_assets.errors import DataLost, ShardThrottled
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.data_loss import Expiry, Gap, OnDataLoss
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.record import Records
from kinesis_assets.kinesis.transport.awaitables import Pause, to_thread
from kinesis_assets.kinesis.transport.event_loop import EventLoop
from kinesis_assets.kinesis.transport.memory_limiter import MemoryLimiter
from kinesis_assets.testing import Clock, Faults, UserRecord, aggregate
from support.recording_limiter import RecordingLimiter
from support.timing import READING

if TYPE_CHECKING:
    from collections.abc import Callable

SHARD = "shardId-000000000000"
ALL_KEYS = ("0", str((1 << 128) - 1))
BEGINNING = Position(PositionKind.TRIM_HORIZON)
MIDDLE = str(1 << 127)
CONTINUE = "continue"


@dataclass
class OneShard:
    """A stream of one shard that keeps records for 24 hours, and the service's clock."""

    clock: Clock
    kinesis: Any
    stream: str
    client: StreamClient
    faults: Faults

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.seconds, UTC)

    def later(self, **duration: float) -> None:
        self.clock.advance(timedelta(**duration).total_seconds())

    def expire(self) -> None:
        """Delete all records, as the service does once their retention has passed."""
        self.faults.trim(self.stream)

    def put(self, *items: int | bytes) -> list[str]:
        data = [item if isinstance(item, bytes) else str(item).encode() for item in items]
        entries = [{"Data": content, "PartitionKey": "k"} for content in data]
        answer = self.kinesis.put_records(StreamName=self.stream, Records=entries)
        return [record["SequenceNumber"] for record in answer["Records"]]

    def reading(
        self,
        start: Position,
        complete_until: datetime,
        on_data_loss: OnDataLoss = "fail",
        retention_hours: int = 24,
    ) -> ShardReading:
        """A reading of a shard that has been read completely up to a time."""
        expiry = Expiry(
            complete_until=complete_until, retention_hours=retention_hours, on_data_loss=on_data_loss
        )
        range_ = ShardRange(SHARD, start, Bounds(), ALL_KEYS, expiry=expiry)
        return ShardReading(self.client, range_)


@pytest.fixture
def shard(clocked: Any, faults: Faults, stream: str) -> OneShard:
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    client = StreamClient(stream, replace(clocked.settings, timing=READING))
    return OneShard(clocked.clock, clocked.kinesis, stream, client, faults)


def data(reading, between: Callable[[], object] = lambda: None):
    """Read to the end of the range and return the data; call `between` after each page."""
    items = []
    for records in reading:
        items += [int(record.data) for record in records]
        between()
    return items


# When a loss is possible


@pytest.mark.parametrize("passed", [{}, {"hours": 23}, {"hours": 24, "seconds": -2}])
def test_no_loss_is_reported_within_the_retention_period(shard, passed):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(**passed)
    shard.expire()  # earlier than the retention allows
    shard.put(1)
    assert data(shard.reading(Position.after(read), since)) == [1]


# The service's time is known in whole seconds, rounded down: almost one more may have passed.
@pytest.mark.parametrize("passed", [{"hours": 24, "seconds": -1}, {"hours": 24}, {"days": 300}])
def test_a_loss_is_reported_from_the_first_second_in_which_it_is_possible(shard, passed):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(**passed)
    shard.expire()
    shard.put(1)
    reading = shard.reading(Position.after(read), since)
    with pytest.raises(DataLost):
        data(reading)
    assert (reading.position, reading.records, reading.end) == (Position.after(read), 0, None)


@pytest.mark.parametrize(("lowest", "lost"), [(24, True), (26, False), (168, False)])
def test_the_lowest_known_retention_counts_and_not_the_current_one(shard, lowest, lost):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=25)
    shard.expire()
    shard.put(1)
    reading = shard.reading(Position.after(read), since, retention_hours=lowest)
    if lost:
        with pytest.raises(DataLost):
            data(reading)
    else:
        assert data(reading) == [1]


def test_a_loss_is_reported_for_an_idle_shard(shard):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    with pytest.raises(DataLost, match="first available record: nothing"):
        data(shard.reading(Position.after(read), since))


def test_a_loss_is_reported_for_a_closed_shard_before_its_end(shard):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=20)
    shard.kinesis.split_shard(StreamName=shard.stream, ShardToSplit=SHARD, NewStartingHashKey=MIDDLE)
    shard.later(hours=10)
    reading = shard.reading(Position.after(read), since)
    with pytest.raises(DataLost, match="first available record: nothing"):
        data(reading)
    assert reading.end is None


def test_a_loss_behind_empty_pages_is_reported_with_the_first_available_record(shard, faults):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    (available,) = shard.put(1)
    faults.empty_page(behind_ms=5000, times=3)
    reading = shard.reading(Position.after(read), since)
    with pytest.raises(DataLost, match=f"first available record: {available}"):
        data(reading)
    assert reading.position == Position.after(read)


def test_a_range_without_expiry_reports_no_loss(shard):
    (read,) = shard.put(0)
    shard.later(hours=30)
    shard.put(1)
    range_ = ShardRange(SHARD, Position.after(read), Bounds(), ALL_KEYS)
    assert data(ShardReading(shard.client, range_)) == [1]


# Proof that nothing is lost


@pytest.mark.parametrize("unread", [(1, 2), ()], ids=["records after it", "none after it"])
def test_a_last_record_that_is_still_available_proves_that_nothing_is_lost(shard, unread):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    if unread:
        shard.put(*unread)
    assert data(shard.reading(Position.after(read), since)) == list(unread)


def test_a_loss_is_reported_if_only_records_after_the_last_one_are_available(shard):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    read, gone, available = shard.put(0, 1, 2)
    since = shard.now
    shard.later(hours=30)
    shard.faults.trim(shard.stream, SHARD, before=gone)
    with pytest.raises(DataLost, match=f"first available record: {gone}"):
        data(shard.reading(Position.after(read), since))
    shard.faults.trim(shard.stream, SHARD, before=available)
    with pytest.raises(DataLost, match=f"first available record: {available}"):
        data(shard.reading(Position.after(read), since))


def test_the_probe_for_the_last_record_neither_skips_nor_duplicates_records(shard, faults):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    read, *_ = shard.put(0, 1, 2, 3)
    since = shard.now
    shard.later(hours=30)
    faults.page_size(1)
    reading = shard.reading(Position.after(read), since)
    assert data(reading) == [1, 2, 3]
    assert reading.records == 3


def test_a_stop_before_the_probe_ends_the_reading_without_reporting_a_loss(shard, faults):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    shard.put(1)
    stop = threading.Event()
    faults.before("GetRecords", stop.set)
    reading = ShardReading(shard.client, shard.reading(Position.after(read), since).range, stop=stop)
    assert data(reading) == []
    assert (reading.end, reading.position) == (RangeEnd.BOUND, Position.after(read))
    assert faults.count("GetRecords") == 1


def test_a_throttled_probe_fails_after_the_retry_seconds_of_its_range(shard, faults):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    shard.put(1)
    # The page is returned, the probe for the record before it is throttled.
    faults.throttle("GetRecords", after=1)
    range_ = msgspec.structs.replace(shard.reading(Position.after(read), since).range, retry_seconds=0.1)
    reading = ShardReading(shard.client, range_)
    began = time.monotonic()
    with pytest.raises(ShardThrottled):
        data(reading)
    assert time.monotonic() - began < 150  # half of stall_seconds
    assert reading.position == Position.after(read)


def test_a_page_keeps_its_memory_reservation_during_the_probe(shard, faults):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    read, _ = shard.put(0, 1)
    since = shard.now
    shard.later(hours=30)
    limiter, reserved = MemoryLimiter(1 << 30), []
    faults.before("GetRecords", lambda: reserved.append(limiter._reserved))
    reading = ShardReading(shard.client, shard.reading(Position.after(read), since).range, limiter=limiter)
    assert data(reading) == [1]
    before_page, before_probe, *_ = reserved
    assert before_page == 0
    assert before_probe > 0


def test_a_pause_during_the_probe_holds_no_memory(shard, faults):
    """Other readings run during a pause and may need the memory."""
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    read, _ = shard.put(0, 1)
    since = shard.now
    shard.later(hours=30)
    faults.fail(times=3)
    limiter, reserved = RecordingLimiter(1 << 30), []
    reading = ShardReading(shard.client, shard.reading(Position.after(read), since).range, limiter=limiter)
    for step in reading.steps():
        if isinstance(step, Pause):
            reserved.append(limiter._reserved)
        elif not isinstance(step, Records):
            step.block()
    assert set(reserved) == {0}
    assert limiter.max_reserved > 0


def test_other_readings_continue_during_the_probe(shard, faults):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    read, _ = shard.put(0, 1)
    since = shard.now
    shard.later(hours=30)
    probing, finish_probe, in_time = threading.Event(), threading.Event(), []

    def before():
        if faults.count("GetRecords") == 2:
            probing.set()
            in_time.append(finish_probe.wait(5))

    def reads():
        for step in shard.reading(Position.after(read), since).steps():
            if not isinstance(step, Records):
                yield step

    def others():
        assert (yield from to_thread(lambda: probing.wait(5)))
        finish_probe.set()

    faults.before("GetRecords", before)
    EventLoop(2).run([reads(), others()])
    assert in_time == [True]


def test_a_partly_read_aggregate_that_is_still_available_proves_that_nothing_is_lost(shard):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    (number,) = shard.put(aggregate(UserRecord("k", str(item).encode()) for item in range(4)))
    since = shard.now
    shard.later(hours=30)
    shard.put(4)
    assert data(shard.reading(Position.after(number, 1), since)) == [2, 3, 4]


def test_the_unread_rest_of_an_expired_aggregate_is_reported(shard):
    (number,) = shard.put(aggregate(UserRecord("k", str(item).encode()) for item in range(4)))
    since = shard.now
    shard.later(hours=30)
    (available,) = shard.put(4)
    with pytest.raises(
        DataLost, match=f"read up to AFTER_SEQUENCE_NUMBER:{number}:1, .* record: {available}"
    ):
        data(shard.reading(Position.after(number, 1), since))


def test_the_missing_rest_of_an_aggregate_is_reported_even_within_the_retention_period(shard):
    (number,) = shard.put(aggregate(UserRecord("k", str(item).encode()) for item in range(4)))
    shard.expire()
    (available,) = shard.put(4)
    with pytest.raises(
        DataLost, match=f"read up to AFTER_SEQUENCE_NUMBER:{number}:1, .* record: {available}"
    ):
        data(shard.reading(Position.after(number, 1), shard.now))


def test_a_start_record_that_is_available_proves_that_nothing_is_lost(shard):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    since = shard.now
    (number,) = shard.put(0)
    shard.later(hours=30)
    start = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=number)
    assert data(shard.reading(start, since)) == [0]


# Errors and gaps


def test_error_names_the_last_record_read_the_first_available_one_and_the_time_between(shard):
    (read,) = shard.put(0)
    since = shard.now
    shard.put(1)
    shard.later(hours=30, minutes=2, seconds=3)
    available, _ = shard.put(2, 3)
    with pytest.raises(DataLost) as caught:
        data(shard.reading(Position.after(read), since))
    assert caught.value.shard_id == SHARD
    assert (
        f"read up to AFTER_SEQUENCE_NUMBER:{read}, complete until {since:%Y-%m-%dT%H:%M:%SZ}; "
        f"first available record: {available}, {shard.now:%Y-%m-%dT%H:%M:%SZ}, 1 day, 6:02:03 later"
    ) in str(caught.value)
    assert "on_data_loss: continue" in str(caught.value)


def test_with_continue_a_gap_is_recorded_and_the_reading_goes_on(shard):
    (read,) = shard.put(0)
    since = shard.now
    shard.put(1)
    shard.later(hours=30)
    arrival = shard.now
    available, _ = shard.put(2, 3)
    shard.later(hours=1)
    reading = shard.reading(Position.after(read), since, CONTINUE)
    assert data(reading) == [2, 3]
    assert reading.end is RangeEnd.TIP
    assert reading.gaps == [
        Gap(after=Position.after(read), since=since, next_sequence_number=available, until=arrival)
    ]


def test_a_gap_without_a_next_record_ends_at_the_time_of_the_tip(shard):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    reading = shard.reading(Position.after(read), since, CONTINUE)
    assert data(reading) == []
    assert (reading.end, reading.tip_time) == (RangeEnd.TIP, shard.now)
    assert reading.position == Position.after(read)
    assert reading.gaps == [
        Gap(after=Position.after(read), since=since, next_sequence_number=None, until=shard.now)
    ]


def test_reading_without_loss_has_no_gap(shard):
    (read,) = shard.put(0)
    shard.put(1)
    reading = shard.reading(Position.after(read), shard.now, CONTINUE)
    assert data(reading) == [1]
    assert reading.gaps == []


def test_the_text_of_a_gap_has_its_beginning_end_and_duration():
    since = datetime(2026, 1, 31, 12, tzinfo=UTC)
    gap = Gap(
        after=Position.after("5", 3),
        since=since,
        next_sequence_number="12",
        until=since + timedelta(hours=30, seconds=1.5),
    )
    assert str(gap) == (
        "read up to AFTER_SEQUENCE_NUMBER:5:3, complete until 2026-01-31T12:00:00Z; "
        "first available record: 12, 2026-02-01T18:00:01Z, 1 day, 6:00:01 later"
    )
    unknown = msgspec.structs.replace(gap, since=None, next_sequence_number=None)
    assert str(unknown) == (
        "read up to AFTER_SEQUENCE_NUMBER:5:3, complete until an unknown time; "
        "first available record: nothing, 2026-02-01T18:00:01Z"
    )


# In the middle of a reading


def test_a_loss_during_a_reading_is_reported_and_keeps_the_records_read_before(shard, faults):
    read, first, _ = shard.put(0, 1, 2)
    since = shard.now
    shard.later(hours=20)
    (available,) = shard.put(3)
    faults.page_size(1)
    reading = shard.reading(Position.after(read), since)
    with pytest.raises(DataLost, match=f"read up to AFTER_SEQUENCE_NUMBER:{first}, .* record: {available}"):
        data(reading, between=lambda: shard.later(hours=5))
    assert (reading.position, reading.records, reading.end) == (Position.after(first), 1, None)


def test_with_continue_a_loss_during_a_reading_is_a_gap_after_the_last_record(shard, faults):
    read, first, _ = shard.put(0, 1, 2)
    since = shard.now
    shard.later(hours=20)
    (available,) = shard.put(3)
    arrival = shard.now
    faults.page_size(1)
    reading = shard.reading(Position.after(read), since, CONTINUE)
    assert data(reading, between=lambda: shard.later(hours=5)) == [1, 3]
    assert reading.gaps == [
        Gap(after=Position.after(first), since=since, next_sequence_number=available, until=arrival)
    ]


def test_each_page_extends_the_time_until_a_loss_is_possible(shard, faults):
    (read,) = shard.put(0)
    since = shard.now
    for item in range(1, 11):
        shard.later(hours=2)
        shard.put(item)
    faults.page_size(1)
    # 20 hours behind at first, and never closer to the tip.
    reading = shard.reading(Position.after(read), since)
    assert data(reading, between=lambda: shard.later(hours=2)) == list(range(1, 11))


# At the trim horizon


@pytest.fixture
def hourly(shard):
    """One record an hour for 30 hours; those of the last 24 hours are available."""
    for item in range(30):
        shard.put(item)
        shard.later(hours=1)
    return shard


def test_no_loss_is_reported_at_the_trim_horizon_while_records_expire(hourly, faults):
    faults.page_size(1)
    reading = hourly.reading(BEGINNING, hourly.now)
    read = data(reading, between=lambda: hourly.later(hours=2))
    assert read == list(range(6, 30, 2))
    assert (reading.gaps, reading.end) == ([], RangeEnd.TIP)


def test_no_loss_is_reported_at_the_trim_horizon_for_records_past_their_retention(shard, faults):
    shard.put(*range(4))

    def past_retention(_, answer):
        records = [
            {**each, "ApproximateArrivalTimestamp": each["ApproximateArrivalTimestamp"] - 26 * 3600}
            for each in answer.members["Records"]
        ]
        return answer.but(Records=records)

    faults.page_size(1)
    faults.answer("GetRecords", past_retention, times=2)
    assert data(shard.reading(BEGINNING, shard.now)) == [0, 1, 2, 3]


def test_a_loss_is_reported_once_the_reading_has_left_the_trim_horizon(hourly, faults):
    faults.page_size(5)
    reading = hourly.reading(BEGINNING, hourly.now)
    with pytest.raises(DataLost, match="first available record"):
        data(reading, between=lambda: hourly.later(hours=5))
    assert reading.records == 5


def test_a_loss_is_reported_for_an_unread_shard_whose_first_records_expired(hourly):
    with pytest.raises(DataLost, match="read up to TRIM_HORIZON"):
        data(hourly.reading(BEGINNING, hourly.now - timedelta(hours=30)))


def test_after_a_gap_the_oldest_available_record_counts_as_the_trim_horizon(hourly, faults):
    (read,) = hourly.put(30)
    for item in range(31, 61):
        hourly.put(item)
        hourly.later(hours=1)
    faults.page_size(1)
    reading = hourly.reading(Position.after(read), hourly.now - timedelta(hours=30), CONTINUE)
    assert data(reading, between=lambda: hourly.later(hours=2)) == list(range(37, 61, 2))
    assert [gap.after for gap in reading.gaps] == [Position.after(read)]
