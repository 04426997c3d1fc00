"""Maintenance: compaction, checkpoints, vacuum, pruning and retention, also during runs."""

from __future__ import annotations

import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote, urlparse

import msgspec
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError

from kinesis_assets.errors import CommitFailed, CommitOvertaken, PositionsUnreadable
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.stream import StreamSummary
from kinesis_assets.table.amendments import FORMAT as AMENDMENT_FORMAT
from kinesis_assets.table.amendments import Amendment
from kinesis_assets.table.commit import MAX_ATTEMPT_AGE, commit
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.data_file import STATISTICS
from kinesis_assets.table.delta_commit import commit_properties
from kinesis_assets.table.heartbeat import HEARTBEATS_FOLDER, Heartbeat
from kinesis_assets.table.maintenance import compaction, pruning
from kinesis_assets.table.maintenance.compaction import SMALL_FILES
from kinesis_assets.table.maintenance.pruning import CHAIN_KEPT, CHAIN_NEEDED
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.maintenance.steps import State
from kinesis_assets.table.properties import HISTORY_RETENTION, VACUUM_RETENTION
from kinesis_assets.table.snapshot import TableSnapshot
from kinesis_assets.table.stop_marker import STOP_MARKERS_FOLDER, StopMarker
from kinesis_assets.table.table import PositionedTable
from kinesis_assets.table.upkeep import Upkeep
from support.attempts import (
    NOON,
    STREAM,
    Attempt,
    assert_rows_are_what_positions_say,
    current_positions,
    freeze_all,
    land,
    landed_from,
    last_number,
    listing,
    records,
    rows_by_shard,
    shards,
)
from support.shifted_clock import ShiftedClock

DAY = 24 * 3600
TODAY = datetime.fromtimestamp(NOON, UTC).date() + timedelta(days=10)
"""The date of tests that stop the clocks: ten days after the records of `attempts` arrived."""


@pytest.fixture
def frozen(table):
    """A table with the initial positions of shards a and b."""
    freeze_all(table, shards("a", "b"))
    return table


@pytest.fixture
def busy(frozen):
    """A table with many small files of a past day."""
    for _ in range(2 * SMALL_FILES):
        Attempt(frozen, current_positions(frozen), {"a": 3, "b": 2}).commit()
    return frozen


class BothClocks:
    """The clock of the machine and of the service in maintenance, which a test can move or stop."""

    def __init__(self):
        self.moved = timedelta()
        self.stopped = None

    def __call__(self):
        return self.stopped or datetime.now(UTC) + self.moved


CLOCKS = BothClocks()


@pytest.fixture(autouse=True)
def clocks():
    """Both clocks, reset before each test."""
    CLOCKS.__init__()
    return CLOCKS


@pytest.fixture
def today(clocks):
    """Stop the clocks of maintenance at noon of `TODAY`."""
    clocks.stopped = datetime(TODAY.year, TODAY.month, TODAY.day, 12, tzinfo=UTC)
    return TODAY


@pytest.fixture
def in_days(clocks):
    """Move the clocks of maintenance forward: `in_days(40)`."""

    def in_days(days):
        clocks.moved = timedelta(days=days)

    return in_days


def steps_of(table, **options):
    """Run maintenance; return its steps by name and object."""
    stream = StreamSummary(STREAM, CLOCKS(), retention_hours=24)
    return {(step.step, step.of): step for step in maintain(table, stream, machine=CLOCKS, **options)}


def files_of(table, pattern="arrival_date=*/*.parquet"):
    return sorted(path.relative_to(folder_of(table)).as_posix() for path in folder_of(table).glob(pattern))


def folder_of(table):
    return Path(unquote(urlparse(table.folder.uri).path))


def read(table, path):
    return (folder_of(table) / path).read_text()


def age(table, path, duration):
    """Set the modification time of a file to `duration` ago."""
    then = time.time() - duration.total_seconds()
    os.utime(folder_of(table) / path, (then, then))


def age_everything(table, duration, pattern="**/*"):
    for path in files_of(table, pattern):
        age(table, path, duration)


def delete_old_log_entries(table):
    """Age the log, commit twice, and run maintenance; return the deleted entries of the log."""
    Upkeep(table).checkpoint()
    age_everything(table, HISTORY_RETENTION + timedelta(hours=1), "_delta_log/*")
    before = {*files_of(table, "_delta_log/*.json")}
    for _ in range(2):
        Attempt(table, current_positions(table), {"b": 1}).commit()
    steps_of(table)
    deleted = before - {*files_of(table, "_delta_log/*.json")}
    assert len(deleted) >= len(before) - 1
    return deleted


