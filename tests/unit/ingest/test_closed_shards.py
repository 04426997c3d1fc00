"""Shards that were already closed when they were first listed, which may expire at any time.

Such a shard is skipped only if the time, the shard list and the iterator request all show that it has
expired. One incorrect response is not enough.
"""

from __future__ import annotations

import pytest

from kinesis_assets.errors import ParentUnfinished, ReadFailed, ShardVanished
from support.shard_lists import omit_shards

pytestmark = pytest.mark.slow

YEAR = 365 * 24 * 3600
CONTINUE = {"on_data_loss": "continue"}
BOTH_POLICIES = pytest.mark.parametrize("policy", [{}, CONTINUE], ids=["fail", "continue"])
SERVICE_TIME = pytest.mark.parametrize("years", [0, 10], ids=["correct_time", "incorrect_time"])


@pytest.fixture
def closed(bench):
    """An unread shard that was closed when it was first listed, and its children."""
    (parent,) = bench.create()
    bench.put(1)
    children = bench.split(parent)
    bench.put(2)
    bench.plan()
    assert bench.at(parent).listed_until is None
    bench.later(hours=1)
    return parent, children


def shift_time(faults, years):
    """Return every stream summary and shard list with the same incorrect date."""
    if years:
        for operation in ("DescribeStreamSummary", "ListShards"):
            faults.skew_date(years * YEAR, operation)


def refuse_iterators(faults, shard_id):
    faults.fail("GetShardIterator", status=400, code="ResourceNotFoundException", shard_id=shard_id)


def assert_not_skipped(bench, faults, closed):
    """Assert that the shard is not finished, and that the next run reads all records."""
    parent, children = closed
    faults.clear()
    assert bench.positions.finished == set()
    assert bench.run([parent, *children]).errors == {}
    assert (bench.items, bench.at(parent).gaps) == ([1, 2], ())


@BOTH_POLICIES
@SERVICE_TIME
def test_a_shard_that_is_only_missing_from_the_list_is_not_skipped(bench, faults, closed, policy, years):
    parent, children = closed
    omit_shards(faults, parent)
    shift_time(faults, years)
    errors = bench.run([parent, *children], **policy).errors
    assert isinstance(errors[parent], ShardVanished)
    assert "though it can still be read: the list was incomplete" in str(errors[parent])
    assert all(isinstance(errors[child], ParentUnfinished) for child in children)
    assert_not_skipped(bench, faults, closed)


@BOTH_POLICIES
@SERVICE_TIME
def test_a_listed_shard_is_not_skipped_if_its_iterator_is_refused(bench, faults, closed, policy, years):
    parent, children = closed
    refuse_iterators(faults, parent)
    shift_time(faults, years)
    errors = bench.run([parent, *children], **policy).errors
    assert isinstance(errors[parent], ReadFailed)
    assert all(isinstance(errors[child], ParentUnfinished) for child in children)
    assert_not_skipped(bench, faults, closed)


@BOTH_POLICIES
def test_an_incorrect_time_alone_skips_no_shard(bench, faults, closed, policy):
    parent, children = closed
    shift_time(faults, 10)
    plan = bench.plan([parent, *children], **policy)
    assert (plan.given_up, plan.refused) == ({}, {})
    assert parent in plan.ranges
    assert_not_skipped(bench, faults, closed)


@BOTH_POLICIES
def test_a_shard_that_was_read_is_not_skipped_within_its_retention(bench, faults, policy):
    (parent,) = bench.create()
    bench.put(1, 2)
    children = bench.split(parent)
    bench.run([parent], max_records=1)
    bench.later(hours=23)
    omit_shards(faults, parent)
    refuse_iterators(faults, parent)
    errors = bench.run([parent, *children], **policy).errors
    assert "though none of its records can have expired before" in str(errors[parent])
    assert bench.positions.finished == set()
