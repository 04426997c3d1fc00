"""Bounds that shards share: what a run allows is never exceeded, however many readings use it up."""

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
    """The time of budgets and reader, which passes only where the reader waits."""
    virtual = VirtualTime()
    set_timing(client, clock=virtual)
    return virtual


def records(*data):
    return Records.of([Record(str(number), 0.0, item, "k") for number, item in enumerate(data)])


# Allowances


@settings(derandomize=True)
@given(amounts, amounts, st.none() | st.floats(0, 1e6), st.integers(1, 500))
def test_shares_add_up_to_the_allowance_and_differ_by_one_at_most(most_records, most_bytes, seconds, count):
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
    assert {share.seconds for share in shares} == {seconds}  # tasks run side by side


def test_what_is_left_of_an_allowance_is_never_below_nothing():
    allowance = Allowance(records=10, bytes=100, seconds=5.0)
    assert allowance.less(4, 30, 1.5) == Allowance(records=6, bytes=70, seconds=3.5)
    assert allowance.less(11, 101, 6.0) == Allowance(records=0, bytes=0, seconds=0.0)
    assert Allowance().less(4, 30, 1.5) == Allowance()


def test_an_allowance_within_some_time_keeps_the_shorter_one_and_all_else():
    assert Allowance(records=3).within(7.0) == Allowance(records=3, seconds=7.0)
    assert Allowance(bytes=5, seconds=6.0).within(7.0) == Allowance(bytes=5, seconds=6.0)
    assert Allowance(seconds=8.0).within(7.0) == Allowance(seconds=7.0)


# Budgets


def test_budget_without_bounds_gives_everything_for_ever():
    budget = Quota(Allowance())
    assert [budget.take(records(b"0", b"1")) for _ in range(3)] == [2, 2, 2]
    assert (budget.used_up, budget.records) == (False, None)


def test_budget_of_records_is_used_up_exactly():
    budget = Quota(Allowance(records=5))
    three = records(b"0", b"1", b"2")
    assert [budget.take(three), budget.used_up, budget.records] == [3, False, 2]
    assert [budget.take(three), budget.used_up, budget.records] == [2, True, 0]
    assert budget.take(three) == 0


def test_budget_of_bytes_ends_before_the_record_that_exceeds_it():
    budget = Quota(Allowance(bytes=6))
    assert [budget.take(records(b"1", b"22")), budget.used_up] == [2, False]
    assert [budget.take(records(b"333", b"4")), budget.used_up] == [1, True]
    assert budget.take(records(b"5")) == 0


def test_budget_of_bytes_passes_over_no_record_for_a_smaller_one():
    budget = Quota(Allowance(bytes=4))
    assert budget.take(records(b"1", b"4444", b"1")) == 1


def test_first_record_of_a_budget_is_taken_whatever_its_bytes_and_no_other():
    budget = Quota(Allowance(bytes=1))
    assert budget.take(records(b"333", b"")) == 1
    assert budget.used_up
    assert budget.take(records(b"4")) == 0


def test_both_bounds_of_a_budget_hold():
    budget = Quota(Allowance(records=3, bytes=3))
    assert budget.take(records(b"1", b"22", b"3")) == 2
    assert (budget.used_up, budget.records) == (True, 1)
    budget = Quota(Allowance(records=2, bytes=100))
    assert budget.take(records(b"1", b"22", b"3")) == 2
    assert budget.used_up


def test_nothing_is_taken_of_nothing():
    budget = Quota(Allowance(records=1, bytes=1))
    assert budget.take(records()) == 0
    assert budget.take(records(b"333")) == 1


def test_seconds_of_a_budget_count_from_its_making(virtual):
    budget = Quota(Allowance(seconds=2.0), virtual)
    virtual.now += 1.9
    assert not budget.timed_out
    virtual.now += 0.1
    assert (budget.timed_out, budget.used_up) == (True, False)


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize(
    "none_left",
    [Allowance(records=0), Allowance(bytes=0), Allowance(seconds=0.0), Allowance(records=0, bytes=9)],
)
def test_budget_of_nothing_is_over(none_left):
    budget = Quota(none_left)
    assert budget.used_up or budget.timed_out


# Readings that share a budget


@pytest.fixture
def put(kinesis, stream):
    """Puts records into one of two shards; gives their sequence numbers."""
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
    """A reading of one of the two shards, with or without a budget."""

    def reading_of(
        shard_id, budget=None, start=BEGINNING, max_bad_records=None, retry_seconds=None, **limits
    ):
        range_ = ShardRange(
            shard_id,
            start,
            Bounds(**limits),
            ALL_KEYS,
            max_bad_records=max_bad_records,
            retry_seconds=retry_seconds,
        )
        return ShardReading(client, range_, budget)

    return reading_of


def data(reading):
    """What a reading hands out, to its end."""
    return [record.data for record in chain.from_iterable(reading)]


