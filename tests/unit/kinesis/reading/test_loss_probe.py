"""A record that is still available proves that nothing after it is lost."""

from __future__ import annotations

import asyncio
import threading
from itertools import count

import msgspec
import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.errors import DataLost, ReadFailed, ShardThrottled
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.transport.concurrency import MemoryLimiter, Turns
from kinesis_assets.testing import UserRecord, aggregate
from support.expiring_shard import CONTINUE, items
from support.one_shard import MIDDLE, SHARD
from support.recording_limiter import RecordingLimiter
from support.timing import set_timing


@pytest.mark.parametrize("unread", [(1, 2), ()], ids=["records after it", "none after it"])
def test_a_last_record_that_is_still_available_proves_that_nothing_is_lost(shard, unread):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    if unread:
        shard.put(*unread)
    assert items(shard.reading(Position.after(read), since)) == list(unread)


def test_a_loss_is_reported_if_only_records_after_the_last_one_are_available(shard):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    read, gone, available = shard.put(0, 1, 2)
    since = shard.now
    shard.later(hours=30)
    shard.faults.trim(shard.stream, SHARD, before=gone)
    with pytest.raises(DataLost, match=f"first available record: {gone}"):
        items(shard.reading(Position.after(read), since))
    shard.faults.trim(shard.stream, SHARD, before=available)
    with pytest.raises(DataLost, match=f"first available record: {available}"):
        items(shard.reading(Position.after(read), since))


def test_the_probe_for_the_last_record_neither_skips_nor_duplicates_records(shard, faults):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    read, *_ = shard.put(0, 1, 2, 3)
    since = shard.now
    shard.later(hours=30)
    faults.page_size(1)
    reading = shard.reading(Position.after(read), since)
    assert items(reading) == [1, 2, 3]
    assert reading.records == 3


def test_a_stop_before_the_probe_ends_the_reading_without_reporting_a_loss(shard, faults):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    shard.put(1)
    turns = Turns(1)
    faults.before("GetRecords", turns.stop)
    reading = ShardReading(shard.client, shard.reading(Position.after(read), since).range, turns=turns)
    assert items(reading) == []
    assert (reading.end, reading.position) == (RangeEnd.BOUND, Position.after(read))
    assert faults.count("GetRecords") == 1


def test_a_throttled_probe_fails_after_the_retry_seconds_of_its_range(shard, faults, virtual):
    set_timing(shard.client, clock=virtual, seconds_between_calls=0.2)
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    shard.put(1)
    # The page is returned, the probe for the record before it is throttled.
    faults.throttle("GetRecords", after=1)
    range_ = msgspec.structs.replace(shard.reading(Position.after(read), since).range, retry_seconds=10.0)
    reading = ShardReading(shard.client, range_)
    began = virtual.now
    with pytest.raises(ShardThrottled):
        items(reading)
    assert 10 < virtual.now - began < 11
    assert reading.position == Position.after(read)


def test_a_page_keeps_its_memory_reservation_during_the_probe(shard, faults):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    read, _ = shard.put(0, 1)
    since = shard.now
    shard.later(hours=30)
    limiter, reserved = MemoryLimiter(1 << 30), []
    faults.before("GetRecords", lambda: reserved.append(limiter._reserved))
    reading = ShardReading(shard.client, shard.reading(Position.after(read), since).range, limiter=limiter)
    assert items(reading) == [1]
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

    class Recording(Turns):
        async def pause(self, seconds):
            reserved.append(limiter._reserved)
            await super().pause(seconds)

    range_ = shard.reading(Position.after(read), since).range
    assert items(ShardReading(shard.client, range_, turns=Recording(1), limiter=limiter)) == [1]
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
            in_time.append(finish_probe.wait(SECONDS))

    async def reads():
        assert len([records async for records in shard.reading(Position.after(read), since).batches()]) == 1

    async def others():
        assert await asyncio.to_thread(probing.wait, SECONDS)
        finish_probe.set()

    faults.before("GetRecords", before)
    Turns(2).run([reads(), others()])
    assert in_time == [True]


