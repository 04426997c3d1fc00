"""Pruning of the entries of a derived table's commits, and of the rows that these replaced."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import islice

import msgspec
import pytest

from kinesis_assets import new_rows
from kinesis_assets.derive.commit_entry import ENTRIES_FOLDER, entry_path
from kinesis_assets.derive.data_files import CHANGES_FOLDER, ERRORS_FOLDER
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.errors import PositionsUnreadable, SourceCommitsMissing
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit import MAX_ATTEMPT_AGE
from kinesis_assets.table.maintenance.pruning import CHAIN_KEPT, CHAIN_NEEDED
from kinesis_assets.table.maintenance.steps import MaintenanceLimits
from kinesis_assets.table.run_files.heartbeat import HEARTBEATS_FOLDER, Heartbeat
from support.maintained_table import days_from_now
from support.plain_derived import steps_of
from support.shifted_clock import ShiftedClock
from support.table_folder import files_of, set_age

pytestmark = pytest.mark.slow

DAY = timedelta(days=1)
LATER = CHAIN_KEPT.days + 1
"""Days after which superseded records are deleted."""

RECORDS = f"{ENTRIES_FOLDER}/*"
CHANGES = f"{CHANGES_FOLDER}/*"
ERRORS = f"{ERRORS_FOLDER}/*"


def cursor_of(derived):
    """Return the position of a consumer that has consumed everything."""
    return new_rows(derived.table.uri).cursor


def reopen(derived, days=0.0):
    """Let days pass for the table's writers, and forget the records that were read."""
    clock = ShiftedClock()
    clock.advance(24 * days)
    derived.table = DerivedTable(derived.table.uri, replace(derived.table.policy, clock=clock))


@pytest.fixture
def upserted(derived):
    """A derived table with three commits, of which two replaced a row; and the positions around them."""
    cursors = [cursor_of(derived)]
    for number in range(3):
        derived.upsert((1, number, "a"))
        cursors.append(cursor_of(derived))
    return derived, cursors


def test_records_that_were_superseded_long_ago_are_deleted(upserted):
    derived, _ = upserted
    newest = derived.table.snapshot().newest
    assert not [of for step, of in steps_of(derived) if step == "prune"]
    steps = steps_of(derived, days_from_now(LATER))
    assert steps["prune", ENTRIES_FOLDER].files == 2
    assert files_of(derived.table, RECORDS) == {entry_path(newest.commit_id)}
    reopen(derived)
    assert derived.table.snapshot().newest == newest


def test_a_consumer_at_a_record_that_was_recently_current_continues(upserted):
    """The table was idle for long. Its last record was superseded just now."""
    derived, cursors = upserted
    reopen(derived, LATER)
    derived.upsert((1, 9, "a"))
    assert steps_of(derived, days_from_now(LATER + 0.1))["prune", ENTRIES_FOLDER].files == 2
    reopen(derived)
    assert derived.replaced(cursors[-1]) == [2]


@pytest.mark.parametrize("behind", [0, 1])
def test_a_consumer_behind_the_deleted_records_is_refused(upserted, behind):
    derived, cursors = upserted
    steps_of(derived, days_from_now(LATER))
    reopen(derived)
    with pytest.raises(SourceCommitsMissing):
        new_rows(derived.table.uri, cursors[behind])


def test_a_consumer_of_all_deleted_records_gets_the_rows_after_them(upserted):
    derived, cursors = upserted
    steps_of(derived, days_from_now(LATER))
    reopen(derived)
    assert derived.replaced(cursors[2]) == [1]


def test_a_consumer_without_a_position_gets_all_rows_after_records_were_deleted(upserted, below):
    derived, _ = upserted
    steps_of(derived, days_from_now(LATER))
    below.consume_all(derived)
    assert below.rows == derived.rows


def test_replaced_rows_are_kept_as_long_as_a_consumer_can_need_them(upserted):
    derived, cursors = upserted
    kept = files_of(derived.table, CHANGES)
    assert derived.replaced(cursors[1]) == [0, 1]
    steps_of(derived, days_from_now(CHAIN_KEPT.days - 0.1))
    reopen(derived)
    assert derived.replaced(cursors[1]) == [0, 1]
    assert files_of(derived.table, CHANGES) == kept