@pytest.mark.parametrize("allowance", [Allowance(records=3), Allowance(bytes=3)])
def test_second_reading_takes_what_the_first_left_and_ends_there_exactly(put, reading_of, allowance):
    put(FIRST, b"0", b"1")
    numbers = put(SECOND, b"2", b"3")
    budget = Quota(allowance)
    first, second = reading_of(FIRST, budget), reading_of(SECOND, budget)
    assert [data(first), first.end] == [[b"0", b"1"], RangeEnd.TIP]
    assert [data(second), second.end] == [[b"2"], RangeEnd.BOUND]
    assert second.position == Position.after(numbers[0])
    assert data(reading_of(SECOND, start=second.position)) == [b"3"]


def test_budget_inside_an_aggregate_is_as_exact(put, reading_of):
    put(FIRST, b"0")
    (number,) = put(SECOND, aggregate([UserRecord("k", b"1"), UserRecord("k", b"2"), UserRecord("k", b"3")]))
    budget = Quota(Allowance(records=3))
    assert data(reading_of(FIRST, budget)) == [b"0"]
    second = reading_of(SECOND, budget)
    assert data(second) == [b"1", b"2"]
    assert second.position == Position.after(number, 1)


@pytest.mark.parametrize("allowance", [Allowance(records=0), Allowance(bytes=0), Allowance(seconds=0.0)])
def test_reading_of_a_spent_budget_asks_for_nothing_and_moves_nothing(put, reading_of, faults, allowance):
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
def test_budget_pays_only_for_what_the_shards_own_bounds_let_through(put, reading_of, limits):
    torn = aggregate([UserRecord("k", b"2")])[:-1]
    put(FIRST, b"0", b"1", torn, b"3")
    budget = Quota(Allowance(records=10, bytes=1000))
    reading = reading_of(FIRST, budget, **limits)
    taken = []
    try:
        taken.extend(chain.from_iterable(reading))
    except TooManyBadRecords:
        assert "max_bad_records" in limits
    assert [record.data for record in taken] == [b"0", b"1"]
    assert budget.records == 8
    assert budget.take(records(bytes(998), b"1")) == 1


def test_shards_own_bounds_and_the_budget_hold_both(put, reading_of):
    put(FIRST, *[b"0"] * 6)
    budget = Quota(Allowance(records=5))
    assert len(data(reading_of(FIRST, budget, max_records=3))) == 3
    assert len(data(reading_of(FIRST, budget, max_records=3))) == 2


def test_no_page_is_asked_for_with_more_records_than_may_be_taken(put, reading_of, faults):
    put(FIRST, *[b"0"] * 6)
    faults.page_size(2)
    budget = Quota(Allowance(records=5))
    assert len(data(reading_of(FIRST, budget, max_records=100))) == 5
    asked = [call.arguments["Limit"] for call in faults.calls if call.operation == "GetRecords"]
    assert asked == [5, 3, 1]


# Time


def test_most_seconds_of_a_range_are_so_many_seconds_of_pages(put, reading_of, client, faults, virtual):
    set_timing(client, seconds_between_calls=0.0)
    put(FIRST, *[b"%d" % item for item in range(20)])
    faults.page_size(1)

    def a_while_later(*_):
        virtual.now += 10

    faults.answer("GetRecords", a_while_later)
    reading = reading_of(FIRST, max_seconds=35)
    assert data(reading) == [b"0", b"1", b"2", b"3", b"4"]
    assert reading.end is RangeEnd.TIME_LIMIT


@pytest.mark.usefixtures("virtual")
def test_no_page_is_begun_after_a_wait_that_outlasted_the_seconds(put, reading_of, client, faults):
    set_timing(client, bytes_per_second=1)
    put(FIRST, b"0_000", b"1_111")
    faults.page_size(1)
    assert data(reading_of(FIRST, max_seconds=1)) == [b"0_000"]


