"""Continuous runs over shards that fail, are throttled, or do not respond."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest

from kinesis_assets.errors import (
    CommitFailed,
    ReadFailed,
    ShardSilent,
    ShardsNotCommitted,
    ShardThrottled,
    ShardUnknown,
)
from kinesis_assets.ingest.continuous_run import RunTiming
from kinesis_assets.ingest.plan import ReadPolicy
from kinesis_assets.kinesis.reading.range import Allowance
from kinesis_assets.retry import Backoff
from support.continuous import TIMING, RunHarness
from support.shard_ids import A, B
from support.virtual_time import TickingTime, VirtualTime

pytestmark = pytest.mark.slow

SOON = Backoff(0.01, 30.0)
LATE = Backoff(3600.0, 3600.0)
"""The backoff of a failed shard: almost none, or longer than a test."""

VIRTUAL = RunTiming(60.0, commit_interval=0.05, failed_shard=SOON)
"""A run of several iterations, by the clock `ticking`."""


@pytest.fixture
def ticking(bench):
    """A clock of which each reading takes longer than the interval of the commits, so that no run waits."""
    clock = TickingTime()
    bench.set_timing(clock=clock)
    return clock


# Failures


@pytest.mark.usefixtures("ticking")
def test_a_failing_shard_is_reported_once_and_does_not_delay_the_other_shards(bench, faults):
    bench.create(2)
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A)
    puts = {number: lambda: bench.put(1, part=0.5) for number in range(1, 6)}
    harness = RunHarness(bench, timing=VIRTUAL, before=puts)
    with pytest.raises(ShardsNotCommitted) as caught:
        harness.run(A, B)
    assert {shard_id: type(error) for shard_id, error in caught.value.errors.items()} == {A: ReadFailed}
    events = [event for event in harness.events if A in event]
    assert [event[A] for event in events] == [("failed", 0)]
    assert [event[B] for event in harness.events if B in event] == [("committed", 1)] * 5


def test_a_failing_shard_is_retried_with_growing_backoff(bench, faults, ticking):
    bench.create()
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A)
    attempts = []
    before = {number: lambda: attempts.append(ticking.now) for number in range(1, 7)}
    timing = replace(TIMING, follow_for=1e6, failed_shard=Backoff(100.0, 800.0))
    RunHarness(bench, timing=timing, before=before, last_iteration=6).run(A)
    waits = [later - earlier for earlier, later in pairwise(attempts)]
    assert [round(wait / 100) for wait in waits] == [1, 2, 4, 8, 8]


@pytest.mark.usefixtures("ticking")
def test_a_recovered_shard_does_not_fail_the_run(bench, faults):
    bench.create()
    bench.put(1)
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A, times=2)
    harness = RunHarness(bench, timing=VIRTUAL).run(A)
    assert harness.events == [{A: ("failed", 0)}, {A: ("committed", 1)}]


@pytest.mark.usefixtures("ticking")
def test_a_shard_without_records_is_reported_once_when_it_ceases_to_fail(bench, faults):
    bench.create(2)
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A, times=2)
    harness = RunHarness(bench, timing=VIRTUAL).run(A, B)
    assert harness.events == [{A: ("failed", 0)}, {A: ("committed", 0)}]


def test_rows_of_a_failing_shard_are_reported_with_each_commit(bench, faults):
    """The sensor would report a commit without an event a second time."""
    bench.create()
    bench.put(*range(4))
    faults.page_size(1)
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A, after=1, times=1)
    bench.set_timing(clock=VirtualTime())
    timing = RunTiming(1e6, commit_interval=300.0, failed_shard=SOON)
    harness = RunHarness(bench, timing=timing, last_iteration=2).run(A)
    assert harness.events == [{A: ("failed", 1)}, {A: ("committed", 3)}]


@pytest.mark.usefixtures("ticking")
def test_a_failed_run_reports_its_healthy_shards_at_the_end(bench):
    bench.create(2)
    bench.put(1, part=0.5)
    harness = RunHarness(bench, timing=VIRTUAL)
    with pytest.raises(ShardsNotCommitted) as caught:
        harness.run(A, B, "bogus")
    assert {shard_id: type(error) for shard_id, error in caught.value.errors.items()} == {
        "bogus": ShardUnknown
    }
    assert harness.events == [{B: ("committed", 1), "bogus": ("failed", 0)}, {A: ("committed", 0)}]


@pytest.mark.usefixtures("ticking")
def test_a_recovered_shard_is_reported_at_the_end_of_a_failed_run(
    bench,
    faults,
):
    bench.create()
    bench.put(1)
    fail = partial(faults.fail, status=400, code="KMSAccessDeniedException", shard_id=A, times=1)
    harness = RunHarness(bench, timing=VIRTUAL, before={2: fail})
    with pytest.raises(ShardsNotCommitted):
        harness.run(A, "bogus")
    events = [event[A] for event in harness.events if A in event]
    assert events == [("committed", 1), ("failed", 0), ("committed", 0)]


@pytest.mark.usefixtures("ticking")
def test_a_shard_that_fails_and_is_then_throttled_fails_the_run(bench, faults):
    bench.create()
    bench.put(1)
    fail = partial(faults.fail, status=400, code="KMSAccessDeniedException", shard_id=A, times=1)
    before = {2: fail, 3: partial(faults.throttle, shard_id=A)}
    with pytest.raises(ShardsNotCommitted) as caught:
        RunHarness(bench, timing=VIRTUAL, before=before).run(A)
    assert {shard_id: type(error) for shard_id, error in caught.value.errors.items()} == {A: ShardThrottled}


# Throttling


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


@pytest.mark.usefixtures("ticking")
def test_a_shard_that_is_throttled_during_the_whole_run_fails_a_short_run(bench, faults):
    bench.create(2)
    faults.throttle(shard_id=A)
    harness = RunHarness(bench, timing=VIRTUAL)
    with pytest.raises(ShardsNotCommitted) as caught:
        harness.run(A, B)
    assert {shard_id: type(error) for shard_id, error in caught.value.errors.items()} == {A: ShardThrottled}
    assert harness.events == [{B: ("committed", 0)}]


@pytest.mark.usefixtures("ticking")
def test_a_shard_that_is_throttled_only_at_the_end_is_reported_as_committed(
    bench,
    faults,
):
    bench.create(2)
    fail = partial(faults.fail, status=400, code="KMSAccessDeniedException", shard_id=B)
    before = {2: lambda: (faults.throttle(shard_id=A), fail())}
    harness = RunHarness(bench, timing=VIRTUAL, before=before)
    with pytest.raises(ShardsNotCommitted) as caught:
        harness.run(A, B)
    assert list(caught.value.errors) == [B]
    assert harness.events == [{B: ("failed", 0)}, {A: ("committed", 0)}]


@pytest.mark.usefixtures("ticking")
def test_a_shard_that_is_throttled_beyond_the_stall_timeout_is_reported_once_and_fails_the_run(bench, faults):
    bench.set_timing(stall_seconds=20.0)
    bench.create()
    faults.throttle(shard_id=A)
    harness = RunHarness(bench, timing=VIRTUAL)
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


# Shards that do not respond


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
    bench.split(A)  # so that the run ends after it
    faults.delay(0.5, shard_id=A)
    harness = RunHarness(
        bench,
        timing=replace(TIMING, first_response_timeout=0.1, unresponsive_wait_factor=0.0, failed_shard=SOON),
    ).run(A)
    states, rows = zip(*(event[A] for event in harness.events), strict=True)
    assert (states[0], states[-1], sum(rows)) == ("failed", "finished", 1)


def test_the_backoff_of_an_unresponsive_shard_is_a_multiple_of_its_timeout(bench, faults, ticking):
    bench.create()
    faults.stall(shard_id=A)
    attempts = []
    before = {number: lambda: attempts.append(ticking.now) for number in (1, 2, 3)}
    timing = replace(
        TIMING,
        follow_for=1e6,
        first_response_timeout=0.1,
        unresponsive_wait_factor=1000.0,
        failed_shard=SOON,
    )
    RunHarness(bench, timing=timing, before=before, last_iteration=3).run(A)
    waits = [later - earlier for earlier, later in pairwise(attempts)]
    assert [round(wait / 100) for wait in waits] == [1, 2]  # after timeouts of 0.1 and 0.2 s


def test_a_shard_that_stops_responding_after_one_page_is_reported_and_backed_off(bench, faults):
    bench.create(2)
    bench.put(1, 2)
    faults.page_size(1)
    faults.stall(shard_id=A, after=1)
    before = {2: lambda: bench.put(3, part=0.5)}
    harness = RunHarness(
        bench,
        timing=replace(TIMING, first_response_timeout=8.0, failed_shard=LATE),
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
        last_iteration=3,
    )
    timeouts = []

    def land(job, ranges, allowance):
        timeouts.extend(range_.response_timeout for range_ in ranges)
        return harness.land(job, ranges, allowance)

    harness.continuous_run._land = land
    harness.run(A)
    assert timeouts == [0.2, 0.3, 0.3]


def test_a_failed_commit_ends_the_run(bench):
    bench.create()

    def fail():
        raise CommitFailed("table", "no")

    harness = RunHarness(bench, before={2: fail})
    with pytest.raises(CommitFailed):
        harness.run(A)
    assert harness.iterations == 2
    assert harness.continuous_run.batch_id is None