def test_replaced_rows_are_deleted_once_no_record_names_them(upserted):
    derived, cursors = upserted
    assert len(files_of(derived.table, CHANGES)) == 2
    reopen(derived, LATER)
    derived.upsert((1, 8, "a"))
    named = {file.path for file in derived.table.snapshot().newest.replaced}
    reopen(derived, 2 * LATER)
    derived.upsert((1, 9, "a"))
    newest = derived.table.snapshot().newest
    steps = steps_of(derived, days_from_now(2 * LATER + 0.1))
    assert steps["prune", CHANGES_FOLDER].files == 2
    assert files_of(derived.table, CHANGES) == named | {file.path for file in newest.replaced}
    reopen(derived)
    with pytest.raises(SourceCommitsMissing):
        new_rows(derived.table.uri, cursors[-2])


def test_replaced_rows_of_an_attempt_that_never_committed_are_deleted(upserted):
    derived, _ = upserted
    derived.planned([(1, 7, "a")], replacing=True)
    assert len(files_of(derived.table, CHANGES)) == 3
    reopen(derived, LATER)
    for value in (8, 9):
        derived.upsert((1, value, "a"))
    reopen(derived, 2 * LATER)
    derived.upsert((1, 10, "a"))
    assert steps_of(derived, days_from_now(2 * LATER + 0.1))["prune", CHANGES_FOLDER].files == 3


def test_bad_records_are_deleted_once_no_record_names_them(derived):
    derived.append(errors=[b"one"])
    derived.planned([], errors=[b"never committed"])
    steps_of(derived, days_from_now(CHAIN_KEPT.days - 0.1))
    assert len(files_of(derived.table, ERRORS)) == 2
    for days in (LATER, 2 * LATER):
        reopen(derived, days)
        derived.append(errors=[b"two"])
    steps = steps_of(derived, days_from_now(2 * LATER + 0.1))
    assert steps["prune", ERRORS_FOLDER].files == 2
    commits = derived.table.entries.back_from(derived.table.snapshot().newest)
    named = {file.path for commit in islice(commits, 2) for file in commit.errors}
    assert files_of(derived.table, ERRORS) == named


def test_a_commit_is_at_most_as_much_younger_than_its_files_as_pruning_assumes():
    assert MAX_ATTEMPT_AGE < CHAIN_NEEDED / 2


@pytest.mark.parametrize("limits", [MaintenanceLimits(chain_files=3), MaintenanceLimits(chain_bytes=1500)])
def test_records_beyond_the_bound_are_deleted_if_no_attempt_needs_them(derived, limits):
    for number in range(12):
        derived.append((number, 0, "a"))
    paths = sorted(files_of(derived.table, RECORDS))
    assert ("prune", ENTRIES_FOLDER) not in steps_of(derived, limits=limits)
    steps_of(derived, days_from_now(CHAIN_NEEDED / DAY + 0.1), limits=limits)
    left = sorted(files_of(derived.table, RECORDS))
    assert 2 <= len(left) < 8
    assert left == paths[-len(left) :]
    derived.append((100, 0, "a"))


def test_an_idle_table_keeps_its_only_record(derived):
    derived.append((1, 1, "a"))
    before = files_of(derived.table, RECORDS)
    steps_of(derived, days_from_now(10 * LATER))
    assert files_of(derived.table, RECORDS) == before


def test_records_before_a_rebuild_are_deleted(upserted):
    derived, cursors = upserted
    reopen(derived, LATER)
    derived.rebuild()
    reopen(derived, LATER + 0.1)
    derived.append((1, 1, "a"))
    steps = steps_of(derived, days_from_now(LATER + 0.2))
    assert steps["prune", ENTRIES_FOLDER].files == 3
    reopen(derived)
    with pytest.raises(SourceCommitsMissing):
        new_rows(derived.table.uri, cursors[-2])


