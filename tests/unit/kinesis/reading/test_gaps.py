"""The error and the gap of a loss name what is missing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kinesis_assets.errors import DataLost
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import RangeEnd, TipIterator
from kinesis_assets.kinesis.reading.reading import ShardReading
from support.expiring_shard import CONTINUE, items
from support.mentions import assert_mentions
from support.one_shard import SHARD


def test_error_names_the_last_record_read_the_first_available_one_and_the_time_between(shard):
    (read,) = shard.put(0)
    since = shard.now
    shard.put(1)
    shard.later(hours=30, minutes=2, seconds=3)
    available, _ = shard.put(2, 3)
    with pytest.raises(DataLost) as caught:
        items(shard.reading(Position.after(read), since))
    assert caught.value.shard_id == SHARD
    until, again = (f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in (since, shard.now))
    missed = ("1 day, 6:02:03", "on_data_loss: continue")
    assert_mentions(str(caught.value), f"AFTER_SEQUENCE_NUMBER:{read},", until, available, again, *missed)


def test_with_continue_a_gap_is_recorded_and_the_reading_goes_on(shard):
    (read,) = shard.put(0)
    since = shard.now
    shard.put(1)
    shard.later(hours=30)
    arrival = shard.now
    available, _ = shard.put(2, 3)
    shard.later(hours=1)
    reading = shard.reading(Position.after(read), since, CONTINUE)
    assert items(reading) == [2, 3]
    assert reading.end is RangeEnd.TIP
    assert reading.gaps == [
        Gap(after=Position.after(read), since=since, next_sequence_number=available, until=arrival)
    ]


def test_an_iterator_of_the_tip_hides_no_gap(shard):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    place = {"StreamName": shard.stream, "ShardId": SHARD, "ShardIteratorType": "LATEST"}
    iterator = shard.kinesis.get_shard_iterator(**place)["ShardIterator"]
    range_ = shard.reading(Position.after(read), since, CONTINUE).range
    range_ = msgspec.structs.replace(range_, tip_iterator=TipIterator(iterator, shard.now))
    reading = ShardReading(shard.client, range_)
    assert items(reading) == []
    assert [gap.since for gap in reading.gaps] == [since]


def test_a_gap_without_a_next_record_ends_at_the_time_of_the_tip(shard):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    reading = shard.reading(Position.after(read), since, CONTINUE)
    assert items(reading) == []
    assert (reading.end, reading.tip_time) == (RangeEnd.TIP, shard.now)
    assert reading.position == Position.after(read)
    assert reading.gaps == [
        Gap(after=Position.after(read), since=since, next_sequence_number=None, until=shard.now)
    ]


def test_reading_without_loss_has_no_gap(shard):
    (read,) = shard.put(0)
    shard.put(1)
    reading = shard.reading(Position.after(read), shard.now, CONTINUE)
    assert items(reading) == [1]
    assert reading.gaps == []


def test_the_text_of_a_gap_has_its_beginning_end_and_duration():
    since = datetime(2026, 1, 31, 12, tzinfo=UTC)
    gap = Gap(
        after=Position.after("5", 3),
        since=since,
        next_sequence_number="12",
        until=since + timedelta(hours=30, seconds=1.5),
    )
    end = ("AFTER_SEQUENCE_NUMBER:5:3", "2026-02-01T18:00:01Z")
    assert_mentions(str(gap), *end, "2026-01-31T12:00:00Z", " 12,", "1 day, 6:00:01")
    unknown = msgspec.structs.replace(gap, since=None, next_sequence_number=None)
    assert_mentions(str(unknown), *end, "unknown time", "nothing")
    assert " day" not in str(unknown)
