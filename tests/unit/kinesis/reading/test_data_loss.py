"""When records may have expired unread, what is told of it, and what is read after that."""

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

    def later(self, **span: float) -> None:
        self.clock.advance(timedelta(**span).total_seconds())

    def expire(self) -> None:
        """Let all records be gone, as when their retention has passed."""
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
        """A reading that knows up to when all is read."""
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
    """What a reading hands out, to its end; something may be done after each page."""
    items = []
    for records in reading:
        items += [int(record.data) for record in records]
        between()
    return items


# When it is possible


@pytest.mark.parametrize("passed", [{}, {"hours": 23}, {"hours": 24, "seconds": -2}])
def test_nothing_can_be_lost_within_a_retention_of_what_was_read(shard, passed):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(**passed)
    shard.expire()  # sooner than it may
    shard.put(1)
    assert data(shard.reading(Position.after(read), since)) == [1]


# The service's clock is known in whole seconds, rounded down: one may have passed that it does not show.
@pytest.mark.parametrize("passed", [{"hours": 24, "seconds": -1}, {"hours": 24}, {"days": 300}])
def test_loss_is_told_from_the_first_second_in_which_it_is_possible(shard, passed):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(**passed)
    shard.expire()
    shard.put(1)
    reading = shard.reading(Position.after(read), since)
    with pytest.raises(DataLost):
        data(reading)
    assert (reading.position, reading.records, reading.end) == (Position.after(read), 0, None)


@pytest.mark.parametrize(("lowest", "told"), [(24, True), (26, False), (168, False)])
def test_the_lowest_retention_seen_counts_and_not_the_present_one(shard, lowest, told):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=25)
    shard.expire()
    shard.put(1)
    reading = shard.reading(Position.after(read), since, retention_hours=lowest)
    if told:
        with pytest.raises(DataLost):
            data(reading)
    else:
        assert data(reading) == [1]


def test_idle_shard_is_no_exception(shard):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    with pytest.raises(DataLost, match="first available record: nothing"):
        data(shard.reading(Position.after(read), since))


def test_closed_shard_is_no_exception_and_not_at_its_end(shard):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=20)
    shard.kinesis.split_shard(StreamName=shard.stream, ShardToSplit=SHARD, NewStartingHashKey=MIDDLE)
    shard.later(hours=10)
    reading = shard.reading(Position.after(read), since)
    with pytest.raises(DataLost, match="first available record: nothing"):
        data(reading)
    assert reading.end is None


def test_empty_pages_say_nothing_until_the_first_available_record_is_seen(shard, faults):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    (available,) = shard.put(1)
    faults.empty_page(behind_ms=5000, times=3)
    reading = shard.reading(Position.after(read), since)
    with pytest.raises(DataLost, match=f"first available record: {available}"):
        data(reading)
    assert reading.position == Position.after(read)


def test_a_range_that_knows_no_time_looks_for_no_loss(shard):
    (read,) = shard.put(0)
    shard.later(hours=30)
    shard.put(1)
    range_ = ShardRange(SHARD, Position.after(read), Bounds(), ALL_KEYS)
    assert data(ShardReading(shard.client, range_)) == [1]


# What proves that nothing is lost


@pytest.mark.parametrize("unread", [(1, 2), ()], ids=["records after it", "none after it"])
def test_last_record_read_still_being_there_proves_that_nothing_is_lost(shard, unread):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    if unread:
        shard.put(*unread)
    assert data(shard.reading(Position.after(read), since)) == list(unread)


def test_last_record_read_being_gone_proves_nothing_where_later_ones_are_there(shard):
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


def test_looking_whether_the_last_record_is_there_skips_no_record_and_reads_none_twice(shard, faults):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    read, *_ = shard.put(0, 1, 2, 3)
    since = shard.now
    shard.later(hours=30)
    faults.page_size(1)
    reading = shard.reading(Position.after(read), since)
    assert data(reading) == [1, 2, 3]
    assert reading.records == 3


