"""Continuous runs over shards that fail, are throttled, or do not respond."""

from __future__ import annotations

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
from support.continuous import TIMING, RunHarness
from support.shard_ids import A, B

pytestmark = pytest.mark.real_time

SOON = Backoff(0.01, 30.0)
LATE = Backoff(3600.0, 3600.0)
"""The backoff of a failed shard: almost none, or longer than a test."""


def test_a_failing_shard_is_reported_once_and_does_not_delay_the_other_shards(bench, faults):
    bench.create(2)
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A)
    puts = {number: lambda: bench.put(1, part=0.5) for number in range(1, 40)}
    harness = RunHarness(bench, timing=RunTiming(1.5, commit_interval=0.05, failed_shard=SOON), before=puts)
    with pytest.raises(ShardsNotCommitted) as caught:
        harness.run(A, B)
    assert {shard_id: type(error) for shard_id, error in caught.value.errors.items()} == {A: ReadFailed}
    events = [event for event in harness.events if A in event]
    assert [event[A] for event in events] == [("failed", 0)]
    assert [event[B] for event in harness.events if B in event] == [("committed", 1)] * len(bench.items)
    assert len(bench.items) > 1


def test_a_failing_shard_is_retried_with_growing_backoff(bench, faults):
    bench.create()
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A)
    with pytest.raises(ShardsNotCommitted):
        RunHarness(bench, timing=RunTiming(3.5, commit_interval=0.05)).run(A)
    assert faults.count("GetRecords") + faults.count("GetShardIterator") <= 6  # at 0, 1 and 3 seconds


def test_a_recovered_shard_does_not_fail_the_run(bench, faults):
    bench.create()
    bench.put(1)
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A, times=2)
    harness = RunHarness(bench, timing=RunTiming(3.0, commit_interval=0.05, failed_shard=SOON)).run(A)
    assert harness.events == [{A: ("failed", 0)}, {A: ("committed", 1)}]


def test_rows_of_a_failing_shard_are_reported_with_each_commit(bench, faults):
    """The sensor would report a commit without an event a second time."""
    bench.create()
    bench.put(*range(4))
    faults.page_size(1)
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A, after=1, times=1)
    harness = RunHarness(bench, timing=replace(TIMING, failed_shard=SOON), last_iteration=2).run(A)
    assert harness.events == [{A: ("failed", 1)}, {A: ("committed", 3)}]


def test_a_failed_run_reports_its_healthy_shards_at_the_end(bench):
    bench.create(2)
    bench.put(1, part=0.5)
    harness = RunHarness(bench, timing=RunTiming(0.3, commit_interval=0.05))
    with pytest.raises(ShardsNotCommitted) as caught:
        harness.run(A, B, "bogus")
    assert {shard_id: type(error) for shard_id, error in caught.value.errors.items()} == {
        "bogus": ShardUnknown
    }
    assert harness.events == [{B: ("committed", 1), "bogus": ("failed", 0)}, {A: ("committed", 0)}]


def test_a_recovered_shard_is_reported_at_the_end_of_a_failed_run(
    bench,
    faults,
):
    bench.create()
    bench.put(1)
    fail = partial(faults.fail, status=400, code="KMSAccessDeniedException", shard_id=A, times=1)
    harness = RunHarness(
        bench, timing=RunTiming(3.0, commit_interval=0.05, failed_shard=SOON), before={2: fail}
    )
    with pytest.raises(ShardsNotCommitted):
        harness.run(A, "bogus")
    events = [event[A] for event in harness.events if A in event]
    assert events == [("committed", 1), ("failed", 0), ("committed", 0)]


def test_a_shard_that_fails_and_is_then_throttled_fails_the_run(bench, faults):
    bench.create()
    bench.put(1)
    fail = partial(faults.fail, status=400, code="KMSAccessDeniedException", shard_id=A, times=1)
    before = {2: fail, 3: partial(faults.throttle, shard_id=A)}
    with pytest.raises(ShardsNotCommitted) as caught:
        RunHarness(bench, timing=RunTiming(3.0, commit_interval=0.05, failed_shard=SOON), before=before).run(
            A
        )
    assert {shard_id: type(error) for shard_id, error in caught.value.errors.items()} == {A: ShardThrottled}


