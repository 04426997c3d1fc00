"""Pruning of positions, amendments and markers below `_kinesis/`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import msgspec
import pytest

from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit import MAX_ATTEMPT_AGE
from kinesis_assets.table.maintenance.pruning import (
    CHAIN_KEPT,
    CHAIN_NEEDED,
    expired_files,
    prune_folder,
)
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS, MaintenanceLimits
from kinesis_assets.table.positions.positions_chain import POSITIONS_FOLDER, positions_path
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.run_files.heartbeat import HEARTBEATS_FOLDER, Heartbeat
from kinesis_assets.table.run_files.task_files import (
    PROGRESS_FOLDER,
    STOP_MARKERS_FOLDER,
    Progress,
    ProgressFiles,
    StopMarker,
)
from kinesis_assets.table.store.chain import Chain
from kinesis_assets.table.store.storage import write_new
from kinesis_assets.table.store.suitability import PROBES_FOLDER
from support.amendments import commit_amendment
from support.attempts import (
    STREAM,
    Attempt,
    assert_rows_are_what_positions_say,
    current_positions,
    freeze_all,
    shards,
)
from support.maintained_table import amendment_of, days_from_now, steps_of
from support.shifted_clock import ShiftedClock
from support.table_folder import files_of, folder_of, set_age

pytestmark = pytest.mark.slow

DAY = timedelta(days=1)
POSITIONS = f"{POSITIONS_FOLDER}/*"
LATER = CHAIN_KEPT.days + 1
"""Days after which superseded positions are deleted."""


def has_pruned(steps):
    return any(name == "prune" for name, _ in steps)


# Positions


def test_pruning_deletes_positions_superseded_long_ago(busy):
    commit_ids = [current_positions(busy).commit_id]
    while (previous := busy.chain.positions_at(commit_ids[-1]).previous) is not None:
        commit_ids.append(previous)
    assert not has_pruned(steps_of(busy))
    step = steps_of(busy, days_from_now(LATER))["prune", POSITIONS_FOLDER]
    assert step.files == len(commit_ids) - 2
    # The current positions and their base, which is the first file.
    assert files_of(busy, POSITIONS) == {positions_path(commit_ids[0]), positions_path(commit_ids[-1])}
    assert current_positions(PositionedTable(busy.uri)).commit_id == commit_ids[0]


@pytest.mark.parametrize("limits", [MaintenanceLimits(chain_files=3), MaintenanceLimits(chain_bytes=2000)])
def test_positions_beyond_the_bound_are_pruned_if_no_attempt_needs_them(busy, limits):
    sizes = {path: (folder_of(busy) / path).stat().st_size for path in sorted(files_of(busy, POSITIONS))}
    assert not has_pruned(steps_of(busy, limits=limits))
    steps_of(busy, days_from_now(CHAIN_NEEDED / DAY + 0.1), limits=limits)
    within, size = 0, 0
    for path in reversed(sizes):
        size += sizes[path]
        within += within < limits.chain_files and size <= limits.chain_bytes
    assert 0 < within < len(sizes) - 2
    first, *others = sizes
    # Those within the bound, their predecessor, and the base of all.
    assert files_of(busy, POSITIONS) == {first, *others[-within - 1 :]}
    assert_rows_are_what_positions_say(PositionedTable(busy.uri))


def test_attempts_expire_before_the_positions_that_they_need_are_pruned():
    assert MAX_ATTEMPT_AGE + timedelta(hours=12) < CHAIN_NEEDED


def test_pruning_does_not_read_the_shards_of_pruned_positions(busy, monkeypatch):
    read = []
    original = Chain.at
    monkeypatch.setattr(
        Chain, "at", lambda chain, commit_id, *arn: read.append(commit_id) or original(chain, commit_id, *arn)
    )
    step = steps_of(busy, days_from_now(LATER))["prune", POSITIONS_FOLDER]
    assert step.files == 2 * DEFAULT_LIMITS.small_files - 1
    current = current_positions(busy)
    assert set(read) == {current.commit_id, busy.chain.header_at(current.commit_id).base}


def test_pruning_keeps_the_positions_that_an_active_attempt_started_from(busy):
    """After a pause of the stream, a recent attempt starts from old positions, which are then superseded."""
    attempt = Attempt(busy, current_positions(busy), {"a": 3})
    clock = ShiftedClock()
    clock.advance(24 * LATER)
    later = PositionedTable(busy.uri, replace(busy.policy, clock=clock))
    attempt_of_another = Attempt(later, current_positions(busy), {"b": 2}, batch_id=new_id(clock))
    assert attempt_of_another.commit().conflicts == {}
    assert steps_of(busy, days_from_now(LATER + 0.5))["prune", POSITIONS_FOLDER].files > 0
    assert attempt.commit().conflicts == {}
    assert_rows_are_what_positions_say(busy)


def test_positions_of_a_failed_try_are_pruned(busy):
    now = current_positions(busy)
    failed = msgspec.structs.replace(now, commit_id=new_id(), previous=now.commit_id)
    busy.chain.write(failed)
    Attempt(busy, now, {"a": 3}).commit()
    steps_of(busy, days_from_now(LATER))
    assert positions_path(failed.commit_id) not in files_of(busy)


def test_pruning_keeps_positions_of_another_stream(busy):
    other = msgspec.structs.replace(STREAM, arn=f"{STREAM.arn}-other")
    elsewhere = PositionedTable(f"{busy.uri}-other")
    path = positions_path(freeze_all(elsewhere, shards("x"), identity=other).commit_id)
    shutil.copy(Path(elsewhere.uri, path), Path(busy.uri, path))
    Attempt(busy, current_positions(busy), {"a": 3}).commit()
    steps_of(busy, days_from_now(LATER))
    assert path in files_of(busy)


def test_recent_positions_of_a_writer_with_a_slow_clock_are_kept(filled):
    long_ago = days_from_now(-LATER).timestamp()
    now = current_positions(filled)
    slow = msgspec.structs.replace(now, commit_id=int(long_ago * 1000) << 20, previous=now.commit_id)
    filled.snapshot().commit([], identity=STREAM, positions=slow)
    Attempt(filled, current_positions(filled), {"a": 1}).commit()
    steps_of(filled)
    assert filled.chain.positions_at(slow.commit_id) == slow
    assert ("prune", POSITIONS_FOLDER) in steps_of(filled, days_from_now(CHAIN_NEEDED / DAY + 0.1))


# Amendments and markers


def test_pruning_keeps_the_newest_amendment_and_its_floor(empty):
    for number in range(1, 4):
        entry = commit_amendment(empty, floor=date(2026, 1, number))
    later = days_from_now(LATER)
    assert steps_of(empty, later)["prune", "_kinesis/past"].files == 2
    assert files_of(empty, "_kinesis/past/*") == {f"_kinesis/past/{entry.commit_id}.json"}
    assert amendment_of(empty).floor == date(2026, 1, 3)
    assert ("prune", "_kinesis/past") not in steps_of(empty, later)
    with pytest.raises(PositionsUnreadable):
        PositionedTable(empty.uri).amendments.at(entry.previous)


@pytest.mark.parametrize("folder", [STOP_MARKERS_FOLDER, HEARTBEATS_FOLDER, PROGRESS_FOLDER, PROBES_FOLDER])
def test_files_of_dead_runs_are_deleted_after_a_day(empty, folder):
    old, young = new_id(), new_id()
    for run_id in (old, young):
        StopMarker(empty.folder, run_id).set()
        Heartbeat(empty, str(run_id), seconds=60)._beat()
        ProgressFiles(empty.folder, run_id).write("task", Progress())
        write_new(empty.files, f"{PROBES_FOLDER}/{run_id}").close()
    task = "-task" if folder == PROGRESS_FOLDER else ""
    set_age(empty, timedelta(hours=25), f"{folder}/{old}{task}")
    set_age(empty, timedelta(hours=23), f"{folder}/{young}{task}")
    assert steps_of(empty)["prune", folder].files == 1
    assert files_of(empty, f"{folder}/*") == {f"{folder}/{young}{task}"}


def test_a_file_that_its_run_deletes_meanwhile_does_not_fail_the_pruning(empty):
    progress = ProgressFiles(empty.folder, new_id())
    progress.write("task", Progress())

    def deleted_meanwhile():
        for path in expired_files(empty.files, PROGRESS_FOLDER, days_from_now(2)):
            progress.delete()
            yield path

    (step,) = prune_folder(empty.files, PROGRESS_FOLDER, deleted_meanwhile(), dry_run=False)
    assert step.files == 1
    assert files_of(empty, f"{PROGRESS_FOLDER}/*") == set()
