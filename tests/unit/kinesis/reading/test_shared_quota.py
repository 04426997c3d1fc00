"""Readings that share a quota."""

from __future__ import annotations

from itertools import chain

import pytest

from kinesis_assets.errors import TooManyBadRecords
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import Allowance, Quota, RangeEnd
from kinesis_assets.testing import UserRecord, aggregate
from support.one_shard import BEGINNING, data
from support.quota_records import records
from support.two_shards import FIRST, SECOND


@pytest.mark.parametrize("allowance", [Allowance(records=3), Allowance(bytes=3)])
def test_a_second_reading_takes_exactly_what_the_first_left(put_to, reading_in, allowance):
    put_to(FIRST, b"0", b"1")
    numbers = put_to(SECOND, b"2", b"3")
    quota = Quota(allowance)
    first, second = reading_in(FIRST, quota), reading_in(SECOND, quota)
    assert [data(first), first.end] == [[b"0", b"1"], RangeEnd.TIP]
    assert [data(second), second.end] == [[b"2"], RangeEnd.BOUND]
    assert second.position == Position.after(numbers[0])
    assert data(reading_in(SECOND, start=second.position)) == [b"3"]


def test_a_shared_quota_may_end_inside_an_aggregate(put_to, reading_in):
    put_to(FIRST, b"0")
    (number,) = put_to(
        SECOND, aggregate([UserRecord("k", b"1"), UserRecord("k", b"2"), UserRecord("k", b"3")])
    )
    quota = Quota(Allowance(records=3))
    assert data(reading_in(FIRST, quota)) == [b"0"]
    second = reading_in(SECOND, quota)
    assert data(second) == [b"1", b"2"]
    assert second.position == Position.after(number, 1)


@pytest.mark.parametrize("allowance", [Allowance(records=0), Allowance(bytes=0), Allowance(seconds=0.0)])
def test_a_reading_with_an_exhausted_quota_makes_no_call_and_keeps_its_position(
    put_to, reading_in, faults, allowance
):
    put_to(FIRST, b"0")
    reading = reading_in(FIRST, Quota(allowance))
    assert data(reading) == []
    timed_out = RangeEnd.TIME_LIMIT if allowance.seconds is not None else RangeEnd.BOUND
    assert (reading.end, reading.position) == (timed_out, BEGINNING)
    assert faults.count("GetRecords") == faults.count("GetShardIterator") == 0


@pytest.mark.parametrize(
    "limits",
    [{"max_records": 2}, {"max_bytes": 2}, {"max_bad_records": 0}],
    ids=lambda limits: next(iter(limits)),
)
def test_only_records_within_the_shards_own_bounds_consume_the_quota(put_to, reading_in, limits):
    damaged = aggregate([UserRecord("k", b"2")])[:-1]
    put_to(FIRST, b"0", b"1", damaged, b"3")
    quota = Quota(Allowance(records=10, bytes=1000))
    reading = reading_in(FIRST, quota, **limits)
    taken = []
    try:
        taken.extend(chain.from_iterable(reading))
    except TooManyBadRecords:
        assert "max_bad_records" in limits
    assert [record.data for record in taken] == [b"0", b"1"]
    assert quota.records == 8
    assert quota.take(records(bytes(998), b"1")) == 1


def test_the_shards_own_bounds_and_the_quota_both_apply(put_to, reading_in):
    put_to(FIRST, *[b"0"] * 6)
    quota = Quota(Allowance(records=5))
    assert len(data(reading_in(FIRST, quota, max_records=3))) == 3
    assert len(data(reading_in(FIRST, quota, max_records=3))) == 2


def test_the_limit_of_a_request_is_at_most_the_rest_of_the_quota(put_to, reading_in, faults):
    put_to(FIRST, *[b"0"] * 6)
    faults.page_size(2)
    quota = Quota(Allowance(records=5))
    assert len(data(reading_in(FIRST, quota, max_records=100))) == 5
    asked = [call.arguments["Limit"] for call in faults.calls if call.operation == "GetRecords"]
    assert asked == [5, 3, 1]