def test_shard_that_was_begun_goes_through_its_empty_pages_to_the_first_records_though_the_run_is_late(
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


def test_shard_that_gives_nothing_but_empty_pages_fails_though_the_run_is_late(
    put, reading_of, faults, virtual
):
    put(FIRST, b"0")
    faults.empty_page()
    began = virtual.now
    with pytest.raises(ShardStalled):
        data(reading_of(FIRST, Quota(Allowance(seconds=2.0), virtual)))
    assert virtual.now - began == pytest.approx(ReadTiming().stall_seconds, abs=1)


def test_shard_that_gave_records_and_then_nothing_but_empty_pages_ends_with_what_it_has(
    put, reading_of, faults, virtual
):
    numbers = put(FIRST, b"0", b"1")
    faults.page_size(1)
    faults.empty_page(after=1)
    began = virtual.now
    reading = reading_of(FIRST, retry_seconds=2.0)
    assert data(reading) == [b"0"]
    assert (reading.end, reading.position) == (RangeEnd.TIME_LIMIT, Position.after(numbers[0]))
    assert 2 < virtual.now - began < 5


@pytest.mark.usefixtures("sdk_waits")
def test_throttled_shard_ends_with_what_it_has_when_the_run_is_late(put, reading_of, faults, virtual):
    numbers = put(FIRST, b"0", b"1")
    faults.page_size(1)
    faults.throttle(after=1)
    began = virtual.now
    reading = reading_of(FIRST, Quota(Allowance(seconds=2.0), virtual))
    assert data(reading) == [b"0"]
    assert (reading.end, reading.position) == (RangeEnd.TIME_LIMIT, Position.after(numbers[0]))
    assert virtual.now - began < 10


@pytest.mark.usefixtures("sdk_waits")
def test_throttled_shard_that_has_nothing_yet_fails_however_short_the_run(put, reading_of, faults, virtual):
    put(FIRST, b"0")
    faults.throttle()
    with pytest.raises(ShardThrottled, match="ProvisionedThroughputExceeded"):
        data(reading_of(FIRST, Quota(Allowance(seconds=2.0), virtual)))


@pytest.mark.usefixtures("sdk_waits")
def test_refused_shard_ends_when_others_have_taken_what_was_allowed(put, reading_of, faults, virtual):
    put(FIRST, b"0")
    budget = Quota(Allowance(records=1))
    faults.throttle()

    def another_takes_it(*_):
        budget.take(records(b"another's"))

    faults.answer("GetRecords", another_takes_it)
    began = virtual.now
    reading = reading_of(FIRST, budget)
    assert data(reading) == []
    assert (reading.end, reading.position.kind) == (RangeEnd.BOUND, PositionKind.TRIM_HORIZON)
    assert virtual.now - began < 5


@pytest.mark.usefixtures("sdk_waits")
def test_throttled_shard_that_was_never_answered_has_as_long_as_there_is_patience(
    put, reading_of, faults, virtual
):
    put(FIRST, b"0")
    faults.throttle()
    began = virtual.now
    with pytest.raises(ShardThrottled, match="ProvisionedThroughputExceeded"):
        data(reading_of(FIRST, retry_seconds=2.0))
    assert 2 < virtual.now - began < 10


@pytest.mark.usefixtures("sdk_waits")
def test_throttled_shard_has_some_tries_however_little_patience(put, reading_of, faults):
    put(FIRST, b"0")
    faults.throttle(times=retry_policy._MIN_ATTEMPTS - 1)
    assert data(reading_of(FIRST, retry_seconds=0.0)) == [b"0"]
    before = faults.count("GetRecords")
    faults.throttle("GetRecords")
    with pytest.raises(ShardThrottled):
        data(reading_of(FIRST, retry_seconds=0.0))
    assert faults.count("GetRecords") - before == retry_policy._MIN_ATTEMPTS


@pytest.mark.usefixtures("sdk_waits")
def test_throttled_shard_that_came_through_empty_pages_is_waited_for(put, reading_of, faults, virtual):
    put(FIRST, b"0")
    faults.empty_page(times=3)
    faults.throttle()
    began = virtual.now
    with pytest.raises(ShardThrottled):
        data(reading_of(FIRST, retry_seconds=2.0))
    assert virtual.now - began >= ReadTiming().stall_seconds


def test_page_that_was_begun_in_time_is_taken_whole(put, reading_of, faults, virtual):
    put(FIRST, b"0", b"1")

    def timed_out(*_):
        virtual.now += 5

    faults.answer("GetRecords", timed_out)
    reading = reading_of(FIRST, Quota(Allowance(seconds=2.0), virtual))
    assert data(reading) == [b"0", b"1"]
    assert reading.end is RangeEnd.TIP


@pytest.mark.usefixtures("sdk_waits")
@pytest.mark.parametrize("trouble", [Faults.throttle, Faults.reset, Faults.cut_body, Faults.fail])
def test_shard_that_is_asked_in_vain_ends_with_what_it_has_when_there_is_no_more_patience(
    put, reading_of, faults, virtual, trouble
):
    numbers = put(FIRST, b"0", b"1")
    faults.page_size(1)
    trouble(faults, after=1)
    began = virtual.now
    reading = reading_of(FIRST, retry_seconds=0.5)
    assert data(reading) == [b"0"]
    assert (reading.end, reading.position) == (RangeEnd.TIME_LIMIT, Position.after(numbers[0]))
    assert 0.5 < virtual.now - began < 10


@pytest.mark.usefixtures("sdk_waits")
def test_patience_is_for_what_comes_in_vain_one_after_the_other(put, reading_of, faults):
    put(FIRST, b"0", b"1", b"2", b"3")
    faults.page_size(1)
    for after in (1, 4, 7):  # between the pages
        faults.throttle(after=after, times=2)
    reading = reading_of(FIRST, retry_seconds=5.0)
    assert data(reading) == [b"0", b"1", b"2", b"3"]
    assert reading.end is RangeEnd.TIP


@pytest.mark.usefixtures("sdk_waits")
def test_shard_that_is_refused_for_good_fails_also_with_records_and_without_patience(put, reading_of, faults):
    put(FIRST, b"0", b"1")
    faults.page_size(1)
    faults.fail(status=400, code="AccessDeniedException", after=1)
    with pytest.raises(ReadFailed, match="AccessDenied"):
        data(reading_of(FIRST, retry_seconds=0.0))