def tombstones(table):
    """The number of tombstones in the newest checkpoint."""
    newest = files_of(table, "_delta_log/*.checkpoint.parquet")[-1]
    removed = pq.ParquetFile(folder_of(table) / newest).read(columns=["remove.path"])
    return removed["remove"].drop_null().length() if removed.num_columns else 0


def arrive(table, days_ago, shard_id="a", count=2):
    """Commit records of a shard that arrived `days_ago` days before `TODAY`, as a run does."""
    expected = current_positions(table)
    batch_id = new_id()
    seconds = datetime(TODAY.year, TODAY.month, TODAY.day, 12, tzinfo=UTC).timestamp() - days_ago * DAY
    rows = records(last_number(expected, shard_id) + 1, count, seconds)
    moved = msgspec.structs.replace(
        expected.shards[shard_id], position=Position.after(rows[-1].sequence_number)
    )
    return commit(
        table,
        expected=expected,
        listing=listing(shards(*expected.shards)),
        batch_id=batch_id,
        moved={shard_id: moved},
        files=land(table, batch_id, {shard_id: rows}),
        added={shard_id: landed_from(expected.shards[shard_id].position, rows)},
    )


def days_in(table):
    return {file.arrival_date for file in table.snapshot().active_files()}


def day(days_ago):
    return (TODAY - timedelta(days=days_ago)).isoformat()


def amendment(table):
    return table.snapshot().amendment(STREAM)


def new_amendment(**fields):
    """An amendment like that of a replay."""
    return Amendment(
        format=AMENDMENT_FORMAT,
        commit_id=new_id(),
        previous=None,
        batch_id=new_id(),
        at=datetime.now(UTC),
        **fields,
    )


# What maintenance preserves


def test_maintenance_changes_neither_rows_nor_positions(busy):
    age_everything(busy, 2 * VACUUM_RETENTION)
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
    orphan = land(busy, new_id(), {"a": records(1, 1)})[0]
    age(busy, orphan.path, 2 * VACUUM_RETENTION)
    before = files_of(busy, "**/*")
    planned = steps_of(busy, retention_days=100_000, dry_run=True)
    assert files_of(busy, "**/*") == before
    assert {step.state for step in planned.values()} == {State.PLANNED}
    assert {name for name, _ in planned} == {"expire", "compact", "vacuum"}
    done = steps_of(busy, retention_days=100_000)
    assert {key: (step.files, step.bytes) for key, step in done.items() if key[0] != "checkpoint"} == {
        key: (step.files, step.bytes) for key, step in planned.items()
    }
    assert {step.state for step in done.values()} == {State.DONE}


def test_a_second_maintenance_finds_nothing_to_do(busy):
    steps_of(busy)
    assert {step for step, _ in steps_of(busy)} == {"checkpoint"}


# Compaction