def test_who_is_told_to_stop_before_the_look_ends_without_it_and_tells_no_loss(shard, faults):
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


def test_a_throttled_look_has_no_more_patience_than_its_range(shard, faults):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    shard.put(1)
    faults.throttle("GetRecords", after=1)  # the page comes, the look for the record before it does not
    range_ = msgspec.structs.replace(shard.reading(Position.after(read), since).range, retry_seconds=0.1)
    reading = ShardReading(shard.client, range_)
    began = time.monotonic()
    with pytest.raises(ShardThrottled):
        data(reading)
    assert time.monotonic() - began < 30
    assert reading.position == Position.after(read)


def test_page_keeps_its_seat_while_it_is_looked_whether_the_last_record_is_there(shard, faults):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    read, _ = shard.put(0, 1)
    since = shard.now
    shard.later(hours=30)
    limiter, taken = MemoryLimiter(1 << 30), []
    faults.before("GetRecords", lambda: taken.append(limiter._reserved))
    reading = ShardReading(shard.client, shard.reading(Position.after(read), since).range, limiter=limiter)
    assert data(reading) == [1]
    before_page, before_look, *_ = taken
    assert before_page == 0
    assert before_look > 0


def test_who_pauses_holds_no_room_also_where_it_is_looked_whether_the_last_record_is_there(shard, faults):
    """With its pauses others come to be under way, and may wait for that room."""
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    read, _ = shard.put(0, 1)
    since = shard.now
    shard.later(hours=30)
    faults.fail(times=3)
    limiter, taken = RecordingLimiter(1 << 30), []
    reading = ShardReading(shard.client, shard.reading(Position.after(read), since).range, limiter=limiter)
    for step in reading.steps():
        if isinstance(step, Pause):
            taken.append(limiter._reserved)
        elif not isinstance(step, Records):
            step.block()
    assert set(taken) == {0}
    assert limiter.max_reserved > 0


def test_others_go_on_while_it_is_looked_whether_the_last_record_is_there(shard, faults):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    read, _ = shard.put(0, 1)
    since = shard.now
    shard.later(hours=30)
    looked, let, in_time = threading.Event(), threading.Event(), []

    def before():
        if faults.count("GetRecords") == 2:
            looked.set()
            in_time.append(let.wait(5))

    def reads():
        for step in shard.reading(Position.after(read), since).steps():
            if not isinstance(step, Records):
                yield step

    def others():
        assert (yield from to_thread(lambda: looked.wait(5)))
        let.set()

    faults.before("GetRecords", before)
    EventLoop(2).run([reads(), others()])
    assert in_time == [True]


def test_aggregate_that_is_half_read_still_being_there_proves_that_nothing_is_lost(shard):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    (number,) = shard.put(aggregate(UserRecord("k", str(item).encode()) for item in range(4)))
    since = shard.now
    shard.later(hours=30)
    shard.put(4)
    assert data(shard.reading(Position.after(number, 1), since)) == [2, 3, 4]


def test_rest_of_an_aggregate_that_expired_is_told(shard):
    (number,) = shard.put(aggregate(UserRecord("k", str(item).encode()) for item in range(4)))
    since = shard.now
    shard.later(hours=30)
    (available,) = shard.put(4)
    with pytest.raises(
        DataLost, match=f"read up to AFTER_SEQUENCE_NUMBER:{number}:1, .* record: {available}"
    ):
        data(shard.reading(Position.after(number, 1), since))


def test_rest_of_an_aggregate_that_is_gone_is_told_at_once(shard):
    (number,) = shard.put(aggregate(UserRecord("k", str(item).encode()) for item in range(4)))
    shard.expire()
    (available,) = shard.put(4)
    with pytest.raises(
        DataLost, match=f"read up to AFTER_SEQUENCE_NUMBER:{number}:1, .* record: {available}"
    ):
        data(shard.reading(Position.after(number, 1), shard.now))


