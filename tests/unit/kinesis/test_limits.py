"""Limits that shards share: a run's allowance is never exceeded, however many readings consume it."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinesis_assets.errors import ReadFailed, ShardStalled, ShardThrottled, TooManyBadRecords
from kinesis_assets.kinesis.limits import Allowance, Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.quota import Quota
from kinesis_assets.kinesis.read_timing import ReadTiming
from kinesis_assets.kinesis.reading import retry_policy
from kinesis_assets.kinesis.reading.range import RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.record import Record, Records
from kinesis_assets.testing import Faults, UserRecord, aggregate
from support.timing import set_timing
from support.virtual_time import VirtualTime

ALL_KEYS = ("0", str((1 << 128) - 1))
BEGINNING = Position(PositionKind.TRIM_HORIZON)
FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"
IN_SHARD = {FIRST: "0", SECOND: str((1 << 128) - 1)}

amounts = st.none() | st.integers(0, 10**12)


@pytest.fixture
def virtual(client):
    """A clock for quotas and readings that advances only when the reader waits."""
    virtual = VirtualTime()
    set_timing(client, clock=virtual)
    return virtual


def records(*data):
    return Records.of([Record(str(number), 0.0, item, "k") for number, item in enumerate(data)])


# Allowances


@settings(derandomize=True)
@given(amounts, amounts, st.none() | st.floats(0, 1e6), st.integers(1, 500))
def test_shares_add_up_to_the_allowance_and_differ_by_at_most_one(most_records, most_bytes, seconds, count):
    shares = Allowance(records=most_records, bytes=most_bytes, seconds=seconds).shares(count)
    assert len(shares) == max(1, min(each for each in (count, most_records, most_bytes) if each is not None))
    for name, amount in (("records", most_records), ("bytes", most_bytes)):
        parts = [getattr(share, name) for share in shares]
        if amount is None:
            assert set(parts) == {None}
        else:
            assert sum(parts) == amount
            assert max(parts) - min(parts) <= 1
            assert min(parts) > 0 or amount == 0
    assert {share.seconds for share in shares} == {seconds}  # tasks run in parallel


def test_the_rest_of_an_allowance_is_never_negative():
    allowance = Allowance(records=10, bytes=100, seconds=5.0)
    assert allowance.less(4, 30, 1.5) == Allowance(records=6, bytes=70, seconds=3.5)
    assert allowance.less(11, 101, 6.0) == Allowance(records=0, bytes=0, seconds=0.0)
    assert Allowance().less(4, 30, 1.5) == Allowance()


def test_within_keeps_the_shorter_time_and_the_other_limits():
    assert Allowance(records=3).within(7.0) == Allowance(records=3, seconds=7.0)
    assert Allowance(bytes=5, seconds=6.0).within(7.0) == Allowance(bytes=5, seconds=6.0)
    assert Allowance(seconds=8.0).within(7.0) == Allowance(seconds=7.0)


# Quotas


def test_a_quota_without_limits_takes_every_record():
    quota = Quota(Allowance())
    assert [quota.take(records(b"0", b"1")) for _ in range(3)] == [2, 2, 2]
    assert (quota.used_up, quota.records) == (False, None)


def test_a_record_quota_is_consumed_exactly():
    quota = Quota(Allowance(records=5))
    three = records(b"0", b"1", b"2")
    assert [quota.take(three), quota.used_up, quota.records] == [3, False, 2]
    assert [quota.take(three), quota.used_up, quota.records] == [2, True, 0]
    assert quota.take(three) == 0


def test_a_byte_quota_ends_before_the_record_that_exceeds_it():
    quota = Quota(Allowance(bytes=6))
    assert [quota.take(records(b"1", b"22")), quota.used_up] == [2, False]
    assert [quota.take(records(b"333", b"4")), quota.used_up] == [1, True]
    assert quota.take(records(b"5")) == 0


def test_a_byte_quota_skips_no_record_for_a_smaller_one():
    quota = Quota(Allowance(bytes=4))
    assert quota.take(records(b"1", b"4444", b"1")) == 1


def test_only_the_first_record_may_exceed_the_byte_quota():
    quota = Quota(Allowance(bytes=1))
    assert quota.take(records(b"333", b"")) == 1
    assert quota.used_up
    assert quota.take(records(b"4")) == 0


def test_record_and_byte_limits_both_apply():
    quota = Quota(Allowance(records=3, bytes=3))
    assert quota.take(records(b"1", b"22", b"3")) == 2
    assert (quota.used_up, quota.records) == (True, 1)
    quota = Quota(Allowance(records=2, bytes=100))
    assert quota.take(records(b"1", b"22", b"3")) == 2
    assert quota.used_up


def test_an_empty_page_consumes_no_quota():
    quota = Quota(Allowance(records=1, bytes=1))
    assert quota.take(records()) == 0
    assert quota.take(records(b"333")) == 1


def test_the_seconds_of_a_quota_count_from_its_creation(virtual):
    quota = Quota(Allowance(seconds=2.0), virtual)
    virtual.now += 1.9
    assert not quota.timed_out
    virtual.now += 0.1
    assert (quota.timed_out, quota.used_up) == (True, False)


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize(
    "zero",
    [Allowance(records=0), Allowance(bytes=0), Allowance(seconds=0.0), Allowance(records=0, bytes=9)],
)
def test_a_quota_of_zero_is_exhausted(zero):
    quota = Quota(zero)
    assert quota.used_up or quota.timed_out


# Readings that share a quota


@pytest.fixture
def put(kinesis, stream):
    """Put records into one of two shards; return their sequence numbers."""
    kinesis.create_stream(StreamName=stream, ShardCount=2)

    def put(shard_id, *data):
        entries = [
            {"Data": item, "PartitionKey": "k", "ExplicitHashKey": IN_SHARD[shard_id]} for item in data
        ]
        answer = kinesis.put_records(StreamName=stream, Records=entries)
        return [record["SequenceNumber"] for record in answer["Records"]]

    return put


@pytest.fixture
def reading_of(client):
    """Create a reading of one of the two shards, with or without a quota."""

    def reading_of(shard_id, quota=None, start=BEGINNING, max_bad_records=None, retry_seconds=None, **limits):
        range_ = ShardRange(
            shard_id,
            start,
            Bounds(**limits),
            ALL_KEYS,
            max_bad_records=max_bad_records,
            retry_seconds=retry_seconds,
        )
        return ShardReading(client, range_, quota)

    return reading_of


def data(reading):
    """Read to the end of the range and return the data."""
    return [record.data for record in chain.from_iterable(reading)]


@pytest.mark.parametrize("allowance", [Allowance(records=3), Allowance(bytes=3)])
def test_a_second_reading_takes_exactly_what_the_first_left(put, reading_of, allowance):
    put(FIRST, b"0", b"1")
    numbers = put(SECOND, b"2", b"3")
    quota = Quota(allowance)
    first, second = reading_of(FIRST, quota), reading_of(SECOND, quota)
    assert [data(first), first.end] == [[b"0", b"1"], RangeEnd.TIP]
    assert [data(second), second.end] == [[b"2"], RangeEnd.BOUND]
    assert second.position == Position.after(numbers[0])
    assert data(reading_of(SECOND, start=second.position)) == [b"3"]


def test_a_shared_quota_may_end_inside_an_aggregate(put, reading_of):
    put(FIRST, b"0")
    (number,) = put(SECOND, aggregate([UserRecord("k", b"1"), UserRecord("k", b"2"), UserRecord("k", b"3")]))
    quota = Quota(Allowance(records=3))
    assert data(reading_of(FIRST, quota)) == [b"0"]
    second = reading_of(SECOND, quota)
    assert data(second) == [b"1", b"2"]
    assert second.position == Position.after(number, 1)


@pytest.mark.parametrize("allowance", [Allowance(records=0), Allowance(bytes=0), Allowance(seconds=0.0)])
def test_a_reading_with_an_exhausted_quota_makes_no_call_and_keeps_its_position(
    put, reading_of, faults, allowance
):
    put(FIRST, b"0")
    reading = reading_of(FIRST, Quota(allowance))
    assert data(reading) == []
    timed_out = RangeEnd.TIME_LIMIT if allowance.seconds is not None else RangeEnd.BOUND
    assert (reading.end, reading.position) == (timed_out, BEGINNING)
    assert faults.count("GetRecords") == faults.count("GetShardIterator") == 0


@pytest.mark.parametrize(
    "limits",
    [{"max_records": 2}, {"max_bytes": 2}, {"max_bad_records": 0}],
    ids=lambda limits: next(iter(limits)),
)
def test_only_records_within_the_shards_own_bounds_consume_the_quota(put, reading_of, limits):
    damaged = aggregate([UserRecord("k", b"2")])[:-1]
    put(FIRST, b"0", b"1", damaged, b"3")
    quota = Quota(Allowance(records=10, bytes=1000))
    reading = reading_of(FIRST, quota, **limits)
    taken = []
    try:
        taken.extend(chain.from_iterable(reading))
    except TooManyBadRecords:
        assert "max_bad_records" in limits
    assert [record.data for record in taken] == [b"0", b"1"]
    assert quota.records == 8
    assert quota.take(records(bytes(998), b"1")) == 1


def test_the_shards_own_bounds_and_the_quota_both_apply(put, reading_of):
    put(FIRST, *[b"0"] * 6)
    quota = Quota(Allowance(records=5))
    assert len(data(reading_of(FIRST, quota, max_records=3))) == 3
    assert len(data(reading_of(FIRST, quota, max_records=3))) == 2


def test_the_limit_of_a_request_is_at_most_the_rest_of_the_quota(put, reading_of, faults):
    put(FIRST, *[b"0"] * 6)
    faults.page_size(2)
    quota = Quota(Allowance(records=5))
    assert len(data(reading_of(FIRST, quota, max_records=100))) == 5
    asked = [call.arguments["Limit"] for call in faults.calls if call.operation == "GetRecords"]
    assert asked == [5, 3, 1]


# Time


def test_max_seconds_ends_a_range_between_two_pages(put, reading_of, client, faults, virtual):
    set_timing(client, seconds_between_calls=0.0)
    put(FIRST, *[b"%d" % item for item in range(20)])
    faults.page_size(1)

    def ten_seconds_later(*_):
        virtual.now += 10

    faults.answer("GetRecords", ten_seconds_later)
    reading = reading_of(FIRST, max_seconds=35)
    assert data(reading) == [b"0", b"1", b"2", b"3", b"4"]
    assert reading.end is RangeEnd.TIME_LIMIT


@pytest.mark.usefixtures("virtual")
def test_no_page_is_requested_after_a_wait_that_exceeds_max_seconds(put, reading_of, client, faults):
    set_timing(client, bytes_per_second=1)
    put(FIRST, b"0_000", b"1_111")
    faults.page_size(1)
    assert data(reading_of(FIRST, max_seconds=1)) == [b"0_000"]


def test_empty_pages_are_read_up_to_the_first_record_even_after_the_time_limit(
    put, reading_of, faults, virtual
):
    put(FIRST, b"0", b"1", b"2")
    faults.empty_page(times=30)
    faults.page_size(1)
    began = virtual.now
    reading = reading_of(FIRST, Quota(Allowance(seconds=2.0), virtual))
    assert data(reading) == [b"0"]
    assert reading.end is RangeEnd.TIME_LIMIT
    assert virtual.now - began > 5


def test_a_shard_with_only_empty_pages_stalls_even_after_the_time_limit(put, reading_of, faults, virtual):
    put(FIRST, b"0")
    faults.empty_page()
    began = virtual.now
    with pytest.raises(ShardStalled):
        data(reading_of(FIRST, Quota(Allowance(seconds=2.0), virtual)))
    assert virtual.now - began == pytest.approx(ReadTiming().stall_seconds, abs=1)


def test_a_range_with_records_ends_after_retry_seconds_of_empty_pages(put, reading_of, faults, virtual):
    numbers = put(FIRST, b"0", b"1")
    faults.page_size(1)
    faults.empty_page(after=1)
    began = virtual.now
    reading = reading_of(FIRST, retry_seconds=2.0)
    assert data(reading) == [b"0"]
    assert (reading.end, reading.position) == (RangeEnd.TIME_LIMIT, Position.after(numbers[0]))
    assert 2 < virtual.now - began < 5


@pytest.mark.usefixtures("sdk_waits")
def test_a_throttled_range_with_records_ends_at_the_time_limit(put, reading_of, faults, virtual):
    numbers = put(FIRST, b"0", b"1")
    faults.page_size(1)
    faults.throttle(after=1)
    began = virtual.now
    reading = reading_of(FIRST, Quota(Allowance(seconds=2.0), virtual))
    assert data(reading) == [b"0"]
    assert (reading.end, reading.position) == (RangeEnd.TIME_LIMIT, Position.after(numbers[0]))
    assert virtual.now - began < 10


@pytest.mark.usefixtures("sdk_waits")
def test_a_throttled_range_without_records_fails_after_the_time_limit(put, reading_of, faults, virtual):
    put(FIRST, b"0")
    faults.throttle()
    with pytest.raises(ShardThrottled, match="ProvisionedThroughputExceeded"):
        data(reading_of(FIRST, Quota(Allowance(seconds=2.0), virtual)))


@pytest.mark.usefixtures("sdk_waits")
def test_a_throttled_range_ends_when_other_readings_have_exhausted_the_quota(
    put, reading_of, faults, virtual
):
    put(FIRST, b"0")
    quota = Quota(Allowance(records=1))
    faults.throttle()

    def exhaust_quota(*_):
        quota.take(records(b"another's"))

    faults.answer("GetRecords", exhaust_quota)
    began = virtual.now
    reading = reading_of(FIRST, quota)
    assert data(reading) == []
    assert (reading.end, reading.position.kind) == (RangeEnd.BOUND, PositionKind.TRIM_HORIZON)
    assert virtual.now - began < 5


@pytest.mark.usefixtures("sdk_waits")
def test_a_range_that_is_always_throttled_fails_after_retry_seconds(put, reading_of, faults, virtual):
    put(FIRST, b"0")
    faults.throttle()
    began = virtual.now
    with pytest.raises(ShardThrottled, match="ProvisionedThroughputExceeded"):
        data(reading_of(FIRST, retry_seconds=2.0))
    assert 2 < virtual.now - began < 10


@pytest.mark.usefixtures("sdk_waits")
def test_a_throttled_range_has_a_minimum_number_of_attempts(put, reading_of, faults):
    put(FIRST, b"0")
    faults.throttle(times=retry_policy._MIN_ATTEMPTS - 1)
    assert data(reading_of(FIRST, retry_seconds=0.0)) == [b"0"]
    before = faults.count("GetRecords")
    faults.throttle("GetRecords")
    with pytest.raises(ShardThrottled):
        data(reading_of(FIRST, retry_seconds=0.0))
    assert faults.count("GetRecords") - before == retry_policy._MIN_ATTEMPTS


@pytest.mark.usefixtures("sdk_waits")
def test_a_range_that_is_throttled_after_empty_pages_is_retried_until_it_stalls(
    put, reading_of, faults, virtual
):
    put(FIRST, b"0")
    faults.empty_page(times=3)
    faults.throttle()
    began = virtual.now
    with pytest.raises(ShardThrottled):
        data(reading_of(FIRST, retry_seconds=2.0))
    assert virtual.now - began >= ReadTiming().stall_seconds


def test_a_page_requested_before_the_time_limit_is_taken_completely(put, reading_of, faults, virtual):
    put(FIRST, b"0", b"1")

    def timed_out(*_):
        virtual.now += 5

    faults.answer("GetRecords", timed_out)
    reading = reading_of(FIRST, Quota(Allowance(seconds=2.0), virtual))
    assert data(reading) == [b"0", b"1"]
    assert reading.end is RangeEnd.TIP


@pytest.mark.usefixtures("sdk_waits")
@pytest.mark.parametrize("fault", [Faults.throttle, Faults.reset, Faults.cut_body, Faults.fail])
def test_a_failing_range_with_records_ends_after_retry_seconds(put, reading_of, faults, virtual, fault):
    numbers = put(FIRST, b"0", b"1")
    faults.page_size(1)
    fault(faults, after=1)
    began = virtual.now
    reading = reading_of(FIRST, retry_seconds=0.5)
    assert data(reading) == [b"0"]
    assert (reading.end, reading.position) == (RangeEnd.TIME_LIMIT, Position.after(numbers[0]))
    assert 0.5 < virtual.now - began < 10


@pytest.mark.usefixtures("sdk_waits")
def test_retry_seconds_count_only_consecutive_failures(put, reading_of, faults):
    put(FIRST, b"0", b"1", b"2", b"3")
    faults.page_size(1)
    for after in (1, 4, 7):  # between the pages
        faults.throttle(after=after, times=2)
    reading = reading_of(FIRST, retry_seconds=5.0)
    assert data(reading) == [b"0", b"1", b"2", b"3"]
    assert reading.end is RangeEnd.TIP


@pytest.mark.usefixtures("sdk_waits")
def test_a_permanent_error_fails_even_a_range_with_records(put, reading_of, faults):
    put(FIRST, b"0", b"1")
    faults.page_size(1)
    faults.fail(status=400, code="AccessDeniedException", after=1)
    with pytest.raises(ReadFailed, match="AccessDenied"):
        data(reading_of(FIRST, retry_seconds=0.0))
