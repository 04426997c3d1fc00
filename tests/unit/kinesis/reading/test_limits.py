"""Limits that shards share."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kinesis_assets.kinesis.reading.range import Allowance

amounts = st.none() | st.integers(0, 10**12)


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
