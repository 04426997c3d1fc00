"""Following shards that fail, are throttled, or do not answer."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import pytest

from kinesis_assets.errors import (
    CommitFailed,
    ReadFailed,
    ShardSilent,
    ShardsNotCommitted,
    ShardThrottled,
    ShardUnknown,
)
from kinesis_assets.ingest.plan import ReadPolicy
from kinesis_assets.ingest.run_timing import RunTiming
from kinesis_assets.kinesis.limits import Allowance
from kinesis_assets.retry import Backoff
from support.continuous import PACE, A, B, Followed

pytestmark = pytest.mark.real_time

SOON = Backoff(0.01, 30.0)
LATE = Backoff(30.0, 30.0)
"""The wait of a failed shard: none to speak of, or longer than a test."""


def test_a_failing_shard_does_not_hold_its_neighbours_and_is_told_once(bench, faults):
    bench.create(2)
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A)
    puts = {number: lambda: bench.put(1, part=0.5) for number in range(1, 40)}
    followed = Followed(bench, pace=RunTiming(1.5, commit_interval=0.05, failed_shard=SOON), before=puts)
    with pytest.raises(ShardsNotCommitted) as caught:
        followed.run(A, B)
    assert {shard_id: type(error) for shard_id, error in caught.value.errors.items()} == {A: ReadFailed}
    told = [event for event in followed.events if A in event]
    assert [event[A] for event in told] == [("failed", 0)]
    assert [event[B] for event in followed.events if B in event] == [("committed", 1)] * len(bench.items)
    assert len(bench.items) > 1


def test_a_failing_shard_is_tried_again_later_and_later(bench, faults):
    bench.create()
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A)
    with pytest.raises(ShardsNotCommitted):
        Followed(bench, pace=RunTiming(3.5, commit_interval=0.05)).run(A)
    assert faults.count("GetRecords") + faults.count("GetShardIterator") <= 6  # at 0, 1 and 3 seconds


def test_a_shard_that_is_well_again_fails_no_run(bench, faults):
    bench.create()
    bench.put(1)
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A, times=2)
    followed = Followed(bench, pace=RunTiming(3.0, commit_interval=0.05, failed_shard=SOON)).run(A)
    assert followed.events == [{A: ("failed", 0)}, {A: ("committed", 1)}]


def test_what_a_failing_shard_brought_is_told_each_time(bench, faults):
    """A commit that no event tells of would be told again by the sensor."""
    bench.create()
    bench.put(*range(4))
    faults.page_size(1)
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A, after=1, times=1)
    followed = Followed(bench, pace=replace(PACE, failed_shard=SOON), last_round=2).run(A)
    assert followed.events == [{A: ("failed", 1)}, {A: ("committed", 3)}]


def test_a_run_that_fails_tells_at_its_end_of_the_shards_that_were_well(bench):
    bench.create(2)
    bench.put(1, part=0.5)
    followed = Followed(bench, pace=RunTiming(0.3, commit_interval=0.05))
    with pytest.raises(ShardsNotCommitted) as caught:
        followed.run(A, B, "bogus")
    assert {shard_id: type(error) for shard_id, error in caught.value.errors.items()} == {
        "bogus": ShardUnknown
    }
    assert followed.events == [{B: ("committed", 1), "bogus": ("failed", 0)}, {A: ("committed", 0)}]


def test_a_shard_that_failed_and_is_well_is_told_so_at_the_end_of_a_run_that_fails(
    bench,
    faults,
):
    bench.create()
    bench.put(1)
    fail = partial(faults.fail, status=400, code="KMSAccessDeniedException", shard_id=A, times=1)
    followed = Followed(bench, pace=RunTiming(3.0, commit_interval=0.05, failed_shard=SOON), before={2: fail})
    with pytest.raises(ShardsNotCommitted):
        followed.run(A, "bogus")
    told = [event[A] for event in followed.events if A in event]
    assert told == [("committed", 1), ("failed", 0), ("committed", 0)]


def test_a_shard_that_failed_and_is_throttled_since_fails_the_run(bench, faults):
    bench.create()
    bench.put(1)
    fail = partial(faults.fail, status=400, code="KMSAccessDeniedException", shard_id=A, times=1)
    before = {2: fail, 3: partial(faults.throttle, shard_id=A)}
    with pytest.raises(ShardsNotCommitted) as caught:
        Followed(bench, pace=RunTiming(3.0, commit_interval=0.05, failed_shard=SOON), before=before).run(A)
    assert {shard_id: type(error) for shard_id, error in caught.value.errors.items()} == {A: ShardThrottled}


def test_a_throttled_shard_holds_no_commit_of_its_neighbours_and_is_not_told(bench, faults):
    bench.create(2)
    faults.throttle(shard_id=A)
    before = {number: partial(bench.put, number, part=0.5) for number in (1, 2, 3)}
    began = time.monotonic()
    followed = Followed(bench, before=before, last_round=3).run(A, B)
    assert followed.events == [{B: ("committed", 1)}] * 3
    assert time.monotonic() - began < 20  # not STALL_SECONDS for each


def test_a_shard_that_was_throttled_for_a_while_is_read_on_and_fails_no_run(bench, faults):
    bench.create()
    bench.put(1)
    faults.throttle(shard_id=A)
    followed = Followed(
        bench, pace=replace(PACE, failed_shard=SOON), before={3: faults.clear}, last_round=3
    ).run(A)
    assert followed.events == [{A: ("committed", 1)}]


def test_a_shard_that_was_never_read_for_throttling_fails_the_run_however_short(bench, faults):
    bench.create(2)
    faults.throttle(shard_id=A)
    followed = Followed(bench, pace=RunTiming(1.5, commit_interval=0.05))
    with pytest.raises(ShardsNotCommitted) as caught:
        followed.run(A, B)
    assert {shard_id: type(error) for shard_id, error in caught.value.errors.items()} == {A: ShardThrottled}
    assert followed.events == [{B: ("committed", 0)}]


def test_a_shard_throttled_at_the_end_is_told_as_well_and_not_named_where_another_fails(
    bench,
    faults,
):
    bench.create(2)
    fail = partial(faults.fail, status=400, code="KMSAccessDeniedException", shard_id=B)
    before = {2: lambda: (faults.throttle(shard_id=A), fail())}
    followed = Followed(bench, pace=RunTiming(3.0, commit_interval=0.05, failed_shard=SOON), before=before)
    with pytest.raises(ShardsNotCommitted) as caught:
        followed.run(A, B)
    assert list(caught.value.errors) == [B]
    assert followed.events == [{B: ("failed", 0)}, {A: ("committed", 0)}]


def test_a_shard_that_is_throttled_for_long_is_told_once_and_fails_the_run(bench, faults):
    bench.set_timing(stall_seconds=0.5)
    bench.create()
    faults.throttle(shard_id=A)
    followed = Followed(bench, pace=RunTiming(3.0, commit_interval=0.05, failed_shard=SOON))
    with pytest.raises(ShardsNotCommitted) as caught:
        followed.run(A)
    assert {shard_id: type(error) for shard_id, error in caught.value.errors.items()} == {A: ShardThrottled}
    assert followed.events == [{A: ("failed", 0)}]


def test_throttling_has_lasted_since_the_first_throttled_round_began(bench, faults):
    bench.set_timing(stall_seconds=0.05)
    bench.create()
    faults.throttle(shard_id=A)
    followed = Followed(bench, pace=RunTiming(600.0, commit_interval=0.05), last_round=1).run(A)
    assert followed.events == [{A: ("failed", 0)}]


def test_a_shard_that_does_not_answer_holds_no_commit_of_its_neighbours_for_long(bench, faults):
    bench.create(2)
    faults.stall(shard_id=A)
    before = {number: partial(bench.put, number, part=0.5) for number in (1, 2, 3)}
    began = time.monotonic()
    followed = Followed(
        bench, pace=replace(PACE, first_response_timeout=3.0, failed_shard=LATE), before=before, last_round=3
    ).run(A, B)
    assert time.monotonic() - began < 15  # not as long as the client waits
    assert faults.count("GetRecords", A) == 1
    assert followed.events == [
        {A: ("failed", 0), B: ("committed", 1)},
        {B: ("committed", 1)},
        {B: ("committed", 1)},
    ]
    error = followed.told[0].outcomes[A].error
    assert isinstance(error, ShardSilent)
    assert "ReadTimeoutError" in str(error)


def test_a_shard_whose_answers_take_longer_is_read_in_the_end_and_from_then_on(bench, faults):
    bench.create()
    bench.put(1)
    faults.delay(1.3, shard_id=A)
    # It is waited for 0.6, 1.2 and 2.4 s.
    before = {number: partial(bench.put, number) for number in (4, 5)}
    followed = Followed(
        bench,
        pace=replace(PACE, first_response_timeout=0.6, unresponsive_wait_factor=0.0, failed_shard=SOON),
        before=before,
        last_round=5,
    ).run(A)
    assert followed.events == [{A: ("failed", 0)}, *[{A: ("committed", 1)}] * 3]


def test_a_shard_that_held_others_is_left_alone_for_longer_than_that(bench, faults):
    bench.create()
    faults.stall(shard_id=A)
    Followed(
        bench,
        pace=replace(PACE, first_response_timeout=0.6, unresponsive_wait_factor=2.0, failed_shard=SOON),
        last_round=3,
    ).run(A)
    first, second, third = [call.at for call in faults.calls if call.operation == "GetRecords"]
    # But for how late the first of two may have been seen.
    assert second - first >= 3 * 0.6 - 0.3
    assert third - second >= 3 * 1.2 - 0.3


def test_a_shard_that_gives_one_page_and_then_no_answer_is_told_and_left_alone(bench, faults):
    bench.create(2)
    bench.put(1, 2)
    faults.page_size(1)
    faults.stall(shard_id=A, after=1)
    before = {2: lambda: bench.put(3, part=0.5)}
    followed = Followed(
        bench, pace=replace(PACE, first_response_timeout=2.0, failed_shard=LATE), before=before, last_round=2
    ).run(A, B)
    assert followed.events == [{A: ("failed", 1)}, {B: ("committed", 1)}]


def test_a_shard_that_does_not_answer_is_told_also_where_others_use_up_what_a_round_may_read(
    bench,
    faults,
):
    bench.create(2)
    bench.put(1, 2, 3, part=0.5)
    faults.stall(shard_id=A)
    policy = ReadPolicy(allowance=Allowance(records=1))
    followed = Followed(
        bench, pace=replace(PACE, first_response_timeout=2.0, failed_shard=LATE), policy=policy, last_round=1
    ).run(A, B)
    assert followed.events == [{A: ("failed", 0), B: ("committed", 1)}]


def test_no_shard_holds_others_for_longer_than_the_client_waits(bench, faults):
    bench.set_timing(read_timeout=0.3)
    bench.create()
    faults.stall(shard_id=A)
    followed = Followed(
        bench,
        pace=replace(PACE, first_response_timeout=0.2, unresponsive_wait_factor=0.0, failed_shard=SOON),
        last_round=8,
    )
    began = time.monotonic()
    followed.run(A)
    assert time.monotonic() - began < 15  # and not the 0.2 * 2**7 s of the last one


def test_a_landing_that_fails_as_a_whole_ends_the_run(bench):
    bench.create()

    def fail():
        raise CommitFailed("table", "no")

    followed = Followed(bench, before={2: fail})
    with pytest.raises(CommitFailed):
        followed.run(A)
    assert followed.rounds == 2
    assert followed.follow.batch_id is None