def test_a_compacted_file_has_the_encoding_and_statistics_of_ingested_files(busy):
    steps_of(busy)
    (file,) = busy.snapshot().active_files()
    footer = pq.read_metadata(folder_of(busy) / file.path).row_group(0)
    columns = {footer.column(index).path_in_schema: footer.column(index) for index in range(9)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert {name for name, column in columns.items() if column.is_stats_set} == {*STATISTICS}
    assert "RLE_DICTIONARY" not in columns["data"].encodings


def test_a_compacted_file_has_exact_statistics(busy):
    rows = DeltaTable(busy.folder.uri).to_pyarrow_table(columns=STATISTICS)
    steps_of(busy)
    (action,) = DeltaTable(busy.folder.uri).get_add_actions(flatten=True).to_struct_array().to_pylist()
    for name in STATISTICS:
        found = rows[name].to_pylist()
        assert (action[f"min.{name}"], action[f"max.{name}"]) == (min(found), max(found))
    assert not [name for name in action if name.startswith(("min.", "max.")) and name[4:] not in STATISTICS]


def test_the_current_day_is_not_compacted(busy, clocks):
    clocks.stopped = datetime.fromtimestamp(NOON + 3600, UTC)
    assert {step for step, _ in steps_of(busy)} == {"checkpoint"}


def test_the_current_day_is_compacted_if_it_has_very_many_small_files(busy, clocks, monkeypatch):
    now = clocks.stopped = datetime.fromtimestamp(NOON + 3600, UTC)
    monkeypatch.setattr(compaction, "SMALL_FILES_TODAY", 2 * SMALL_FILES)
    assert steps_of(busy)["compact", now.date().isoformat()].files == 2 * SMALL_FILES
    assert len(busy.snapshot().active_files()) == 1
    assert_rows_are_what_positions_say(busy)


def test_compaction_is_not_planned_for_an_expiring_day(busy):
    planned = steps_of(busy, retention_days=1, dry_run=True)
    assert [step for step, _ in planned] == ["expire"]


def test_few_small_files_are_not_compacted(frozen):
    for _ in range(SMALL_FILES - 1):
        Attempt(frozen, current_positions(frozen), {"a": 1}).commit()
    assert {step for step, _ in steps_of(frozen)} == {"checkpoint"}


def test_only_one_of_two_concurrent_compactions_of_the_same_files_commits(busy, monkeypatch):
    """delta-rs alone accepts both, which duplicates each row."""
    first, second = Upkeep(busy), Upkeep(busy)
    original = Upkeep._delta
    opened = []

    def overtaken(upkeep):
        delta = original(upkeep)
        opened.append(delta)
        if upkeep is first and len(opened) == 2:  # the first has marked the table and starts to compact
            second.compact("2026-02-02", 100)
        return delta

    monkeypatch.setattr(Upkeep, "_delta", overtaken)
    with pytest.raises(CommitFailed, match="cannot be compacted"):
        first.compact("2026-02-02", 100)
    assert len(busy.snapshot().active_files()) == 1
    assert_rows_are_what_positions_say(busy)


def test_a_compaction_stops_if_another_maintenance_marked_the_table(busy, monkeypatch):
    upkeep = Upkeep(busy)
    original = Upkeep.set_properties

    def overtaken(self, properties):
        original(self, properties)
        original(self, dict.fromkeys(properties, "another's"))

    monkeypatch.setattr(Upkeep, "set_properties", overtaken)
    with pytest.raises(CommitFailed, match="another maintenance has started"):
        upkeep.compact("2026-02-02", 100)
    assert len(busy.snapshot().active_files()) == 2 * SMALL_FILES


def test_compaction_does_not_restore_rows_deleted_concurrently(busy, monkeypatch):
    original = Upkeep._delta
    opened = []

    def overtaken(upkeep):
        delta = original(upkeep)
        opened.append(delta)
        if len(opened) == 2:
            busy.snapshot().remove("shard_id = 'a'", identity=STREAM, amendment=new_amendment())
        return delta

    monkeypatch.setattr(Upkeep, "_delta", overtaken)
    with pytest.raises(CommitFailed):
        Upkeep(busy).compact("2026-02-02", 100)
    assert rows_by_shard(busy).keys() == {"b"}


def test_a_compaction_that_keeps_failing_is_skipped_after_three_tries(busy, monkeypatch):
    tries = []

    def refused(*_):
        tries.append(1)
        raise CommitFailed(busy.uri, "a concurrent commit")

    monkeypatch.setattr(Upkeep, "compact", refused)
    step = steps_of(busy)["compact", "2026-02-02"]
    assert (step.state, len(tries)) == (State.LEFT, 3)
    assert "a concurrent commit" in (step.reason or "")


def test_an_attempt_started_before_a_compaction_commits_after_it(busy):
    attempt = Attempt(busy, current_positions(busy), {"a": 3})
    steps_of(busy)
    assert attempt.commit().conflicts == {}
    assert_rows_are_what_positions_say(busy)


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
        assert all(each.result(timeout=120) >= 10 for each in runs)
    assert {step.step for step in found} >= {"compact", "checkpoint"}
    assert_rows_are_what_positions_say(busy)


def test_concurrent_maintenance_duplicates_no_rows(busy):
    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(steps_of, busy) for _ in range(2)]:
            each.result(timeout=120)
    assert_rows_are_what_positions_say(busy)


# The log


def test_a_new_table_declares_its_log_retention_and_statistics_columns(frozen):
    configuration = DeltaTable(frozen.folder.uri).metadata().configuration
    assert configuration["delta.logRetentionDuration"] == "interval 1 days"
    assert configuration["delta.deletedFileRetentionDuration"] == "interval 1 days"
    assert configuration["delta.dataSkippingStatsColumns"].split(",") == STATISTICS


