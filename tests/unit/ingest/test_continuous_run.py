"""A continuous run without Dagster and Spark: the commits and the reported results of each iteration."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.errors import RunCanceled
from kinesis_assets.ingest.continuous_run import RunTiming
from kinesis_assets.ingest.plan import ReadPolicy
from kinesis_assets.kinesis.reading.range import Bounds
from support.announcing_clock import AnnouncingClock
from support.continuous import TIMING, RunHarness
from support.shard_ids import A, B, C, D
from support.virtual_time import VirtualTime

ALWAYS_LISTED = replace(TIMING, max_listing_age=0.0)
"""Each iteration lists the shards."""


@pytest.mark.slow
def test_each_iteration_with_new_records_is_committed_and_reported(bench):
    bench.create()
    bench.put(1)
    before = {2: lambda: bench.put(2, 3), 4: lambda: bench.put(4)}
    harness = RunHarness(bench, before=before, last_iteration=4).run(A)
    assert harness.events == [{A: ("committed", 1)}, {A: ("committed", 2)}, {A: ("committed", 1)}]
    versions = [result.version for result in harness.results]
    assert versions == list(range(versions[0], versions[0] + 3))
    assert len({result.batch_id for result in harness.results}) == 3
    assert bench.items == [1, 2, 3, 4]


@pytest.mark.slow
def test_only_shards_with_new_records_are_reported(bench):
    bench.create(2)
    before = {2: lambda: bench.put(1, part=0.5), 3: lambda: bench.put(2, part=0)}
    harness = RunHarness(bench, before=before, last_iteration=3).run(A, B)
    assert harness.events == [{B: ("committed", 1)}, {A: ("committed", 1)}]


@pytest.mark.slow
def test_an_iteration_without_new_records_commits_and_reports_nothing(bench):
    bench.create(2)
    RunHarness(bench, last_iteration=1).run(A, B)  # the first commit of a tip
    version = bench.version
    harness = RunHarness(bench, last_iteration=5).run(A, B)
    assert (harness.iterations, harness.events, bench.version) == (5, [], version)


@pytest.mark.slow
def test_a_finished_shard_is_reported_once_and_the_run_ends_after_the_last_shard(bench):
    bench.create()
    bench.put(1)
    bench.split(A)
    harness = RunHarness(bench).run(A)
    assert harness.events == [{A: ("finished", 1)}]
    assert RunHarness(bench).run(A).events == []


@pytest.mark.slow
def test_a_shard_split_during_the_run_is_read_to_its_end_and_other_shards_continue(bench):
    bench.create(2)
    before = {2: lambda: (bench.put(1), bench.split(A, 0.25)), 4: lambda: bench.put(2, part=0.5)}
    # One iteration requests the record and, within the interval, the end of the shard.
    timing = replace(TIMING, commit_interval=0.5)
    harness = RunHarness(bench, timing, before=before, last_iteration=4).run(A, B)
    assert harness.events == [{A: ("finished", 1)}, {B: ("committed", 1)}]
    assert bench.positions.shards.keys() == {A, B, C, D}


def test_a_shard_that_is_behind_is_read_again_without_waiting(bench):
    bench.create()
    bench.put(*range(30))
    timing = RunTiming(300.0, commit_interval=300.0)  # the run would end before it reads again
    policy = ReadPolicy(bounds=Bounds(max_records=10))
    bench.later(seconds=2)
    harness = RunHarness(bench, timing=timing, policy=policy, last_iteration=3).run(A)
    assert harness.events == [{A: ("committed", 10)}] * 3


@pytest.mark.slow
def test_the_first_call_of_an_iteration_waits_for_its_turn_after_the_last_one_of_the_iteration_before(
    bench, faults
):
    bench.create()
    clock = VirtualTime()
    bench.set_timing(clock=clock, seconds_between_calls=200.0)
    called = []
    faults.before("GetRecords", lambda: called.append(clock.now))
    timing = RunTiming(1e6, commit_interval=10.0)
    RunHarness(bench, timing=timing, last_iteration=4).run(A)
    assert [later - earlier for earlier, later in pairwise(called)] == [200.0] * 3


def test_an_iteration_reads_no_longer_than_the_commit_interval(bench, faults):
    bench.create()
    bench.put(*range(50))
    bench.set_timing(clock=VirtualTime(), seconds_between_calls=10.0)
    faults.page_size(1)
    timing = RunTiming(2000.0, commit_interval=300.0)
    harness = RunHarness(bench, timing=timing, last_iteration=1).run(A)
    assert harness.results[0].outcomes[A].rows == 30


# The plan of the first iteration


def test_the_first_iteration_executes_the_given_plan(bench):
    bench.create()
    bench.put(1)
    harness = RunHarness(bench, last_iteration=1)
    plan = bench.plan([A])
    harness.continuous_run.run(plan)
    assert [result.batch_id for result in harness.results] == [plan.batch_id]


def test_an_outdated_plan_is_replaced(bench):
    bench.create()
    bench.put(1)
    harness = RunHarness(bench, last_iteration=2)
    plan = bench.plan([A])
    bench.run()
    bench.put(2)
    harness.continuous_run.run(plan)
    assert harness.events == [{A: ("committed", 1)}]
    assert bench.items == [1, 2]


def test_after_an_outdated_plan_the_run_still_makes_its_first_commit(bench):
    bench.create()
    bench.put(1)
    harness = RunHarness(bench, last_iteration=3)
    plan = bench.plan([A])
    bench.run()
    version = bench.version
    bench.later(seconds=2)
    harness.continuous_run.run(plan)
    assert (harness.events, bench.version) == ([], version + 1)


# Time


def test_the_run_ends_after_its_duration(bench):
    bench.create()
    clock = VirtualTime()
    bench.set_timing(clock=clock)
    started = clock.now
    harness = RunHarness(bench, timing=RunTiming(60.0, commit_interval=25.0)).run(A)
    assert (harness.iterations, clock.now - started) == (3, 60.0)


@pytest.mark.slow
def test_several_iterations_share_one_shard_list(bench, faults):
    bench.create()
    plan = bench.plan([A])
    before = faults.count("ListShards")
    RunHarness(bench, last_iteration=5).continuous_run.run(plan)
    assert faults.count("ListShards") == before + 1


@pytest.mark.slow
def test_idle_iterations_do_not_describe_the_stream_again(bench, faults):
    bench.create()
    bench.run()
    plan = bench.plan([A])
    before = faults.count("DescribeStreamSummary")
    RunHarness(bench, last_iteration=5).continuous_run.run(plan)
    assert faults.count("DescribeStreamSummary") == before + 1


@pytest.mark.slow
def test_an_old_shard_list_is_refreshed(bench, faults):
    bench.create()
    before = faults.count("ListShards")
    RunHarness(bench, timing=ALWAYS_LISTED, last_iteration=3).run(A)
    assert faults.count("ListShards") == before + 3


@pytest.mark.slow
def test_one_incomplete_shard_list_does_not_end_the_run(bench, faults):
    bench.create(2)

    def without_last_shard(_, response):
        return response.but(Shards=response.members["Shards"][:-1])

    before = {2: lambda: (bench.put(1), faults.answer("ListShards", without_last_shard, times=1))}
    harness = RunHarness(bench, timing=ALWAYS_LISTED, before=before, last_iteration=3).run(A, B)
    assert len(harness.events) == 1


@pytest.mark.slow
def test_a_reused_shard_list_does_not_delay_records(bench):
    """Records that arrived after the shards were listed are read as well."""
    bench.create()
    harness = RunHarness(bench)

    def put():
        harness.continuous_run._shard_list._listed_at -= 8.0  # as if 8 s had passed
        bench.later(seconds=8)
        bench.put(1)

    harness.before[2] = put
    harness.before[4] = harness.continuous_run.stop
    harness.run(A)
    assert bench.items == [1]


# Stopping


def test_a_stop_between_two_iterations_ends_the_run_immediately(bench):
    bench.create()
    bench.put(1)
    clock = AnnouncingClock()
    bench.set_timing(clock=clock)
    harness = RunHarness(bench, timing=RunTiming(7200.0, commit_interval=3600.0))
    thread = threading.Thread(target=harness.run, args=(A,), daemon=True)
    thread.start()
    assert clock.long_wait.wait(SECONDS)
    assert harness.results[0].outcomes[A].lag_ms == 0
    harness.continuous_run.stop()
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert (harness.iterations, bench.items) == (1, [1])


@pytest.mark.slow
def test_a_stop_during_an_iteration_commits_and_reports_the_records_read(bench, faults):
    bench.set_timing(stop_poll_seconds=0.01)
    bench.create()
    numbers = bench.put(*range(500))
    faults.page_size(1)
    faults.delay(0.01)
    harness = RunHarness(bench, timing=RunTiming(600.0, commit_interval=300.0))
    faults.before("GetRecords", harness.continuous_run.stop, after=5, times=1)
    harness.run(A)
    (result,) = harness.results
    rows = result.outcomes[A].rows
    assert 5 <= rows < 500
    assert bench.at(A).position.sequence_number == numbers[rows - 1]
    assert bench.items == list(range(rows))


def test_a_failed_shard_does_not_fail_a_stopped_run(bench, faults):
    bench.create()
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A)
    harness = RunHarness(bench, last_iteration=1).run(A)
    assert harness.events == [{A: ("failed", 0)}]


def test_a_stopped_run_counts_each_committed_shard_once():
    events = [{"shard": "a"}, {"shard": "b"}, {"shard": "a"}]
    assert "; 2 shards committed" in str(RunCanceled("orders", events))
