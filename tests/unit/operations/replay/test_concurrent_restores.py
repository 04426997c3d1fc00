"""Restores of the table during a replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinesis_assets.operations.replay.outcome import ReplayState
from kinesis_assets.table.delta import log
from kinesis_assets.table.delta.log import read_entry
from kinesis_assets.table.snapshot import TableSnapshot
from support.replays import A, fill_then, ingest_and_lose, states

pytestmark = pytest.mark.slow


def restore_missing_rows(bench):
    bench.restore(bench.version - 1)


def restore_adopt_and_run(bench):
    restore_missing_rows(bench)
    bench.adopt()
    bench.put(5)
    bench.run()


def restore_and_clean_up_log(bench):
    restore_missing_rows(bench)
    bench.delta.create_checkpoint()
    for entry in Path(bench.table.uri, "_delta_log").glob("0*[0-9].json"):
        entry.unlink()


@pytest.mark.parametrize("meanwhile", [restore_missing_rows, restore_adopt_and_run, restore_and_clean_up_log])
def test_a_replay_restarts_if_the_missing_rows_are_restored_while_it_adds_them(bench, meanwhile):
    ingest_and_lose(bench, 2, 3)

    result = bench.replay(fill=fill_then(lambda: meanwhile(bench)))

    assert states(result) == {A: (ReplayState.WHOLE, 0)}
    assert bench.items == sorted(int(data) for *_, data in bench.acknowledged)


def test_a_replay_restarts_after_a_restore_during_its_commit(bench, monkeypatch):
    ingest_and_lose(bench, 2, 3)
    original_commit = TableSnapshot.commit

    def restore_first(snapshot, files, **rest):
        monkeypatch.setattr(TableSnapshot, "commit", original_commit)
        restore_missing_rows(bench)
        original_commit(snapshot, files, **rest)

    monkeypatch.setattr(TableSnapshot, "commit", restore_first)
    bench.replay()

    assert bench.items == [0, 1, 2, 3, 4]


def test_rows_deleted_by_a_concurrent_restore_are_added_too(bench):
    bench.create()
    bench.put(*range(3))
    bench.run()
    before = bench.version
    bench.put(*range(3, 6))
    bench.run()
    bench.lose(0)

    bench.replay(fill=fill_then(lambda: bench.restore(before)))

    assert bench.items == [0, 1, 2, 3, 4, 5]


def test_a_replay_does_not_read_log_entries_that_concurrent_runs_have_checked(bench, monkeypatch):
    ingest_and_lose(bench, 2, 3)
    read = []

    def recording(filesystem, version):
        read.append(version)
        return read_entry(filesystem, version)

    def runs():
        for item in range(5, 9):
            bench.put(item)
            bench.run()
        monkeypatch.setattr(log, "read_entry", recording)

    bench.replay(fill=fill_then(runs))

    assert bench.items == list(range(9))
    assert min(read) == bench.version - 1