def test_a_partly_read_aggregate_that_is_still_available_proves_that_nothing_is_lost(shard):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    (number,) = shard.put(aggregate(UserRecord("k", str(item).encode()) for item in range(4)))
    since = shard.now
    shard.later(hours=30)
    shard.put(4)
    assert items(shard.reading(Position.after(number, 1), since)) == [2, 3, 4]


PAGES_WITHOUT_IT = pytest.mark.parametrize(
    "without",
    [
        pytest.param(lambda faults, **calls: faults.empty_page(behind_ms=0, **calls), id="empty"),
        pytest.param(
            lambda faults, **calls: faults.answer(
                "GetRecords", lambda _, answer: answer.but(Records=answer.members["Records"][1:]), **calls
            ),
            id="later records",
        ),
    ],
)
"""Pages without the record that is at the position."""


@PAGES_WITHOUT_IT
@pytest.mark.parametrize("policy", ["fail", CONTINUE])
def test_a_page_without_the_rest_of_an_available_aggregate_is_read_again(shard, faults, without, policy):
    (number,) = shard.put(aggregate(UserRecord("k", str(item).encode()) for item in range(4)))
    shard.put(4)
    without(faults, times=1)
    reading = shard.reading(Position.after(number, 1), shard.now, policy)
    assert items(reading) == [2, 3, 4]
    assert reading.gaps == []


def test_a_reading_whose_pages_lack_the_rest_of_an_available_aggregate_fails_at_its_position(shard, faults):
    (number,) = shard.put(aggregate(UserRecord("k", str(item).encode()) for item in range(4)))
    shard.put(4)
    start = Position.after(number, 1)
    calls = count()  # each second one is that of the probe
    faults.answer("GetRecords", lambda _, answer: None if next(calls) % 2 else answer.but(Records=[]))
    reading = shard.reading(start, shard.now, CONTINUE)
    with pytest.raises(ReadFailed, match=f"the page lacks record {number}, which another one has"):
        items(reading)
    assert (reading.position, reading.gaps) == (start, [])


def test_a_page_without_the_rest_of_an_available_aggregate_does_not_end_its_shard(shard, faults):
    (number,) = shard.put(aggregate(UserRecord("k", str(item).encode()) for item in range(4)))
    shard.put(4)
    shard.kinesis.split_shard(StreamName=shard.stream, ShardToSplit=SHARD, NewStartingHashKey=MIDDLE)
    calls = count()

    def without_records(_, answer):
        kept = {0: 0, 2: 1}.get(next(calls), 2)  # the second call is that of the probe
        return answer.but(Records=answer.members["Records"][:kept])

    faults.answer("GetRecords", without_records)
    reading = shard.reading(Position.after(number, 1), shard.now)
    assert items(reading) == [2, 3, 4]
    assert reading.end is RangeEnd.SHARD_END


def test_the_unread_rest_of_an_expired_aggregate_is_reported(shard):
    (number,) = shard.put(aggregate(UserRecord("k", str(item).encode()) for item in range(4)))
    since = shard.now
    shard.later(hours=30)
    (available,) = shard.put(4)
    with pytest.raises(
        DataLost, match=f"read up to AFTER_SEQUENCE_NUMBER:{number}:1, .* record: {available}"
    ):
        items(shard.reading(Position.after(number, 1), since))


def test_the_missing_rest_of_an_aggregate_is_reported_even_within_the_retention_period(shard):
    (number,) = shard.put(aggregate(UserRecord("k", str(item).encode()) for item in range(4)))
    shard.expire()
    (available,) = shard.put(4)
    with pytest.raises(
        DataLost, match=f"read up to AFTER_SEQUENCE_NUMBER:{number}:1, .* record: {available}"
    ):
        items(shard.reading(Position.after(number, 1), shard.now))


def test_a_start_record_that_is_available_proves_that_nothing_is_lost(shard):
    shard.kinesis.increase_stream_retention_period(StreamName=shard.stream, RetentionPeriodHours=168)
    since = shard.now
    (number,) = shard.put(0)
    shard.later(hours=30)
    start = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=number)
    assert items(shard.reading(start, since)) == [0]