def test_a_throttled_shard_is_not_reported_and_does_not_delay_the_other_shards(bench, faults):
    bench.set_timing(stall_seconds=3600.0)  # the run never ends if an iteration waits for them
    bench.create(2)
    faults.throttle(shard_id=A)
    before = {number: partial(bench.put, number, part=0.5) for number in (1, 2, 3)}
    harness = RunHarness(bench, before=before, last_iteration=3).run(A, B)
    assert harness.events == [{B: ("committed", 1)}] * 3


def test_a_temporarily_throttled_shard_is_read_later_and_does_not_fail_the_run(bench, faults):
    bench.create()
    bench.put(1)
    faults.throttle(shard_id=A)
    harness = RunHarness(
        bench, timing=replace(TIMING, failed_shard=SOON), before={3: faults.clear}, last_iteration=3
    ).run(A)
    assert harness.events == [{A: ("committed", 1)}]


def test_a_shard_that_is_throttled_during_the_whole_run_fails_a_short_run(bench, faults):
    bench.create(2)
    faults.throttle(shard_id=A)
    harness = RunHarness(bench, timing=RunTiming(1.5, commit_interval=0.05))
    with pytest.raises(ShardsNotCommitted) as caught:
        harness.run(A, B)
    assert {shard_id: type(error) for shard_id, error in caught.value.errors.items()} == {A: ShardThrottled}
    assert harness.events == [{B: ("committed", 0)}]


def test_a_shard_that_is_throttled_only_at_the_end_is_reported_as_committed(
    bench,
    faults,
):
    bench.create(2)
    fail = partial(faults.fail, status=400, code="KMSAccessDeniedException", shard_id=B)
    before = {2: lambda: (faults.throttle(shard_id=A), fail())}
    harness = RunHarness(bench, timing=RunTiming(3.0, commit_interval=0.05, failed_shard=SOON), before=before)
    with pytest.raises(ShardsNotCommitted) as caught:
        harness.run(A, B)
    assert list(caught.value.errors) == [B]
    assert harness.events == [{B: ("failed", 0)}, {A: ("committed", 0)}]


def test_a_shard_that_is_throttled_beyond_the_stall_timeout_is_reported_once_and_fails_the_run(bench, faults):
    bench.set_timing(stall_seconds=0.5)
    bench.create()
    faults.throttle(shard_id=A)
    harness = RunHarness(bench, timing=RunTiming(3.0, commit_interval=0.05, failed_shard=SOON))
    with pytest.raises(ShardsNotCommitted) as caught:
        harness.run(A)
    assert {shard_id: type(error) for shard_id, error in caught.value.errors.items()} == {A: ShardThrottled}
    assert harness.events == [{A: ("failed", 0)}]


def test_throttling_is_measured_from_the_start_of_the_first_throttled_iteration(bench, faults):
    bench.set_timing(stall_seconds=0.05)
    bench.create()
    faults.throttle(shard_id=A)
    harness = RunHarness(bench, timing=RunTiming(600.0, commit_interval=0.05), last_iteration=1).run(A)
    assert harness.events == [{A: ("failed", 0)}]


def test_an_unresponsive_shard_delays_the_other_shards_only_once(bench, faults):
    bench.set_timing(read_timeout=3600.0)  # the run never ends if an iteration waits for them
    bench.create(2)
    faults.stall(shard_id=A)
    before = {number: partial(bench.put, number, part=0.5) for number in (1, 2, 3)}
    harness = RunHarness(
        bench,
        timing=replace(TIMING, first_response_timeout=3.0, failed_shard=LATE),
        before=before,
        last_iteration=3,
    ).run(A, B)
    assert faults.count("GetRecords", A) == 1
    assert harness.events == [
        {A: ("failed", 0), B: ("committed", 1)},
        {B: ("committed", 1)},
        {B: ("committed", 1)},
    ]
    error = harness.results[0].outcomes[A].error
    assert isinstance(error, ShardSilent)
    assert "ReadTimeoutError" in str(error)