def test_a_rebuild_that_was_never_committed_deletes_no_record_that_is_needed(upserted):
    derived, cursors = upserted
    newest = derived.table.snapshot().newest
    reopen(derived, LATER)
    orphan = msgspec.structs.replace(newest, commit_id=new_id(derived.table.clock), previous=None)
    derived.table.entries.write(orphan)
    reopen(derived, LATER + 0.1)
    derived.upsert((1, 9, "a"))
    steps_of(derived, days_from_now(LATER + 0.2))
    reopen(derived)
    assert derived.replaced(cursors[-1]) == [2]


def test_a_damaged_record_of_a_killed_writer_is_passed_over(upserted):
    derived, cursors = upserted
    reopen(derived, LATER)
    path = entry_path(new_id(derived.table.clock))
    with derived.table.files.open_output_stream(path) as sink:
        sink.write(b"{")
    derived.upsert((1, 9, "a"))
    steps_of(derived, days_from_now(LATER + 0.1))
    reopen(derived)
    assert derived.replaced(cursors[-1]) == [2]


def test_a_recent_record_of_a_writer_with_a_slow_clock_is_kept(derived):
    for number in range(2):
        derived.append((number, number, "a"))
    cursor = cursor_of(derived)
    reopen(derived, -LATER)
    derived.upsert((1, 2, "a"))
    reopen(derived)
    derived.upsert((1, 3, "a"))
    steps_of(derived)
    reopen(derived)
    assert derived.replaced(cursor) == [1, 2]
    steps_of(derived, days_from_now(CHAIN_NEEDED / DAY + 0.1))
    reopen(derived)
    with pytest.raises(SourceCommitsMissing):
        new_rows(derived.table.uri, cursor)


def test_a_dry_run_deletes_nothing(upserted):
    derived, _ = upserted
    before = files_of(derived.table)
    planned = steps_of(derived, days_from_now(LATER), dry_run=True)
    assert planned["prune", ENTRIES_FOLDER].files == 2
    assert files_of(derived.table) == before


def test_nothing_is_deleted_if_the_newest_record_is_damaged(upserted):
    derived, _ = upserted
    newest = derived.table.snapshot().newest
    reopen(derived)
    with derived.table.files.open_output_stream(entry_path(newest.commit_id)) as sink:
        sink.write(b"{")
    before = files_of(derived.table, RECORDS)
    with pytest.raises(PositionsUnreadable):
        steps_of(derived, days_from_now(LATER))
    assert files_of(derived.table, RECORDS) == before


def test_heartbeats_of_dead_runs_are_deleted_after_a_day(derived):
    for run_id in ("old", "young"):
        Heartbeat(derived.table, run_id, seconds=60)._beat()
    set_age(derived.table, timedelta(hours=25), f"{HEARTBEATS_FOLDER}/old")
    set_age(derived.table, timedelta(hours=23), f"{HEARTBEATS_FOLDER}/young")
    assert steps_of(derived)["prune", HEARTBEATS_FOLDER].files == 1
    assert files_of(derived.table, f"{HEARTBEATS_FOLDER}/*") == {f"{HEARTBEATS_FOLDER}/young"}


def test_deleted_records_are_no_sign_of_a_restore(derived):
    """The log has no entry since the newest commit, so the records are searched for one with rows."""
    derived.append((1, 1, "a"))
    reopen(derived, LATER)
    derived.append()  # it only moves the position
    derived.table.snapshot().delta.alter.set_table_properties({"delta.checkpointInterval": "50"})
    steps_of(derived, days_from_now(2 * LATER))
    set_age(derived.table, 2 * DAY, *files_of(derived.table, "_delta_log/*"))
    derived.table.snapshot().delta.alter.set_table_properties({"delta.checkpointInterval": "60"})
    steps_of(derived)
    assert len(files_of(derived.table, RECORDS)) == 1
    reopen(derived)
    snapshot = derived.table.snapshot()
    assert snapshot.rewrites_since(snapshot.newest.examined, snapshot.commit_id) is None
    assert new_rows(derived.table.uri).files
