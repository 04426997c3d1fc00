"""Maintenance of a derived table as a whole: what it deletes, refuses, and leaves to consumers."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets import new_rows
from kinesis_assets.derive import maintenance
from kinesis_assets.derive.commit_entry import ENTRIES_FOLDER
from kinesis_assets.derive.data_files import CHANGES_FOLDER
from kinesis_assets.derive.derived_table import DerivedSnapshot, DerivedTable
from kinesis_assets.derive.maintenance import maintain
from kinesis_assets.errors import ClocksDisagree, TableMissing, TableRewritten, TableUnsuitable
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.maintenance.pruning import CHAIN_KEPT
from kinesis_assets.table.maintenance.steps import State
from kinesis_assets.table.policy import HISTORY_RETENTION, VACUUM_RETENTION
from support.maintained_table import days_from_now
from support.plain_derived import steps_of
from support.table_folder import LOG_ENTRIES, files_of, set_age

HOUR = timedelta(hours=1)
YEAR = timedelta(days=365)
DATA_FILES = "part=*/part-*.parquet"
LATER = CHAIN_KEPT.days + 1


def age_log(derived):
    """Make the log older than its entries are kept, and return its entries."""
    set_age(derived.table, HISTORY_RETENTION + HOUR, *files_of(derived.table, "_delta_log/*"))
    return files_of(derived.table, LOG_ENTRIES)


@pytest.fixture
def orphaned(busy):
    """A table with an old file of an attempt that never committed."""
    before = files_of(busy.table, DATA_FILES)
    busy.planned([(7, 7, "a")])
    orphans = files_of(busy.table, DATA_FILES) - before
    set_age(busy.table, VACUUM_RETENTION + HOUR, *orphans)
    return busy, orphans


# Vacuum and the log


def test_vacuum_deletes_old_files_of_attempts_that_never_committed(orphaned):
    derived, orphans = orphaned
    assert steps_of(derived)["vacuum", "data files"].files == 1
    assert not orphans & files_of(derived.table)


def test_vacuum_keeps_files_of_an_attempt_that_can_still_commit(busy):
    rows, commit = busy.rows, busy.planned([(7, 7, "a")])
    set_age(busy.table, VACUUM_RETENTION - HOUR, *files_of(busy.table, DATA_FILES))
    steps_of(busy)
    commit()
    assert busy.rows == rows + type(rows)([(7, 7, "a")])


def test_vacuum_keeps_the_rows_that_commits_replaced(derived):
    for number in range(2):
        derived.upsert((1, number, "a"))
    set_age(derived.table, 10 * VACUUM_RETENTION, *files_of(derived.table))
    before = files_of(derived.table, f"{CHANGES_FOLDER}/*")
    steps_of(derived)
    assert before
    assert files_of(derived.table, f"{CHANGES_FOLDER}/*") == before


def test_a_reader_of_a_version_of_the_last_day_finds_its_files_after_maintenance(busy):
    version, rows = busy.table.snapshot().delta.version(), busy.rows
    set_age(busy.table, 10 * VACUUM_RETENTION, *files_of(busy.table, DATA_FILES))
    steps_of(busy)
    steps_of(busy)
    assert DeltaTable(busy.table.uri, version).to_pyarrow_table().num_rows == rows.total()


@pytest.mark.slow
def test_old_log_entries_are_deleted_and_the_table_goes_on(busy, below):
    below.consume(busy)
    steps_of(busy)
    old = age_log(busy)
    busy.append((200, 200, "a"))
    steps_of(busy)
    assert len(old & files_of(busy.table, LOG_ENTRIES)) <= 1
    busy.append((201, 201, "a"))
    below.consume_all(busy)
    assert below.rows == busy.rows


# Consumers


@pytest.mark.slow
@pytest.mark.parametrize("max_bytes", [1, 1 << 30])
def test_tables_below_lose_and_double_no_rows_by_maintenance_between_their_steps(busy, below, max_bytes):
    """The first steps consume the history of the table, and later ones its new rows."""
    for number in range(300, 312):
        below.consume(busy, max_bytes)
        steps_of(busy)
        busy.append((number, number, "a"))
    below.consume_all(busy, max_bytes)
    assert below.rows == busy.rows


@pytest.mark.slow
def test_tables_below_get_new_versions_of_rows_that_were_compacted(busy, below):
    below.consume_all(busy)
    cursor = new_rows(busy.table.uri).cursor
    steps_of(busy)
    busy.upsert((1, 50, "a"))
    steps_of(busy)
    below.consume_all(busy)
    assert below.rows - busy.rows == type(below.rows)([(1, 1, "a")])
    assert below.rows >= busy.rows
    assert busy.replaced(cursor) == [1]


# Interruptions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [
        (maintenance, "rewritten", True),
        (maintenance, "check_files", True),
        (DerivedSnapshot, "replace", False),
        (DerivedSnapshot, "replace", True),
        (DeltaOperations, "set_properties", True),
        (DeltaOperations, "vacuum", True),
        (DeltaTable, "create_checkpoint", True),
        (DeltaOperations, "checkpoint", True),
        (maintenance, "prune_folder", False),
        (maintenance, "_written_before", False),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_a_maintenance_that_is_killed_between_two_steps_is_continued_by_the_next(
    orphaned, below, when, owner, name, after
):
    class Killed(BaseException):
        pass

    def die():
        raise Killed

    derived, orphans = orphaned
    below.consume(derived)
    derived.upsert((1, 50, "a"))
    derived.upsert((1, 51, "a"))
    rows, newest = derived.rows, derived.table.snapshot().newest
    when(owner, name, die, after=after)
    with pytest.raises(Killed):
        steps_of(derived, days_from_now(LATER))
    assert derived.rows == rows
    steps_of(derived, days_from_now(LATER))
    assert (derived.rows, len(derived.active)) == (rows, 2)
    assert derived.table.snapshot().newest == newest
    assert not orphans & files_of(derived.table)
    assert len(files_of(derived.table, f"{ENTRIES_FOLDER}/*")) == 1
    assert {step for step, _ in steps_of(derived, days_from_now(LATER))} == {"checkpoint"}


# Refusals


@pytest.mark.parametrize("ahead", [YEAR, -YEAR])
@pytest.mark.parametrize("wrong", ["machine", "service"])
def test_nothing_is_deleted_if_the_clocks_disagree(orphaned, wrong, ahead):
    derived, _ = orphaned
    now = days_from_now(LATER)
    before = files_of(derived.table)
    with pytest.raises(ClocksDisagree):
        steps_of(derived, **{"service": now, "machine": now} | {wrong: now + ahead})
    assert files_of(derived.table) == before


def test_the_clocks_are_compared_immediately_before_each_step_that_deletes(orphaned, monkeypatch):
    derived, _ = orphaned
    derived.upsert((1, 50, "a"))
    now = days_from_now(LATER)
    events: list[str] = []

    def machine():
        events.append("clocks")
        return now

    def recorded(owner, name, event):
        real = getattr(owner, name)

        def call(*arguments, **named):
            events.append("plan" if event == "vacuum" and named["dry_run"] else event)
            return real(*arguments, **named)

        monkeypatch.setattr(owner, name, call)

    recorded(maintenance, "compact_partition", "compact")
    recorded(DeltaOperations, "vacuum", "vacuum")
    recorded(DeltaOperations, "checkpoint", "checkpoint")
    recorded(maintenance, "prune_folder", "prune")
    steps_of(derived, now, machine)

    deleting = [number for number, event in enumerate(events) if event not in {"clocks", "plan"}]
    assert [events[number] for number in deleting] == ["compact", "vacuum", "checkpoint", *["prune"] * 6]
    assert {events[number - 1] for number in deleting} == {"clocks"}


@pytest.mark.parametrize("rewrite", ["restore", "overwrite"])
def test_a_table_that_was_restored_or_overwritten_is_refused(busy, rewrite):
    if rewrite == "restore":
        DeltaTable(busy.table.uri).restore(2)
    else:
        rows = DeltaTable(busy.table.uri).to_pyarrow_table().slice(0, 1)
        write_deltalake(busy.table.uri, rows, mode="overwrite")
    before = files_of(busy.table)
    with pytest.raises(TableRewritten):
        steps_of(busy)
    assert files_of(busy.table) == before


def test_a_missing_table_is_reported_and_not_created(tmp_path):
    with pytest.raises(TableMissing):
        list(maintain(DerivedTable(str(tmp_path / "none")), days_from_now(0)))
    assert not (tmp_path / "none").exists()


def test_a_table_of_another_kind_is_not_touched(busy, tmp_path):
    rows = DeltaTable(busy.table.uri).to_pyarrow_table()
    write_deltalake(tmp_path / "other", rows)
    before = sorted(Path(tmp_path, "other").rglob("*"))
    with pytest.raises(TableUnsuitable):
        list(maintain(DerivedTable(str(tmp_path / "other")), days_from_now(0)))
    assert sorted(Path(tmp_path, "other").rglob("*")) == before


def test_a_table_with_deletion_vectors_is_refused(busy):
    """delta-rs would delete the files with the vectors, because no version names them as data."""
    busy.table.snapshot().delta.alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    before = files_of(busy.table)
    with pytest.raises(TableUnsuitable, match="deletionVectors"):
        steps_of(busy)
    assert files_of(busy.table) == before


def test_a_table_without_commits_is_maintained(derived):
    assert [step.state for step in steps_of(derived).values()] == [State.DONE]
