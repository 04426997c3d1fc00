"""A reading reports records that may have expired unread, and nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kinesis_assets.errors import DataLost
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from support.expiring_shard import CONTINUE, items
from support.one_shard import ALL_KEYS, BEGINNING, MIDDLE, SHARD

# When a loss is possible


@pytest.mark.parametrize("passed", [{}, {"hours": 23}, {"hours": 24, "seconds": -2}])
def test_no_loss_is_reported_within_the_retention_period(shard, passed):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(**passed)
    shard.expire()  # earlier than the retention allows
    shard.put(1)
    assert items(shard.reading(Position.after(read), since)) == [1]


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
        items(reading)
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
            items(reading)
    else:
        assert items(reading) == [1]


def test_a_loss_is_reported_for_an_idle_shard(shard):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    with pytest.raises(DataLost, match="first available record: nothing"):
        items(shard.reading(Position.after(read), since))


def test_a_loss_is_reported_for_a_closed_shard_before_its_end(shard):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=20)
    shard.kinesis.split_shard(StreamName=shard.stream, ShardToSplit=SHARD, NewStartingHashKey=MIDDLE)
    shard.later(hours=10)
    reading = shard.reading(Position.after(read), since)
    with pytest.raises(DataLost, match="first available record: nothing"):
        items(reading)
    assert reading.end is None


def test_a_loss_behind_empty_pages_is_reported_with_the_first_available_record(shard, faults):
    (read,) = shard.put(0)
    since = shard.now
    shard.later(hours=30)
    (available,) = shard.put(1)
    faults.empty_page(behind_ms=5000, times=3)
    reading = shard.reading(Position.after(read), since)
    with pytest.raises(DataLost, match=f"first available record: {available}"):
        items(reading)
    assert reading.position == Position.after(read)


def test_a_range_without_expiry_reports_no_loss(shard):
    (read,) = shard.put(0)
    shard.later(hours=30)
    shard.put(1)
    range_ = ShardRange(SHARD, Position.after(read), Bounds(), ALL_KEYS)
    assert items(ShardReading(shard.client, range_)) == [1]


# In the middle of a reading


def test_a_loss_during_a_reading_is_reported_and_keeps_the_records_read_before(shard, faults):
    read, first, _ = shard.put(0, 1, 2)
    since = shard.now
    shard.later(hours=20)
    (available,) = shard.put(3)
    faults.page_size(1)
    reading = shard.reading(Position.after(read), since)
    with pytest.raises(DataLost, match=f"read up to AFTER_SEQUENCE_NUMBER:{first}, .* record: {available}"):
        items(reading, between=lambda: shard.later(hours=5))
    assert (reading.position, reading.records, reading.end) == (Position.after(first), 1, None)


def test_with_continue_a_loss_during_a_reading_is_a_gap_after_the_last_record(shard, faults):
    read, first, _ = shard.put(0, 1, 2)
    since = shard.now
    shard.later(hours=20)
    (available,) = shard.put(3)
    arrival = shard.now
    faults.page_size(1)
    reading = shard.reading(Position.after(read), since, CONTINUE)
    assert items(reading, between=lambda: shard.later(hours=5)) == [1, 3]
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
    assert items(reading, between=lambda: shard.later(hours=2)) == list(range(1, 11))


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
    read = items(reading, between=lambda: hourly.later(hours=2))
    assert read == list(range(6, 30, 2))
    assert (reading.gaps, reading.end) == ([], RangeEnd.TIP)


def test_no_loss_is_reported_at_the_trim_horizon_for_records_past_their_retention(shard, faults):
    shard.put(*range(4))

    def past_retention(_, response):
        records = [
            {**each, "ApproximateArrivalTimestamp": each["ApproximateArrivalTimestamp"] - 26 * 3600}
            for each in response.members["Records"]
        ]
        return response.but(Records=records)

    faults.page_size(1)
    faults.answer("GetRecords", past_retention, times=2)
    assert items(shard.reading(BEGINNING, shard.now)) == [0, 1, 2, 3]


def test_a_loss_is_reported_once_the_reading_has_left_the_trim_horizon(hourly, faults):
    faults.page_size(5)
    reading = hourly.reading(BEGINNING, hourly.now)
    with pytest.raises(DataLost, match="first available record"):
        items(reading, between=lambda: hourly.later(hours=5))
    assert reading.records == 5


def test_a_loss_after_the_first_page_is_reported_if_the_reading_has_not_started_at_the_trim_horizon(
    shard, faults
):
    (read,) = shard.put(0)
    since = shard.now
    shard.put(1)
    for item in (2, 3):
        shard.later(hours=1)
        shard.put(item)
    shard.later(hours=21, minutes=59, seconds=30)  # record 1 is about to expire
    faults.page_size(1)
    reading = shard.reading(Position.after(read), since)
    with pytest.raises(DataLost, match="first available record"):
        items(reading, between=lambda: shard.later(hours=1, minutes=30))
    assert reading.records == 1


def test_a_loss_is_reported_for_an_unread_shard_whose_first_records_expired(hourly):
    with pytest.raises(DataLost, match="read up to TRIM_HORIZON"):
        items(hourly.reading(BEGINNING, hourly.now - timedelta(hours=30)))


def test_after_a_gap_the_oldest_available_record_counts_as_the_trim_horizon(hourly, faults):
    (read,) = hourly.put(30)
    for item in range(31, 61):
        hourly.put(item)
        hourly.later(hours=1)
    faults.page_size(1)
    reading = hourly.reading(Position.after(read), hourly.now - timedelta(hours=30), CONTINUE)
    assert items(reading, between=lambda: hourly.later(hours=2)) == list(range(37, 61, 2))
    assert [gap.after for gap in reading.gaps] == [Position.after(read)]
