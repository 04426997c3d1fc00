"""Replays during other replays, runs and amendments."""

from __future__ import annotations

import threading

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.errors import PastChanged, StreamRecreated
from kinesis_assets.operations.replay.outcome import ReplayState
from kinesis_assets.table.snapshot import TableSnapshot
from support.replays import A, fill_then, ingest_and_lose, states
from support.single_task import fill_as_in_spark

pytestmark = pytest.mark.slow


def test_concurrent_replays_add_no_duplicates(bench):
    ingest_and_lose(bench, 2, 3, 8, count=10)
    both_filled = threading.Barrier(2)
    results = []

    def one() -> None:
        fill = fill_then(lambda: both_filled.wait(SECONDS))
        results.append(bench.replay(fill=fill))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(result.outcomes[A].rows for result in results) == [0, 3]
    assert bench.items == list(range(10))


def test_a_run_that_commits_during_a_replay_does_not_restart_it(bench):
    ingest_and_lose(bench, 2)
    bench.put(5, 6)
    ran = []
    tries = []

    def meanwhile() -> None:
        tries.append(1)
        ran.append(bench.run())

    result = bench.replay(fill=fill_then(meanwhile, times=9))

    assert len(tries) == 1
    assert ran[0].outcomes[A].rows == 2
    assert not ran[0].errors
    assert states(result) == {A: (ReplayState.FILLED, 1)}
    assert bench.items == list(range(7))


def test_a_run_planned_before_a_replay_commits_after_it(bench):
    ingest_and_lose(bench, 2)
    bench.put(5)
    plan = bench.plan()

    bench.replay()

    assert not bench.execute(plan).errors
    assert bench.items == list(range(6))


def test_a_replay_restarts_after_a_concurrent_amendment(bench):
    ingest_and_lose(bench, 2)
    batches = []

    def fill(job, ranges):
        batches.append(job.landing.batch_id)
        if len(batches) == 1:
            bench.amend(rewound=(A,))
        return fill_as_in_spark(job, ranges)

    result = bench.replay(fill=fill)

    assert len(set(batches)) == 2
    assert result.batch_id == batches[-1] == bench.amendment.batch_id
    assert bench.items == list(range(5))


def test_an_amendment_immediately_before_the_commit_restarts_the_replay(bench, monkeypatch):
    ingest_and_lose(bench, 2)
    commit = TableSnapshot.commit
    overtaken = []

    def overtake(self, files, **rest):
        if files and not overtaken:
            overtaken.append(True)
            bench.amend(rewound=(A,))
        commit(self, files, **rest)

    monkeypatch.setattr(TableSnapshot, "commit", overtake)
    bench.replay()

    assert overtaken
    assert bench.items == list(range(5))
    assert bench.amendment.previous is not None


def test_a_replay_fails_if_each_try_is_overtaken_by_an_amendment(bench):
    ingest_and_lose(bench, 2)

    with pytest.raises(PastChanged):
        bench.replay(fill=fill_then(lambda: bench.amend(rewound=(A,)), times=100))
    assert bench.items == [0, 1, 3, 4]


def test_a_replay_fails_if_the_stream_is_recreated_during_it(bench):
    ingest_and_lose(bench, 2)

    def recreate() -> None:
        bench.delete()
        bench.later(minutes=1)
        bench.create()

    with pytest.raises(StreamRecreated):
        bench.replay(fill=fill_then(recreate))
    assert bench.items == [0, 1, 3, 4]