def test_an_older_table_gets_only_its_missing_properties(table, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(
            "kinesis_assets.table.table.TABLE_PROPERTIES", {"delta.logRetentionDuration": "interval 90 days"}
        )
        freeze_all(table, shards("a"))
    (step,) = [step for (name, _), step in steps_of(table).items() if name == "set properties"]
    assert (step.of, step.state) == (
        "delta.checkpointInterval, delta.dataSkippingStatsColumns",
        State.DONE,
    )
    configuration = DeltaTable(table.folder.uri).metadata().configuration
    assert configuration["delta.logRetentionDuration"] == "interval 90 days"
    assert configuration["delta.dataSkippingStatsColumns"].split(",") == STATISTICS


@pytest.mark.parametrize(
    ("own", "missing"),
    [
        ({}, {"delta.logRetentionDuration", "delta.deletedFileRetentionDuration"}),
        ({"delta.logRetentionDuration": "interval 1 days"}, {"delta.deletedFileRetentionDuration"}),
        ({"delta.logRetentionDuration": "interval 7 days"}, set()),
        ({"delta.deletedFileRetentionDuration": "interval 30 days"}, set()),
    ],
)
def test_an_older_table_keeps_its_longer_history_retention(table, monkeypatch, own, missing):
    with monkeypatch.context() as older:
        older.setattr("kinesis_assets.table.table.TABLE_PROPERTIES", own)
        table.create_if_missing()
    missing_properties = Upkeep(table).missing_properties().keys()
    assert {name for name in missing_properties if "Retention" in name} == missing


def test_maintenance_writes_a_checkpoint_and_deletes_old_log_entries(busy):
    steps_of(busy)
    assert files_of(busy, "_delta_log/*.checkpoint.parquet")
    age_everything(busy, HISTORY_RETENTION + timedelta(hours=1))
    old = files_of(busy, "_delta_log/*.json")
    Attempt(busy, current_positions(busy), {"a": 3}).commit()
    before = current_positions(busy)
    steps_of(busy)
    assert len({*old} & {*files_of(busy, "_delta_log/*.json")}) <= 1
    assert current_positions(busy) == before
    assert_rows_are_what_positions_say(busy)


def test_recent_log_entries_are_kept(busy):
    entries = files_of(busy, "_delta_log/*.json")
    steps_of(busy)
    age_everything(busy, HISTORY_RETENTION - timedelta(hours=1))
    steps_of(busy)
    assert {*entries} <= {*files_of(busy, "_delta_log/*.json")}


def test_an_attempt_commits_after_the_log_entries_that_it_started_from_are_deleted(busy):
    attempt = Attempt(busy, current_positions(busy), {"a": 3})
    delete_old_log_entries(busy)
    assert attempt.commit().conflicts == {}
    assert_rows_are_what_positions_say(busy)


def test_an_attempt_finds_its_commit_after_the_log_entry_is_deleted(busy):
    attempt = Attempt(busy, current_positions(busy), {"a": 3})
    attempt.commit()
    delete_old_log_entries(busy)
    with pytest.raises(CommitFailed, match="already committed"):
        attempt.commit()
    assert_rows_are_what_positions_say(busy)


@pytest.mark.parametrize("moved", ["a", "b"])
def test_a_commit_based_on_a_version_before_deleted_log_entries_is_refused(busy, moved):
    snapshot, before = busy.snapshot(), current_positions(busy)
    Attempt(busy, before, {moved: 1}).commit()
    delete_old_log_entries(busy)
    now = current_positions(busy)
    with pytest.raises(DeltaError):
        snapshot.commit([], identity=STREAM, positions=msgspec.structs.replace(before, commit_id=new_id()))
    assert current_positions(busy) == now
    assert_rows_are_what_positions_say(busy)


# Vacuum


def test_vacuum_keeps_files_of_an_attempt_that_can_still_commit(busy):
    attempt = Attempt(busy, current_positions(busy), {"a": 3})
    age_everything(busy, 10 * VACUUM_RETENTION)
    for file in attempt.files:
        age(busy, file.path, VACUUM_RETENTION - timedelta(hours=1))
    steps_of(busy)
    assert attempt.commit().conflicts == {}
    assert_rows_are_what_positions_say(busy)


def test_vacuum_deletes_old_uncommitted_files(busy):
    (orphan,) = land(busy, new_id(), {"a": records(1, 3)})
    assert ("vacuum", "data files") not in steps_of(busy)
    age(busy, orphan.path, VACUUM_RETENTION + timedelta(hours=1))
    step = steps_of(busy)["vacuum", "data files"]
    assert (step.files, step.bytes) == (1, orphan.size)
    assert orphan.path not in files_of(busy)
    assert_rows_are_what_positions_say(busy)


def test_vacuum_keeps_old_files_that_were_just_removed_from_the_table(busy):
    before = files_of(busy)
    age_everything(busy, 10 * VACUUM_RETENTION)
    steps_of(busy)
    assert {*before} < {*files_of(busy)}


def test_vacuum_keeps_just_removed_files_after_the_log_entry_of_their_removal_is_deleted(busy):
    before = files_of(busy)
    steps_of(busy)
    age_everything(busy, 10 * VACUUM_RETENTION, "arrival_date=*/*")
    (compaction,) = [path for path in files_of(busy, "_delta_log/*.json") if '"remove"' in read(busy, path)]
    Attempt(busy, current_positions(busy), {"a": 1}).commit()
    assert compaction in delete_old_log_entries(busy)
    steps_of(busy)
    assert {*before} < {*files_of(busy)}


def test_vacuum_deletes_nothing_below_the_kinesis_folder(busy):
    unknown_file = folder_of(busy) / "_kinesis" / "arrival_date=2026-02-02" / "part.parquet"
    unknown_file.parent.mkdir()
    unknown_file.write_bytes(b"")
    age_everything(busy, 10 * VACUUM_RETENTION)
    before = files_of(busy, "_kinesis/**/*")
    Upkeep(busy).vacuum(dry_run=False)
    assert files_of(busy, "_kinesis/**/*") == before


@pytest.mark.parametrize(
    ("own", "kept"),
    [("interval 1 hours", 7), ("interval 5 seconds", 7), ("interval 2 weeks", 14), ("30 days", 30)],
)
def test_a_retention_of_deleted_files_set_on_the_table_applies_only_if_it_is_longer(busy, own, kept):
    DeltaTable(busy.folder.uri).alter.set_table_properties({"delta.deletedFileRetentionDuration": own})
    (orphan,) = land(busy, new_id(), {"a": records(1, 3)})
    age(busy, orphan.path, timedelta(days=kept, hours=-1))
    assert Upkeep(busy).vacuum(dry_run=True) == []
    age(busy, orphan.path, timedelta(days=kept, hours=1))
    assert Upkeep(busy).vacuum(dry_run=True) == [orphan.path]


@pytest.fixture
def without_tombstones(busy):
    """A compacted table whose log no longer has the tombstones, because of its own short retention."""
    shorter = {"delta.deletedFileRetentionDuration": "interval 1 seconds"}
    DeltaTable(busy.folder.uri).alter.set_table_properties(shorter)
    before = len(files_of(busy))
    (compacted,) = [step for (name, _), step in steps_of(busy).items() if name == "compact"]
    assert compacted.files == before
    deadline = time.monotonic() + 10
    while tombstones(busy):
        assert time.monotonic() < deadline
        Attempt(busy, current_positions(busy), {"b": 1}).commit()
        Upkeep(busy).checkpoint()
    return busy


def test_vacuum_keeps_files_without_tombstones_for_the_usual_retention(without_tombstones):
    busy = without_tombstones
    before, active = {*files_of(busy)}, {file.path for file in busy.snapshot().active_files()}
    age_everything(busy, VACUUM_RETENTION - timedelta(hours=1), "arrival_date=*/*")
    Upkeep(busy).vacuum(dry_run=False)
    assert {*files_of(busy)} == before > active
    age_everything(busy, VACUUM_RETENTION + timedelta(hours=1), "arrival_date=*/*")
    Upkeep(busy).vacuum(dry_run=False)
    assert {*files_of(busy)} == active


def test_a_vacuum_by_the_retention_of_the_table_keeps_files_that_can_still_be_committed(busy):
    """Spark's VACUUM uses that retention. This test uses the vacuum of delta-rs."""
    attempt = Attempt(busy, current_positions(busy), {"a": 3})
    for file in attempt.files:
        age(busy, file.path, 2 * MAX_ATTEMPT_AGE)
    DeltaTable(busy.folder.uri).vacuum(dry_run=False, full=True)
    assert attempt.commit().conflicts == {}
    assert_rows_are_what_positions_say(busy)
    (orphan,) = land(busy, new_id(), {"a": records(1, 3)})
    age(busy, orphan.path, HISTORY_RETENTION + timedelta(hours=1))
    assert DeltaTable(busy.folder.uri).vacuum(dry_run=True, full=True) == [orphan.path]


# Files below _kinesis/


def test_pruning_deletes_positions_superseded_long_ago(busy, in_days):
    commit_ids = [current_positions(busy).commit_id]
    while (previous := busy.snapshot().positions_at(commit_ids[-1]).previous) is not None:
        commit_ids.append(previous)
    assert not [key for key in steps_of(busy) if key[0] == "prune"]
    in_days(CHAIN_KEPT.days + 1)
    step = steps_of(busy)["prune", "_kinesis/positions"]
    assert step.files == len(commit_ids) - 2
    # The current positions and their base, which is the first file.
    kept = [f"_kinesis/positions/{commit_id}.json" for commit_id in (commit_ids[-1], commit_ids[0])]
    assert files_of(busy, "_kinesis/positions/*") == kept
    assert current_positions(PositionedTable(busy.uri)).commit_id == commit_ids[0]


@pytest.mark.parametrize(("name", "bound"), [("CHAIN_FILES", 3), ("CHAIN_BYTES", 2000)])
def test_positions_beyond_the_bound_are_pruned_if_no_attempt_needs_them(
    busy, in_days, monkeypatch, name, bound
):
    commit_ids = sorted(int(Path(path).stem) for path in files_of(busy, "_kinesis/positions/*"))
    sizes = [
        (folder_of(busy) / f"_kinesis/positions/{commit_id}.json").stat().st_size for commit_id in commit_ids
    ]
    monkeypatch.setattr(pruning, name, bound)
    assert not [key for key in steps_of(busy) if key[0] == "prune"]
    in_days(CHAIN_NEEDED.total_seconds() / DAY + 0.1)
    steps_of(busy)
    kept = [
        commit_id
        for commit_id in commit_ids
        if (folder_of(busy) / f"_kinesis/positions/{commit_id}.json").exists()
    ]
    # Those within the bound, and their predecessor.
    within = 3 if name == "CHAIN_FILES" else sum(sum(sizes[first:]) <= bound for first in range(len(sizes)))
    assert 0 < within < len(commit_ids) - 1
    assert kept == [commit_ids[0], *commit_ids[-within - 1 :]]  # the first is the base of all
    assert_rows_are_what_positions_say(PositionedTable(busy.uri))


def test_attempts_expire_before_the_positions_that_they_need_are_pruned():
    assert MAX_ATTEMPT_AGE + timedelta(hours=12) < CHAIN_NEEDED


def test_pruning_does_not_read_the_shards_of_pruned_positions(busy, in_days, monkeypatch):
    in_days(CHAIN_KEPT.days + 1)
    read = []
    original = TableSnapshot.positions_at
    monkeypatch.setattr(
        TableSnapshot,
        "positions_at",
        lambda snapshot, commit_id: read.append(commit_id) or original(snapshot, commit_id),
    )
    assert steps_of(busy)["prune", "_kinesis/positions"].files == 2 * SMALL_FILES - 1
    assert set(read) == {current_positions(busy).commit_id}


def test_pruning_keeps_the_positions_that_an_active_attempt_started_from(busy, in_days):
    """After a pause of the stream, a recent attempt starts from old positions, which are then superseded."""
    attempt = Attempt(busy, current_positions(busy), {"a": 3})
    clock = ShiftedClock()
    clock.advance(24 * (CHAIN_KEPT.days + 1))
    later = PositionedTable(busy.uri, replace(busy.policy, clock=clock))
    attempt_of_another = Attempt(later, current_positions(busy), {"b": 2}, batch_id=new_id(clock))
    assert attempt_of_another.commit().conflicts == {}
    in_days(CHAIN_KEPT.days + 1.5)
    assert steps_of(busy)["prune", "_kinesis/positions"].files > 0
    assert attempt.commit().conflicts == {}
    assert_rows_are_what_positions_say(busy)


def test_positions_of_a_failed_try_are_pruned(busy, in_days):
    failed = msgspec.structs.replace(
        current_positions(busy), commit_id=new_id(), previous=current_positions(busy).commit_id
    )
    commit_properties(busy, STREAM, failed, None)
    Attempt(busy, current_positions(busy), {"a": 3}).commit()
    in_days(CHAIN_KEPT.days + 1)
    steps_of(busy)
    assert f"_kinesis/positions/{failed.commit_id}.json" not in files_of(busy, "_kinesis/positions/*")


def test_pruning_keeps_positions_of_another_stream(busy, in_days):
    other = msgspec.structs.replace(STREAM, arn=f"{STREAM.arn}-other")
    elsewhere = PositionedTable(f"{busy.uri}-other")
    path = f"_kinesis/positions/{freeze_all(elsewhere, shards('x'), identity=other).commit_id}.json"
    shutil.copy(Path(elsewhere.uri, path), Path(busy.uri, path))
    Attempt(busy, current_positions(busy), {"a": 3}).commit()
    in_days(CHAIN_KEPT.days + 1)
    steps_of(busy)
    assert path in files_of(busy, "_kinesis/positions/*")


def test_pruning_keeps_the_newest_amendment_and_its_floor(frozen, in_days):
    for number in range(1, 4):
        entry = new_amendment(floor=date(2026, 1, number))
        newest = amendment(frozen)
        entry = msgspec.structs.replace(entry, previous=newest and newest.commit_id)
        frozen.snapshot().commit([], identity=STREAM, amendment=entry)
    in_days(CHAIN_KEPT.days + 1)
    assert steps_of(frozen)["prune", "_kinesis/past"].files == 2
    assert files_of(frozen, "_kinesis/past/*") == [f"_kinesis/past/{entry.commit_id}.json"]
    assert amendment(frozen).floor == date(2026, 1, 3)
    assert ("prune", "_kinesis/past") not in steps_of(frozen)
    with pytest.raises(PositionsUnreadable):
        PositionedTable(frozen.uri).snapshot().amendment_at(entry.previous)


def test_stop_markers_are_deleted_after_a_day(frozen):
    old, young = new_id(), new_id()
    for batch_id in (old, young):
        StopMarker(frozen.folder, batch_id).set()
    age(frozen, f"{STOP_MARKERS_FOLDER}/{old}", timedelta(hours=25))
    age(frozen, f"{STOP_MARKERS_FOLDER}/{young}", timedelta(hours=23))
    assert steps_of(frozen)["prune", STOP_MARKERS_FOLDER].files == 1
    assert files_of(frozen, f"{STOP_MARKERS_FOLDER}/*") == [f"{STOP_MARKERS_FOLDER}/{young}"]


def test_heartbeats_of_dead_runs_are_deleted_after_a_day(frozen):
    for run_id in ("old", "young"):
        Heartbeat(frozen, run_id, seconds=60)._beat()
    age(frozen, f"{HEARTBEATS_FOLDER}/old", timedelta(hours=25))
    age(frozen, f"{HEARTBEATS_FOLDER}/young", timedelta(hours=23))
    assert steps_of(frozen)["prune", HEARTBEATS_FOLDER].files == 1
    assert files_of(frozen, f"{HEARTBEATS_FOLDER}/*") == [f"{HEARTBEATS_FOLDER}/young"]


# Retention of rows


@pytest.mark.usefixtures("today")
class TestRetention:
    @pytest.fixture
    def aged(self, frozen):
        """A table with rows from today and from 5, 6 and 30 days ago."""
        for days_ago in (30, 6, 5, 0):
            arrive(frozen, days_ago)
        return frozen

    def test_without_retention_no_row_expires_and_no_amendment_is_written(self, aged):
        steps_of(aged)
        assert days_in(aged) == {day(30), day(6), day(5), day(0)}
        assert amendment(aged) is None

    def test_expired_rows_are_deleted_and_the_floor_is_recorded(self, aged):
        before = current_positions(aged)
        step = steps_of(aged, retention_days=5, by="night")["expire", f"before {day(5)}"]
        assert (step.state, step.rows, step.files) == (State.DONE, 4, 2)
        assert days_in(aged) == {day(5), day(0)}
        assert (amendment(aged).floor.isoformat(), amendment(aged).by) == (day(5), "night")
        assert current_positions(aged) == before
        assert rows_by_shard(aged) == {"a": [5, 6, 7, 8]}

    def test_a_second_run_on_the_same_day_expires_nothing(self, aged):
        steps_of(aged, retention_days=5)
        entry = amendment(aged)
        assert {step for step, _ in steps_of(aged, retention_days=5)} == {"checkpoint"}
        assert amendment(aged) == entry

    def test_the_floor_is_raised_even_if_no_row_expires(self, aged):
        version = DeltaTable(aged.folder.uri).version()
        step = steps_of(aged, retention_days=90)["expire", f"before {day(90)}"]
        assert (step.rows, step.files) == (0, 0)
        assert amendment(aged).floor.isoformat() == day(90)
        assert DeltaTable(aged.folder.uri).version() == version + 1

    def test_a_longer_retention_does_not_lower_the_floor(self, aged):
        steps_of(aged, retention_days=5)
        entry = amendment(aged)
        steps_of(aged, retention_days=90)
        assert amendment(aged) == entry

    def test_rows_that_are_ingested_below_the_floor_expire_in_the_next_run(self, aged):
        steps_of(aged, retention_days=5)
        arrive(aged, 8, "b")
        assert steps_of(aged, retention_days=5)["expire", f"before {day(5)}"].rows == 2
        assert days_in(aged) == {day(5), day(0)}

    def test_expiry_extends_the_chain_of_amendments(self, aged):
        entry = new_amendment()
        aged.snapshot().commit([], identity=STREAM, amendment=entry)
        steps_of(aged, retention_days=5)
        assert amendment(aged).previous == entry.commit_id

    @pytest.mark.parametrize("retention_days", [5, 90])
    def test_expiry_restarts_after_a_concurrent_replay(self, aged, monkeypatch, retention_days):
        entry = new_amendment()
        name = "remove" if retention_days == 5 else "commit"
        original = getattr(TableSnapshot, name)
        refused = []

        def overtaken(snapshot, *given, amendment, **named):
            if not refused:
                refused.append(amendment.commit_id)
                original_commit(aged.snapshot(), [], identity=STREAM, amendment=entry)
            return original(snapshot, *given, amendment=amendment, **named)

        original_commit = TableSnapshot.commit
        monkeypatch.setattr(TableSnapshot, name, overtaken)
        steps_of(aged, retention_days=retention_days)
        assert refused
        assert (amendment(aged).previous, amendment(aged).floor.isoformat()) == (
            entry.commit_id,
            day(retention_days),
        )

    def test_a_replay_started_before_an_expiry_is_refused(self, aged):
        before = aged.snapshot()
        steps_of(aged, retention_days=5)
        with pytest.raises(CommitOvertaken):
            before.commit([], identity=STREAM, amendment=new_amendment())

    def test_an_expiry_whose_response_is_lost_succeeds(self, aged, monkeypatch):
        original = TableSnapshot.remove
        calls = []

        def lost(snapshot, *given, **named):
            original(snapshot, *given, **named)
            calls.append(1)
            raise OSError("connection reset")

        monkeypatch.setattr(TableSnapshot, "remove", lost)
        step = steps_of(aged, retention_days=5)["expire", f"before {day(5)}"]
        assert (step.rows, len(calls)) == (4, 1)
        assert amendment(aged).previous is None

    def test_a_run_that_wrote_its_files_before_an_expiry_commits_after_it(self, aged):
        attempt = Attempt(aged, current_positions(aged), {"b": 3})
        steps_of(aged, retention_days=5)
        assert attempt.commit().conflicts == {}
        assert rows_by_shard(aged)["b"] == [1, 2, 3]

    def test_expiry_fails_after_a_bounded_number_of_tries(self, aged, monkeypatch):
        def refused(*_, **__):
            raise OSError("connection refused")

        monkeypatch.setattr(TableSnapshot, "remove", refused)
        with pytest.raises(CommitFailed, match="connection refused"):
            steps_of(aged, retention_days=5)
        assert amendment(aged) is None


def test_files_rewritten_by_a_delete_have_the_encoding_and_statistics_of_ingested_files(busy):
    """A rewind rewrites the remaining rows of a file."""
    predicate = "shard_id = 'a' AND sequence_number = '1'"
    busy.snapshot().remove(predicate, identity=STREAM, amendment=new_amendment())
    newest = max(folder_of(busy).glob("arrival_date=*/*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    footer = pq.read_metadata(newest).row_group(0)
    columns = [footer.column(index) for index in range(footer.num_columns)]
    assert {column.compression for column in columns} == {"ZSTD"}
    assert {column.path_in_schema for column in columns if column.is_stats_set} == {*STATISTICS}


def test_delta_transaction_identifiers_do_not_prevent_concurrent_compactions(busy):
    """This is why each compaction marks the table. When this fails, a transaction identifier suffices."""
    first, second = DeltaTable(busy.folder.uri), DeltaTable(busy.folder.uri)
    for delta in (first, second):
        fence = CommitProperties(app_transactions=[Transaction("compaction", new_id())])
        delta.optimize.compact(commit_properties=fence)
    assert len(rows_by_shard(busy)["a"]) == 2 * len({*rows_by_shard(busy)["a"]})


def test_a_table_is_opened_by_its_path_and_by_its_uri(busy):
    assert steps_of(PositionedTable(busy.folder.uri)).keys() == {
        ("compact", "2026-02-02"),
        ("checkpoint", "_delta_log"),
    }
