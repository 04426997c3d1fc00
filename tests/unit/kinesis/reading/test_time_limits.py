"""A range ends in time, whatever its calls return, and never hides a failure."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import ReadFailed, ShardStalled, ShardThrottled
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading import calls
from kinesis_assets.kinesis.reading.range import Allowance, Quota, RangeEnd
from kinesis_assets.kinesis.settings import ReadTiming
from kinesis_assets.testing import Faults
from support.one_shard import data
from support.quota_records import records
from support.timing import set_timing
from support.two_shards import FIRST


def test_max_seconds_ends_a_range_between_two_pages(put_to, reading_in, client, faults, virtual):
    set_timing(client, seconds_between_calls=0.0)
    put_to(FIRST, *[b"%d" % item for item in range(20)])
    faults.page_size(1)

    def ten_seconds_later(*_):
        virtual.now += 10

    faults.answer("GetRecords", ten_seconds_later)
    reading = reading_in(FIRST, max_seconds=35)
    assert data(reading) == [b"0", b"1", b"2", b"3", b"4"]
    assert reading.end is RangeEnd.TIME_LIMIT


def test_no_page_is_requested_after_a_wait_that_exceeds_max_seconds(put_to, reading_in, client, faults):
    set_timing(client, bytes_per_second=1)
    put_to(FIRST, b"0_000", b"1_111")
    faults.page_size(1)
    assert data(reading_in(FIRST, max_seconds=1)) == [b"0_000"]


def test_empty_pages_are_read_up_to_the_first_record_even_after_the_time_limit(
    put_to, reading_in, faults, virtual
):
    put_to(FIRST, b"0", b"1", b"2")
    faults.empty_page(times=30)
    faults.page_size(1)
    began = virtual.now
    reading = reading_in(FIRST, Quota(Allowance(seconds=2.0), virtual))
    assert data(reading) == [b"0"]
    assert reading.end is RangeEnd.TIME_LIMIT
    assert virtual.now - began > 5


@pytest.mark.slow
def test_a_shard_with_only_empty_pages_stalls_even_after_the_time_limit(
    put_to, reading_in, client, faults, virtual
):
    set_timing(client, stall_seconds=30.0)
    put_to(FIRST, b"0")
    faults.empty_page()
    began = virtual.now
    with pytest.raises(ShardStalled):
        data(reading_in(FIRST, Quota(Allowance(seconds=2.0), virtual)))
    assert virtual.now - began == pytest.approx(30, abs=1)


def test_a_range_with_records_ends_after_retry_seconds_of_empty_pages(put_to, reading_in, faults, virtual):
    numbers = put_to(FIRST, b"0", b"1")
    faults.page_size(1)
    faults.empty_page(after=1)
    began = virtual.now
    reading = reading_in(FIRST, retry_seconds=2.0)
    assert data(reading) == [b"0"]
    assert (reading.end, reading.position) == (RangeEnd.TIME_LIMIT, Position.after(numbers[0]))
    assert 2 < virtual.now - began < 5


@pytest.mark.usefixtures("sdk_waits")
def test_a_throttled_range_with_records_ends_at_the_time_limit(put_to, reading_in, faults, virtual):
    numbers = put_to(FIRST, b"0", b"1")
    faults.page_size(1)
    faults.throttle(after=1)
    began = virtual.now
    reading = reading_in(FIRST, Quota(Allowance(seconds=2.0), virtual))
    assert data(reading) == [b"0"]
    assert (reading.end, reading.position) == (RangeEnd.TIME_LIMIT, Position.after(numbers[0]))
    assert virtual.now - began < 10


@pytest.mark.usefixtures("sdk_waits")
@pytest.mark.slow
def test_a_throttled_range_without_records_fails_after_the_time_limit(put_to, reading_in, faults, virtual):
    put_to(FIRST, b"0")
    faults.throttle()
    with pytest.raises(ShardThrottled, match="ProvisionedThroughputExceeded"):
        data(reading_in(FIRST, Quota(Allowance(seconds=2.0), virtual)))


@pytest.mark.usefixtures("sdk_waits")
def test_a_throttled_range_ends_when_other_readings_have_exhausted_the_quota(
    put_to, reading_in, faults, virtual
):
    put_to(FIRST, b"0")
    quota = Quota(Allowance(records=1))
    faults.throttle()

    def exhaust_quota(*_):
        quota.take(records(b"another's"))

    faults.answer("GetRecords", exhaust_quota)
    began = virtual.now
    reading = reading_in(FIRST, quota)
    assert data(reading) == []
    assert (reading.end, reading.position.kind) == (RangeEnd.BOUND, PositionKind.TRIM_HORIZON)
    assert virtual.now - began < 5


@pytest.mark.usefixtures("sdk_waits")
def test_a_range_that_is_always_throttled_fails_after_retry_seconds(put_to, reading_in, faults, virtual):
    put_to(FIRST, b"0")
    faults.throttle()
    began = virtual.now
    with pytest.raises(ShardThrottled, match="ProvisionedThroughputExceeded"):
        data(reading_in(FIRST, retry_seconds=2.0))
    assert 2 < virtual.now - began < 10


@pytest.mark.usefixtures("sdk_waits")
def test_a_throttled_range_has_a_minimum_number_of_attempts(put_to, reading_in, faults):
    put_to(FIRST, b"0")
    faults.throttle(times=calls._MIN_ATTEMPTS - 1)
    assert data(reading_in(FIRST, retry_seconds=0.0)) == [b"0"]
    before = faults.count("GetRecords")
    faults.throttle("GetRecords")
    with pytest.raises(ShardThrottled):
        data(reading_in(FIRST, retry_seconds=0.0))
    assert faults.count("GetRecords") - before == calls._MIN_ATTEMPTS


@pytest.mark.usefixtures("sdk_waits")
@pytest.mark.slow
def test_a_range_that_is_throttled_after_empty_pages_is_retried_until_it_stalls(
    put_to, reading_in, faults, virtual
):
    put_to(FIRST, b"0")
    faults.empty_page(times=3)
    faults.throttle()
    began = virtual.now
    with pytest.raises(ShardThrottled):
        data(reading_in(FIRST, retry_seconds=2.0))
    assert virtual.now - began >= ReadTiming().stall_seconds


def test_a_page_requested_before_the_time_limit_is_taken_completely(put_to, reading_in, faults, virtual):
    put_to(FIRST, b"0", b"1")

    def timed_out(*_):
        virtual.now += 5

    faults.answer("GetRecords", timed_out)
    reading = reading_in(FIRST, Quota(Allowance(seconds=2.0), virtual))
    assert data(reading) == [b"0", b"1"]
    assert reading.end is RangeEnd.TIP


@pytest.mark.usefixtures("sdk_waits")
@pytest.mark.parametrize("fault", [Faults.throttle, Faults.reset, Faults.cut_body, Faults.fail])
def test_a_failing_range_with_records_ends_after_retry_seconds(put_to, reading_in, faults, virtual, fault):
    numbers = put_to(FIRST, b"0", b"1")
    faults.page_size(1)
    fault(faults, after=1)
    began = virtual.now
    reading = reading_in(FIRST, retry_seconds=0.5)
    assert data(reading) == [b"0"]
    assert (reading.end, reading.position) == (RangeEnd.TIME_LIMIT, Position.after(numbers[0]))
    assert 0.5 < virtual.now - began < 10


@pytest.mark.usefixtures("sdk_waits")
def test_retry_seconds_count_only_consecutive_failures(put_to, reading_in, faults):
    put_to(FIRST, b"0", b"1", b"2", b"3")
    faults.page_size(1)
    for after in (1, 4, 7):  # between the pages
        faults.throttle(after=after, times=2)
    reading = reading_in(FIRST, retry_seconds=5.0)
    assert data(reading) == [b"0", b"1", b"2", b"3"]
    assert reading.end is RangeEnd.TIP


@pytest.mark.usefixtures("sdk_waits")
def test_a_permanent_error_fails_even_a_range_with_records(put_to, reading_in, faults):
    put_to(FIRST, b"0", b"1")
    faults.page_size(1)
    faults.fail(status=400, code="AccessDeniedException", after=1)
    with pytest.raises(ReadFailed, match="AccessDenied"):
        data(reading_in(FIRST, retry_seconds=0.0))
