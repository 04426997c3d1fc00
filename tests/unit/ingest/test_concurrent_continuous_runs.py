"""Continuous runs next to other runs: conflicts and the handover to the next run."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from kinesis_assets.errors import KinesisAssetsError
from kinesis_assets.ingest.continuous_run import RunTiming
from support.continuous import RunHarness
from support.shard_ids import A, B
from support.virtual_time import VirtualTime

if TYPE_CHECKING:
    from collections.abc import Callable


def test_after_a_conflict_the_iteration_is_planned_again_and_not_reported(bench):
    bench.create()
    bench.put(1)
    before = {1: bench.run, 2: lambda: bench.put(2)}
    harness = RunHarness(bench, before=before, last_iteration=2).run(A)
    assert harness.events == [{A: ("committed", 1)}]
    assert bench.items == [1, 2]


@pytest.mark.slow
def test_during_handover_the_run_of_an_idle_stream_ends_when_another_run_starts(bench):
    bench.create(2)
    timing = RunTiming(600.0, commit_interval=0.05, handover=600.0)
    other_events = []

    def other():
        bench.later(seconds=2)
        other_events.append(RunHarness(bench, last_iteration=1).run(A).events)

    harness = RunHarness(bench, timing=timing, before={3: other}, last_iteration=6).run(A, B)
    assert (harness.iterations, harness.events, other_events) == (3, [], [[]])


@pytest.mark.slow
def test_before_handover_the_run_continues_when_another_run_starts(bench):
    bench.create()

    def other():
        bench.later(seconds=2)
        RunHarness(bench, last_iteration=1).run(A)

    harness = RunHarness(bench, before={3: other}, last_iteration=6).run(A)
    assert harness.iterations == 6


@pytest.mark.slow
def test_during_handover_the_runs_own_tip_commits_do_not_end_it(bench):
    bench.create()
    timing = RunTiming(600.0, commit_interval=0.05, handover=600.0)
    before = {2: lambda: bench.later(hours=2), 4: lambda: bench.later(hours=2)}
    version = []
    before[3] = before[5] = lambda: version.append(bench.version)
    harness = RunHarness(bench, timing=timing, before=before, last_iteration=6).run(A)
    assert harness.iterations == 6
    assert version[1] > version[0]


@pytest.mark.slow
def test_only_the_first_iteration_commits_without_new_records(bench):
    bench.create()
    bench.run()
    version = bench.version
    bench.later(seconds=2)
    before = {2: lambda: bench.later(seconds=2)}
    harness = RunHarness(bench, before=before, last_iteration=4).run(A)
    assert (harness.events, bench.version) == ([], version + 1)


def test_during_handover_the_run_ends_when_another_run_commits(bench):
    bench.create()
    bench.put(1)
    timing = RunTiming(600.0, commit_interval=0.05, handover=600.0)
    before: dict[int, Callable[[], object]] = {}
    harness = RunHarness(bench, timing=timing, before=before, last_iteration=5)

    def other():
        bench.put(2)
        bench.run()

    before[2] = other
    harness.run(A)
    assert harness.iterations == 2  # the second one had a conflict
    assert harness.events == [{A: ("committed", 1)}]
    assert bench.items == [1, 2]


def test_during_handover_the_run_detects_another_commit_before_it_reads(bench):
    bench.create()
    bench.put(1)
    timing = RunTiming(600.0, commit_interval=0.05, handover=600.0)
    harness = RunHarness(bench, timing=timing, last_iteration=4)

    def report(result):
        harness.results.append(result)
        bench.put(2)
        bench.run()

    harness.continuous_run._report = report
    harness.run(A)
    assert harness.iterations == 1
    assert bench.items == [1, 2]


@pytest.mark.slow
def test_before_handover_the_run_continues_when_another_run_commits(bench):
    bench.create()
    bench.put(1)
    timing = RunTiming(600.0, commit_interval=0.05, handover=300.0)

    def other():
        bench.put(2)
        bench.run()

    before = {2: other, 4: lambda: bench.put(3)}
    harness = RunHarness(bench, timing=timing, before=before, last_iteration=4).run(A)
    assert harness.events == [{A: ("committed", 1)}, {A: ("committed", 1)}]
    assert bench.items == [1, 2, 3]


@pytest.mark.parametrize(
    ("handover", "pause"), [(600.0, 15.0), (0.0, 0.0)], ids=["during_handover", "before_handover"]
)
def test_during_handover_the_run_pauses_between_iterations(bench, handover, pause):
    """Without the pause, the run whose iteration starts first would win every conflict."""
    bench.create()
    clock = VirtualTime()
    bench.set_timing(clock=clock)
    started: list[float] = []

    def slow():
        started.append(clock.now)
        clock.now += 10.0  # the duration of a landing

    timing = RunTiming(600.0, commit_interval=0.05, handover=handover)
    RunHarness(bench, timing=timing, before={1: slow, 2: slow}, last_iteration=2).run(A)
    assert started[1] - started[0] == 10.0 + pause


@pytest.mark.slow
def test_two_concurrent_runs_neither_lose_nor_duplicate_records(bench):
    bench.create(2)
    first = RunHarness(bench, timing=RunTiming(1.5, commit_interval=0.02), by="first")
    second = RunHarness(bench, timing=RunTiming(1.5, commit_interval=0.03), by="second")
    errors: list[KinesisAssetsError] = []

    def run(harness):
        try:
            harness.run(A, B)
        except KinesisAssetsError as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(each,)) for each in (first, second)]
    for thread in threads:
        thread.start()
    items = 0
    while any(thread.is_alive() for thread in threads):
        bench.put(items, items + 1, part=0.5 * (items % 4 == 0))
        items += 2
        threads[0].join(0.02)
    for thread in threads:
        thread.join()
    assert errors == []
    bench.run()
    assert bench.items == list(range(items))
