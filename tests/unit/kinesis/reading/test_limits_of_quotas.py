"""A quota is never exceeded, however many readings consume it."""

from __future__ import annotations

import pytest

from kinesis_assets.kinesis.reading.range import Allowance, Quota
from support.quota_records import records


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


@pytest.mark.parametrize(
    "zero",
    [Allowance(records=0), Allowance(bytes=0), Allowance(seconds=0.0), Allowance(records=0, bytes=9)],
)
def test_a_quota_of_zero_is_exhausted(zero):
    quota = Quota(zero)
    assert quota.used_up or quota.timed_out
