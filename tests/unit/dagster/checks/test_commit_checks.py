"""The check of continuity reads each new commit once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kinesis_assets.dagster.checks.commit_checks import (
    ContinuityProgress,
    check_continuity,
    verify_new_commits,
)
from kinesis_assets.dagster.settings.check_settings import ContinuityCheck
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.raw_table import PositionedTable

pytestmark = pytest.mark.slow

NOW = datetime.now(UTC)
CHECK = ContinuityCheck()
NOTHING = ContinuityProgress()


@pytest.fixture
def filled(bench):
    """A table with three commits of rows."""
    bench.create()
    for number in range(3):
        bench.put(number)
        bench.run()
    return bench


def verify(bench, done=NOTHING, **limits):
    table = PositionedTable(bench.table.uri)  # without a cache, as in each tick
    found = verify_new_commits(table, bench.positions, done, NOW, **limits)
    return found, table.chain.files_read


def forge_a_break(bench):
    (shard_id,) = bench.shard_ids
    return bench.forge_shards(shard_id, position=Position.after("9" * 56))


def test_commits_that_continue_each_other_pass(filled):
    progress, _ = verify(filled)
    assert progress.breaks == ()
    assert progress.checked >= 3
    assert check_continuity(CHECK, progress).passed


def test_a_position_that_moved_without_rows_is_a_break_of_its_shard(filled):
    forged = forge_a_break(filled)
    progress, _ = verify(filled)
    result = check_continuity(CHECK, progress)
    (found,) = progress.breaks
    assert (found.commit_id, found.shard_id) == (forged.commit_id, *filled.shard_ids)
    assert (result.passed, result.severity) == (False, "ERROR")
    assert found.shard_id in result.description


def test_a_break_is_remembered_after_later_commits(filled):
    forge_a_break(filled)
    progress, _ = verify(filled)
    filled.forge()
    later, _ = verify(filled, progress)
    assert later.breaks == progress.breaks


def test_a_break_before_an_examined_time_does_not_count(filled):
    forge_a_break(filled)
    progress, _ = verify(filled)
    later = progress.breaks[0].at + timedelta(seconds=1)
    assert check_continuity(ContinuityCheck(since=later), progress).passed


def test_nothing_is_read_without_a_new_commit(filled):
    progress, _ = verify(filled)
    again, files_read = verify(filled, progress)
    assert (again, files_read) == (progress, 0)


def test_only_new_commits_are_checked(filled):
    progress, _ = verify(filled)
    filled.put(4)
    filled.run()
    later, _ = verify(filled, progress)
    assert later.checked == progress.checked + 1


def test_many_commits_are_checked_in_steps_oldest_first(filled):
    first, _ = verify(filled)
    filled.forge()
    forge_a_break(filled)
    filled.forge()
    step, _ = verify(filled, first, max_commits=1)
    assert (step.left, step.breaks) == (2, ())
    step, _ = verify(filled, step, max_commits=1)
    assert (step.left, len(step.breaks)) == (1, 1)
    assert "1 commit" in check_continuity(CHECK, msgspec.structs.replace(step, breaks=())).description


def test_a_step_that_is_far_behind_skips_commits(filled):
    first, _ = verify(filled)
    for _ in range(4):
        filled.forge()
    step, _ = verify(filled, first, max_commits=1, max_commits_back=2)
    assert (step.checked, step.left, step.breaks) == (first.checked + 1, 1, ())
    step, _ = verify(filled, step, max_commits=1, max_commits_back=2)
    assert (step.checked, step.left) == (first.checked + 2, 0)


def test_a_table_whose_log_was_set_back_is_a_break(filled):
    progress, _ = verify(filled)
    older = filled.table.chain.positions_at(filled.positions.previous)
    (broken,) = verify_new_commits(PositionedTable(filled.table.uri), older, progress, NOW).breaks
    assert "restored" in broken.sentence


def test_a_commit_whose_file_is_missing_is_a_break(filled):
    progress, _ = verify(filled)
    filled.put(5)
    filled.run()
    missing = filled.positions
    filled.put(6)
    filled.run()
    filled.table.files.delete_file(f"_kinesis/positions/{missing.commit_id}.json")
    found, _ = verify(filled, progress)
    assert any(f"{missing.commit_id}.json" in each.sentence for each in found.breaks)


def test_a_chain_that_maintenance_has_pruned_is_no_break(filled):
    assert verify(filled, ContinuityProgress(through=1))[0].breaks == ()
