"""Vacuum: which data files it deletes."""

from __future__ import annotations

import re
from datetime import timedelta

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit import MAX_ATTEMPT_AGE
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.maintenance.steps import State
from kinesis_assets.table.policy import HISTORY_RETENTION, VACUUM_RETENTION
from support.attempts import (
    NOON,
    Attempt,
    assert_rows_are_what_positions_say,
    current_positions,
    freeze_all,
    land,
    records,
    shards,
)
from support.formats import FORMATS, table_of
from support.maintained_table import delete_old_log_entries, steps_of
from support.table_folder import DATA_FILES, LOG_ENTRIES, files_of, folder_of, set_age
from support.timing import WRITING

pytestmark = pytest.mark.slow

HOUR = timedelta(hours=1)


def test_vacuum_keeps_files_of_an_attempt_that_can_still_commit(busy):
    attempt = Attempt(busy, current_positions(busy), {"a": 3})
    set_age(busy, 10 * VACUUM_RETENTION, *files_of(busy))
    set_age(busy, VACUUM_RETENTION - HOUR, *(file.path for file in attempt.files))
    steps_of(busy)
    assert attempt.commit().conflicts == {}
    assert_rows_are_what_positions_say(busy)


def test_vacuum_deletes_old_uncommitted_files(busy):
    (orphan,) = land(busy, new_id(), {"a": records(1, 3)})
    assert ("vacuum", "data files") not in steps_of(busy)
    set_age(busy, VACUUM_RETENTION + HOUR, orphan.path)
    step = steps_of(busy)["vacuum", "data files"]
    assert (step.files, step.bytes) == (1, orphan.size)
    assert orphan.path not in files_of(busy)
    assert_rows_are_what_positions_say(busy)


def test_vacuum_keeps_old_files_that_were_just_removed_from_the_table(busy):
    before = files_of(busy, DATA_FILES)
    set_age(busy, 10 * VACUUM_RETENTION, *files_of(busy))
    steps_of(busy)
    assert before < files_of(busy, DATA_FILES)


def compaction_entry(table):
    """Return the path of the log entry of the only compaction."""
    (entry,) = (path for path in files_of(table, LOG_ENTRIES) if '"remove"' in text_of(table, path))
    return entry


def text_of(table, path):
    return (folder_of(table) / path).read_text()


@pytest.mark.slow
def test_vacuum_keeps_just_removed_files_after_the_log_entry_of_their_removal_is_deleted(busy):
    before = files_of(busy, DATA_FILES)
    steps_of(busy)
    set_age(busy, 10 * VACUUM_RETENTION, *before)
    compaction = compaction_entry(busy)
    Attempt(busy, current_positions(busy), {"a": 1}).commit()
    assert compaction in delete_old_log_entries(busy)
    steps_of(busy)
    assert before < files_of(busy, DATA_FILES)


def test_vacuum_deletes_nothing_below_the_kinesis_folder(busy):
    unknown_file = folder_of(busy) / "_kinesis" / "arrival_date=2026-02-02" / "part.parquet"
    unknown_file.parent.mkdir()
    unknown_file.write_bytes(b"")
    set_age(busy, 10 * VACUUM_RETENTION, *files_of(busy))
    before = files_of(busy, "_kinesis/**/*")
    DeltaOperations(busy).vacuum(dry_run=False)
    assert files_of(busy, "_kinesis/**/*") == before


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("dry_run", [False, True])
def test_vacuum_deletes_nothing_while_another_table_is_in_the_folder(busy, format_, dry_run):
    (orphan,) = land(busy, new_id(), {"a": records(1, 3)})
    place = folder_of(busy) / "typed" / "orders"
    place.parent.mkdir()
    inner = table_of(format_, str(place), WRITING)
    freeze_all(inner, shards("a"))
    Attempt(inner, current_positions(inner), {"a": 3}).commit()
    set_age(busy, 10 * VACUUM_RETENTION, *files_of(busy))
    before = files_of(busy, "typed/**/*")
    step = steps_of(busy, dry_run=dry_run)["vacuum", "data files"]
    assert (step.state, step.reason) == (
        State.LEFT,
        "typed/orders in its folder is another table; move it to a folder outside of all others",
    )
    assert orphan.path in files_of(busy)
    assert files_of(busy, "typed/**/*") == before
    assert_rows_are_what_positions_say(inner)


@pytest.mark.parametrize(
    ("own", "kept"),
    [("interval 1 hours", 7), ("interval 5 seconds", 7), ("interval 2 weeks", 14), ("30 days", 30)],
)
def test_a_retention_of_deleted_files_set_on_the_table_applies_only_if_it_is_longer(empty, own, kept):
    DeltaTable(empty.folder.uri).alter.set_table_properties({"delta.deletedFileRetentionDuration": own})
    (orphan,) = land(empty, new_id(), {"a": records(1, 3)})
    set_age(empty, timedelta(days=kept) - HOUR, orphan.path)
    assert DeltaOperations(empty).vacuum(dry_run=True) == []
    set_age(empty, timedelta(days=kept) + HOUR, orphan.path)
    assert DeltaOperations(empty).vacuum(dry_run=True) == [orphan.path]


def remove_actions(table):
    """Return the number of `remove` actions in the newest checkpoint."""
    newest = max(files_of(table, "_delta_log/*.checkpoint.parquet"))
    removed = pq.ParquetFile(folder_of(table) / newest).read(columns=["remove.path"])
    return removed["remove"].drop_null().length() if removed.num_columns else 0


@pytest.fixture
def without_remove_actions(busy):
    """A compacted table whose log no longer has the `remove` actions, because of its own short retention."""
    shorter = {"delta.deletedFileRetentionDuration": "interval 1 seconds"}
    DeltaTable(busy.folder.uri).alter.set_table_properties(shorter)
    DeltaOperations(busy).compact("2026-02-02", 100)
    entry = folder_of(busy) / compaction_entry(busy)
    long_ago = f'"deletionTimestamp":{NOON * 1000}'
    entry.write_text(re.sub(r'"deletionTimestamp":\d+', long_ago, entry.read_text()))
    DeltaOperations(busy).checkpoint()
    assert remove_actions(busy) == 0
    return busy


def test_vacuum_keeps_files_without_remove_actions_for_the_usual_retention(without_remove_actions):
    busy = without_remove_actions
    before, active = files_of(busy, DATA_FILES), {file.path for file in busy.snapshot().data_files()}
    set_age(busy, VACUUM_RETENTION - HOUR, *before)
    DeltaOperations(busy).vacuum(dry_run=False)
    assert files_of(busy, DATA_FILES) == before > active
    set_age(busy, VACUUM_RETENTION + HOUR, *before)
    DeltaOperations(busy).vacuum(dry_run=False)
    assert files_of(busy, DATA_FILES) == active


def test_a_vacuum_by_the_retention_of_the_table_keeps_files_that_can_still_be_committed(busy):
    """Spark's VACUUM uses that retention. This test uses the vacuum of delta-rs."""
    attempt = Attempt(busy, current_positions(busy), {"a": 3})
    set_age(busy, 2 * MAX_ATTEMPT_AGE, *(file.path for file in attempt.files))
    DeltaTable(busy.folder.uri).vacuum(dry_run=False, full=True)
    assert attempt.commit().conflicts == {}
    assert_rows_are_what_positions_say(busy)
    (orphan,) = land(busy, new_id(), {"a": records(1, 3)})
    set_age(busy, HISTORY_RETENTION + HOUR, orphan.path)
    assert DeltaTable(busy.folder.uri).vacuum(dry_run=True, full=True) == [orphan.path]