def test_record_that_a_start_names_being_served_proves_that_nothing_is_lost(shard):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    since = shard.now
    (number,) = shard.put(0)
    shard.later(hours=30)
    start = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=number)
    assert data(shard.reading(start, since)) == [0]


# What is told


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


def test_gap_is_told_and_the_reading_goes_on_when_that_is_asked_for(shard):
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


def test_gap_before_nothing_ends_where_that_was_seen(shard):
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


def test_gap_as_text_says_where_it_begins_and_ends_and_how_long_it_is():
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


def test_falling_over_the_edge_while_reading_is_told_and_what_was_read_before_is_kept(shard, faults):
    read, first, _ = shard.put(0, 1, 2)
    since = shard.now
    shard.later(hours=20)
    (available,) = shard.put(3)
    faults.page_size(1)
    reading = shard.reading(Position.after(read), since)
    with pytest.raises(DataLost, match=f"read up to AFTER_SEQUENCE_NUMBER:{first}, .* record: {available}"):
        data(reading, between=lambda: shard.later(hours=5))
    assert (reading.position, reading.records, reading.end) == (Position.after(first), 1, None)


def test_falling_over_the_edge_while_reading_is_a_gap_after_what_was_read(shard, faults):
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


def test_each_page_moves_the_edge_on(shard, faults):
    (read,) = shard.put(0)
    since = shard.now
    for item in range(1, 11):
        shard.later(hours=2)
        shard.put(item)
    faults.page_size(1)
    # 20 h behind at first, and no nearer to the tip later.
    reading = shard.reading(Position.after(read), since)
    assert data(reading, between=lambda: shard.later(hours=2)) == list(range(1, 11))


# At the horizon


@pytest.fixture
def hourly(shard):
    """Records of 30 hours, one an hour; those of the last 24 are there."""
    for item in range(30):
        shard.put(item)
        shard.later(hours=1)
    return shard


def test_who_begins_at_the_oldest_record_is_told_nothing_though_records_expire_meanwhile(hourly, faults):
    faults.page_size(1)
    reading = hourly.reading(BEGINNING, hourly.now)
    read = data(reading, between=lambda: hourly.later(hours=2))
    assert read == list(range(6, 30, 2))
    assert (reading.gaps, reading.end) == ([], RangeEnd.TIP)


def test_who_begins_at_the_oldest_record_is_told_nothing_though_it_is_past_its_retention(shard, faults):
    shard.put(*range(4))

    def a_day_earlier(_, answer):
        records = [
            {**each, "ApproximateArrivalTimestamp": each["ApproximateArrivalTimestamp"] - 26 * 3600}
            for each in answer.members["Records"]
        ]
        return answer.but(Records=records)

    faults.page_size(1)
    faults.answer("GetRecords", a_day_earlier, times=2)
    assert data(shard.reading(BEGINNING, shard.now)) == [0, 1, 2, 3]


def test_who_has_drawn_away_from_the_horizon_is_told_of_a_fall_over_the_edge(hourly, faults):
    faults.page_size(5)
    reading = hourly.reading(BEGINNING, hourly.now)
    with pytest.raises(DataLost, match="first available record"):
        data(reading, between=lambda: hourly.later(hours=5))
    assert reading.records == 5


def test_unread_shard_whose_beginning_expired_since_it_was_wanted_is_told(hourly):
    with pytest.raises(DataLost, match="read up to TRIM_HORIZON"):
        data(hourly.reading(BEGINNING, hourly.now - timedelta(hours=30)))


def test_after_a_gap_the_oldest_record_there_is_is_a_horizon_too(hourly, faults):
    (read,) = hourly.put(30)
    for item in range(31, 61):
        hourly.put(item)
        hourly.later(hours=1)
    faults.page_size(1)
    reading = hourly.reading(Position.after(read), hourly.now - timedelta(hours=30), CONTINUE)
    assert data(reading, between=lambda: hourly.later(hours=2)) == list(range(37, 61, 2))
    assert [gap.after for gap in reading.gaps] == [Position.after(read)]