def test_a_slow_shard_is_read_once_its_response_timeout_has_grown(bench, faults):
    bench.create()
    bench.put(1)
    faults.delay(1.3, shard_id=A)
    # The timeout grows from 0.6 to 1.2 and 2.4 s.
    before = {number: partial(bench.put, number) for number in (4, 5)}
    harness = RunHarness(
        bench,
        timing=replace(TIMING, first_response_timeout=0.6, unresponsive_wait_factor=0.0, failed_shard=SOON),
        before=before,
        last_iteration=5,
    ).run(A)
    assert harness.events == [{A: ("failed", 0)}, *[{A: ("committed", 1)}] * 3]


def test_the_backoff_of_an_unresponsive_shard_is_a_multiple_of_its_timeout(bench, faults):
    bench.create()
    faults.stall(shard_id=A)
    RunHarness(
        bench,
        timing=replace(TIMING, first_response_timeout=0.6, unresponsive_wait_factor=2.0, failed_shard=SOON),
        last_iteration=3,
    ).run(A)
    first, second, third = [call.at for call in faults.calls if call.operation == "GetRecords"]
    # 0.3 s are the tolerance for the time at which the earlier call was recorded.
    assert second - first >= 3 * 0.6 - 0.3
    assert third - second >= 3 * 1.2 - 0.3


def test_a_shard_that_stops_responding_after_one_page_is_reported_and_backed_off(bench, faults):
    bench.create(2)
    bench.put(1, 2)
    faults.page_size(1)
    faults.stall(shard_id=A, after=1)
    before = {2: lambda: bench.put(3, part=0.5)}
    harness = RunHarness(
        bench,
        timing=replace(TIMING, first_response_timeout=2.0, failed_shard=LATE),
        before=before,
        last_iteration=2,
    ).run(A, B)
    assert harness.events == [{A: ("failed", 1)}, {B: ("committed", 1)}]


def test_an_unresponsive_shard_is_reported_even_if_other_shards_use_up_the_allowance(
    bench,
    faults,
):
    bench.create(2)
    bench.put(1, 2, 3, part=0.5)
    faults.stall(shard_id=A)
    policy = ReadPolicy(allowance=Allowance(records=1))
    harness = RunHarness(
        bench,
        timing=replace(TIMING, first_response_timeout=2.0, failed_shard=LATE),
        policy=policy,
        last_iteration=1,
    ).run(A, B)
    assert harness.events == [{A: ("failed", 0), B: ("committed", 1)}]


def test_the_response_timeout_never_exceeds_the_read_timeout_of_the_client(bench, faults):
    bench.set_timing(read_timeout=0.3)
    bench.create()
    faults.stall(shard_id=A)
    harness = RunHarness(
        bench,
        timing=replace(
            TIMING,
            first_response_timeout=0.2,
            unresponsive_wait_factor=0.0,
            failed_shard=SOON,
        ),
        last_iteration=5,
    )
    timeouts = []

    def land(job, ranges, allowance):
        timeouts.extend(range_.response_timeout for range_ in ranges)
        return harness.land(job, ranges, allowance)

    harness.continuous_run._land = land
    harness.run(A)
    assert timeouts == [0.2, 0.3, 0.3, 0.3, 0.3]


def test_a_failed_commit_ends_the_run(bench):
    bench.create()

    def fail():
        raise CommitFailed("table", "no")

    harness = RunHarness(bench, before={2: fail})
    with pytest.raises(CommitFailed):
        harness.run(A)
    assert harness.iterations == 2
    assert harness.continuous_run.batch_id is None
