"""Runs of a paused stream: refused before anything is touched; continuous ones end."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kinesis_assets.errors import PauseUnreadable, StreamPaused
from kinesis_assets.table.run_files.pause import PAUSE_FILE, pause, resume
from support.continuous import RunHarness
from support.shard_ids import A


def pause_now(bench, reason="schema change"):
    pause(bench.table, reason=reason, by="ann", at=datetime.now(UTC))


def test_a_run_of_a_paused_stream_is_refused_and_changes_nothing(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    pause_now(bench)
    before = sorted(Path(bench.table.uri).rglob("*"))
    with pytest.raises(StreamPaused, match="schema change"):
        bench.run()
    assert sorted(Path(bench.table.uri).rglob("*")) == before
    resume(bench.table)
    bench.run()
    assert bench.items == [1, 2]


def test_a_first_run_is_refused_before_it_freezes_the_starts(bench):
    bench.create()
    bench.table.create_if_missing(bench.client.describe().identity)
    pause_now(bench)
    with pytest.raises(StreamPaused):
        bench.run()
    assert bench.version == 0


def test_a_damaged_pause_refuses_runs_and_loses_nothing(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    Path(bench.table.uri, PAUSE_FILE).write_text("{")
    with pytest.raises(PauseUnreadable):
        bench.run()
    assert bench.items == [1]
    resume(bench.table)
    bench.run()
    assert bench.items == [1, 2]


def test_a_run_that_was_planned_before_the_pause_commits(bench):
    bench.create()
    bench.put(1)
    plan = bench.plan()
    pause_now(bench)
    bench.execute(plan)
    assert bench.items == [1]


def test_a_continuous_run_ends_after_its_commit(bench):
    bench.create()
    bench.put(1)

    def pause_and_put():
        pause_now(bench)
        bench.put(2)

    harness = RunHarness(bench, before={1: pause_and_put}).run(A)
    assert harness.iterations == 1
    assert bench.items == [1, 2]
    bench.put(3)
    with pytest.raises(StreamPaused):
        bench.run()


def test_a_continuous_run_that_cannot_read_the_pause_fails(bench):
    bench.create()
    bench.put(1)

    def damage():
        Path(bench.table.uri, PAUSE_FILE).write_text("{")

    with pytest.raises(PauseUnreadable):
        RunHarness(bench, before={1: damage}).run(A)
    assert bench.items == [1]


@pytest.mark.slow
def test_operations_beside_the_runs_still_work(bench):
    bench.create()
    numbers = bench.put(1, 2)
    bench.run()
    bench.lose(1)
    pause_now(bench)
    bench.replay()
    assert bench.items == [1, 2]
    bench.seek(f"AFTER_SEQUENCE_NUMBER:{numbers[0]}")
    assert bench.items == [1]
