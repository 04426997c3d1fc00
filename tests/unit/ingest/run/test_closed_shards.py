"""Shards that were closed when they were first listed: they may expire at any time after that.

Their first list does not show until when they stay. Time, list and iterator have to agree before one is given
up, so no wrong answer of one of them is enough.
"""

from __future__ import annotations

import pytest

from kinesis_assets.errors import ParentUnfinished, ReadFailed, ShardVanished

YEAR = 365 * 24 * 3600
CONTINUE = {"on_data_loss": "continue"}
BOTH = pytest.mark.parametrize("policy", [{}, CONTINUE], ids=["fail", "continue"])
WRONG_TIME = pytest.mark.parametrize("years", [0, 10], ids=["right time", "wrong time"])


@pytest.fixture
def closed(bench):
    """A shard that was closed when it was first listed, unread, and its children."""
    (parent,) = bench.create()
    bench.put(1)
    children = bench.split(parent)
    bench.put(2)
    bench.plan()
    assert bench.at(parent).listed_until is None
    bench.later(hours=1)
    return parent, children


def leave_out(faults, shard_id):
    """Leave a shard out of each list."""
    faults.answer(
        "ListShards",
        lambda _, answer: answer.but(
            Shards=[shard for shard in answer.members["Shards"] if shard["ShardId"] != shard_id]
        ),
    )


def shift_time(faults, years):
    """Have each description and list bear the same wrong date."""
    if years:
        for operation in ("DescribeStreamSummary", "ListShards"):
            faults.skew_date(years * YEAR, operation)


def refuse_iterators(faults, shard_id):
    faults.fail("GetShardIterator", status=400, code="ResourceNotFoundException", shard_id=shard_id)


def assert_nothing_was_given_up(bench, faults, closed):
    """Nor was anything lost: the next run reads all of it."""
    parent, children = closed
    faults.clear()
    assert bench.positions.finished == set()
    assert bench.run([parent, *children]).errors == {}
    assert (bench.items, bench.at(parent).gaps) == ([1, 2], ())


@BOTH
@WRONG_TIME
def test_a_wrong_list_alone_gives_nothing_up(bench, faults, closed, policy, years):
    parent, children = closed
    leave_out(faults, parent)
    shift_time(faults, years)
    errors = bench.run([parent, *children], **policy).errors
    assert isinstance(errors[parent], ShardVanished)
    assert "though it can still be read: the list was incomplete" in str(errors[parent])
    assert all(isinstance(errors[child], ParentUnfinished) for child in children)
    assert_nothing_was_given_up(bench, faults, closed)


@BOTH
@WRONG_TIME
def test_a_wrong_refusal_of_an_iterator_alone_gives_nothing_up(bench, faults, closed, policy, years):
    parent, children = closed
    refuse_iterators(faults, parent)
    shift_time(faults, years)
    errors = bench.run([parent, *children], **policy).errors
    assert isinstance(errors[parent], ReadFailed)
    assert all(isinstance(errors[child], ParentUnfinished) for child in children)
    assert_nothing_was_given_up(bench, faults, closed)


@BOTH
def test_a_wrong_time_alone_gives_nothing_up(bench, faults, closed, policy):
    parent, children = closed
    shift_time(faults, 10)
    plan = bench.plan([parent, *children], **policy)
    assert (plan.given_up, plan.refused) == ({}, {})
    assert parent in plan.ranges
    assert_nothing_was_given_up(bench, faults, closed)


@BOTH
def test_once_it_was_read_the_time_protects_it_against_list_and_iterator(bench, faults, policy):
    (parent,) = bench.create()
    bench.put(1, 2)
    children = bench.split(parent)
    bench.run([parent], max_records=1)
    bench.later(hours=23)
    leave_out(faults, parent)
    refuse_iterators(faults, parent)
    errors = bench.run([parent, *children], **policy).errors
    assert "though none of its records can have expired before" in str(errors[parent])
    assert bench.positions.finished == set()
