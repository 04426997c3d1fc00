"""Maintenance as a whole: what it preserves, plans and repeats, also during runs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake import DeltaTable

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.maintenance.steps import State
from kinesis_assets.table.policy import VACUUM_RETENTION
from kinesis_assets.table.raw_table import PositionedTable
from support.attempts import Attempt, assert_rows_are_what_positions_say, current_positions, land, records
from support.maintained_table import steps_of
from support.table_folder import files_of, folder_of, set_age

pytestmark = pytest.mark.slow


def test_maintenance_changes_neither_rows_nor_positions(busy):
    set_age(busy, 2 * VACUUM_RETENTION, *files_of(busy))
    before = current_positions(busy)
    current = f"_kinesis/positions/{before.commit_id}.json"
    stored = (folder_of(busy) / current).read_bytes()
    rows = DeltaTable(busy.folder.uri).to_pyarrow_table().to_pylist()

    done = steps_of(busy)

    assert ("compact", "2026-02-02") in done
    assert current_positions(busy) == before
    assert (folder_of(busy) / current).read_bytes() == stored
    by_key = [("shard_id", "ascending"), ("batch_id", "ascending"), ("sequence_number", "ascending")]
    after = DeltaTable(busy.folder.uri).to_pyarrow_table().sort_by(by_key).to_pylist()
    assert after == sorted(rows, key=lambda row: (row["shard_id"], row["batch_id"], row["sequence_number"]))
    assert Attempt(busy, before, {"a": 1}).commit().conflicts == {}
    assert_rows_are_what_positions_say(busy)


def test_a_dry_run_changes_no_files_and_plans_the_steps_of_the_next_run(busy):
    (orphan,) = land(busy, new_id(), {"a": records(1, 1)})
    set_age(busy, 2 * VACUUM_RETENTION, orphan.path)
    before = files_of(busy)
    planned = steps_of(busy, retention_days=100_000, dry_run=True)
    assert files_of(busy) == before
    assert {step.state for step in planned.values()} == {State.PLANNED}
    assert {name for name, _ in planned} == {"expire", "compact", "vacuum"}
    done = steps_of(busy, retention_days=100_000)
    assert {step.state for step in done.values()} == {State.DONE}
    assert done.pop(("checkpoint", "_delta_log"))
    assert sizes(done) == sizes(planned)


def sizes(steps):
    return {name: (step.files, step.bytes) for name, step in steps.items()}


def test_a_second_maintenance_finds_nothing_to_do(busy):
    steps_of(busy)
    assert {step for step, _ in steps_of(busy)} == {"checkpoint"}


def test_concurrent_commits_and_maintenance_succeed(busy):
    done = threading.Event()

    def run(shard_id):
        commits = 0
        while not done.is_set() or commits < 10:
            assert Attempt(busy, current_positions(busy), {shard_id: 2}).commit().conflicts == {}
            commits += 1
        return commits

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(run, shard_id) for shard_id in ("a", "b")]
        try:
            found = [step for _ in range(4) for step in steps_of(busy).values()]
        finally:
            done.set()
        assert all(each.result(timeout=SECONDS) >= 10 for each in runs)
    assert {step.step for step in found} >= {"compact", "checkpoint"}
    assert_rows_are_what_positions_say(busy)


def test_concurrent_maintenance_duplicates_no_rows(busy):
    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(steps_of, busy) for _ in range(2)]:
            each.result(timeout=SECONDS)
    assert_rows_are_what_positions_say(busy)


def test_a_table_is_opened_by_its_path_and_by_its_uri(busy):
    assert steps_of(PositionedTable(busy.folder.uri)).keys() == {
        ("compact", "2026-02-02"),
        ("checkpoint", "_delta_log"),
    }
