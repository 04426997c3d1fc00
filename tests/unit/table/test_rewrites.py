"""Rewritten tables: runs, attempts and maintenance detect that a table was restored or overwritten."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.errors import TableRewritten, TableUnreachable
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions.amendments import amendment_path
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.rewrites import refuse_rewritten
from kinesis_assets.table.snapshot import TableSnapshot
from support.amendments import commit_amendment
from support.attempts import STREAM, Attempt, current_positions, freeze_all, rows_by_shard, shards
from support.maintained_table import ARRIVED, steps_of
from support.table_folder import copy_table
from support.timing import WRITING


@pytest.fixture(scope="module")
def original_filled(tmp_path_factory):
    table = PositionedTable(str(tmp_path_factory.mktemp("filled") / "table"), WRITING)
    freeze_all(table, shards("a"))
    for _ in range(2):
        Attempt(table, current_positions(table), {"a": 3}).commit()
    return table


@pytest.fixture
def filled(original_filled, table):
    """The table with two commits of rows of a shard."""
    return copy_table(original_filled, table)


def delta(table):
    return DeltaTable(table.uri)


def examine(table):
    """Check the table as a run does before it reads."""
    table = PositionedTable(table.uri)
    snapshot = table.snapshot()
    positions = snapshot.positions(STREAM)
    assert positions is not None
    refuse_rewritten(table, snapshot, positions)


def restore(table, back=1):
    delta(table).restore(delta(table).version() - back)


def accept(table):
    """Accept the newest rewrite of the table."""
    commit_amendment(table, accepted=table.snapshot().version)


def follow(table, before, examined):
    """Commit positions that follow others, with the version up to which they checked the table."""
    following = msgspec.structs.replace(
        before, commit_id=new_id(), previous=before.commit_id, batch_id=new_id(), examined=examined
    )
    table.snapshot().commit([], identity=STREAM, positions=following)


def overwrite(table):
    write_deltalake(table.uri, delta(table).to_pyarrow_table(), mode="overwrite")


@pytest.mark.parametrize("rewrite", [restore, overwrite])
def test_a_run_is_refused_with_the_version_and_the_commands_to_continue(filled, rewrite):
    rewrite(filled)
    with pytest.raises(TableRewritten) as caught:
        examine(filled)
    version = delta(filled).version()
    assert f"version {version} (" in str(caught.value)
    assert "kinesis-assets replay" in str(caught.value)
    assert "kinesis-assets adopt" in str(caught.value)


def test_a_log_entry_that_is_not_utf_8_raises_table_unreachable(filled):
    positions = current_positions(filled)
    restore(filled)
    table = PositionedTable(filled.uri)
    snapshot = table.snapshot()
    entry = Path(filled.uri, "_delta_log", f"{snapshot.version:020}.json")
    entry.write_bytes(entry.read_bytes().replace(b'"operation":"', b'"operation":"\xff', 1))
    with pytest.raises(TableUnreachable, match=f"version {snapshot.version} of its log"):
        refuse_rewritten(table, snapshot, positions)


def test_an_attempt_started_before_a_restore_commits_nothing(filled):
    attempt = Attempt(filled, current_positions(filled), {"a": 3})
    restore(filled)
    before = rows_by_shard(filled)
    with pytest.raises(TableRewritten):
        attempt.commit()
    assert rows_by_shard(filled) == before == {"a": [1, 2, 3]}


def test_an_attempt_commits_nothing_if_the_table_is_restored_during_its_commit(filled, monkeypatch):
    attempt = Attempt(filled, current_positions(filled), {"a": 3})
    commit = TableSnapshot.commit

    def restore_first(snapshot, files, **rest):
        restore(filled)
        commit(snapshot, files, **rest)

    monkeypatch.setattr(TableSnapshot, "commit", restore_first)
    with pytest.raises(TableRewritten):
        attempt.commit()
    assert rows_by_shard(filled) == {"a": [1, 2, 3]}


def test_a_rewrite_below_a_commit_is_detected_by_the_next_run(filled):
    """The commit missed the rewrite because it landed after the commit had read the log."""
    stale = current_positions(filled)
    restore(filled)
    follow(filled, stale, examined=filled.snapshot().version - 1)
    with pytest.raises(TableRewritten):
        examine(filled)


def test_positions_of_an_older_format_are_checked_from_their_own_commit(filled):
    restore(filled)
    follow(filled, current_positions(filled), examined=None)
    examine(filled)
    overwrite(filled)
    with pytest.raises(TableRewritten):
        examine(filled)


def test_an_accepted_rewrite_is_valid_until_the_next_restore(filled):
    restore(filled)
    accept(filled)
    examine(filled)
    Attempt(filled, current_positions(filled), {"a": 3}).commit()
    restore(filled)
    with pytest.raises(TableRewritten):
        examine(filled)


def test_other_changes_of_a_table_are_not_rewrites(filled):
    write_deltalake(filled.uri, delta(filled).to_pyarrow_table().slice(0, 1), mode="append")
    delta(filled).delete("sequence_number = '1'")
    delta(filled).optimize.compact()
    delta(filled).alter.set_table_properties({"note": "1"}, raise_if_not_exists=False)
    steps_of(filled, retention_days=36500)
    examine(filled)


@pytest.mark.parametrize("dry_run", [False, True])
def test_maintenance_of_a_restored_table_deletes_nothing(filled, dry_run):
    restore(filled)
    version = delta(filled).version()
    with pytest.raises(TableRewritten):
        steps_of(filled, retention_days=1, dry_run=dry_run)
    assert delta(filled).version() == version
    accept(filled)
    steps_of(filled, dry_run=dry_run)


# Log entries deleted by another engine


def delete_entries(table):
    """Delete the log except a checkpoint and a newest entry, in which another engine sets a property."""
    properties = {"delta.appendOnly": "false"}
    delta(table).alter.set_table_properties(properties)
    delta(table).create_checkpoint()
    for entry in sorted(Path(table.uri, "_delta_log").glob("0*[0-9].json"))[:-1]:
        entry.unlink()


def test_deleted_log_entries_are_ignored_if_the_newest_rows_exist(filled):
    delete_entries(filled)
    examine(filled)
    delta(filled).optimize.compact()
    delete_entries(filled)
    examine(filled)


@pytest.mark.parametrize("back", [1, 2])
def test_a_restore_whose_log_entry_was_deleted_is_detected_by_the_missing_rows(filled, back):
    restore(filled, back)
    restored = delta(filled).version()
    delete_entries(filled)
    with pytest.raises(TableRewritten, match=rf"version {restored} "):
        examine(filled)
    with pytest.raises(TableRewritten):
        Attempt(filled, current_positions(filled), {"a": 3}).commit()
    with pytest.raises(TableRewritten):
        steps_of(filled)


def test_a_restore_is_detected_behind_commits_without_rows(filled):
    before = delta(filled).version() - 1
    for _ in range(3):
        Attempt(filled, current_positions(filled), {"a": 0}).commit()
    delta(filled).restore(before)
    delete_entries(filled)
    with pytest.raises(TableRewritten):
        examine(filled)


def test_runs_continue_after_such_a_restore_is_accepted(filled):
    restore(filled)
    delete_entries(filled)
    accept(filled)
    examine(filled)
    delete_entries(filled)
    examine(filled)
    Attempt(filled, current_positions(filled), {"a": 3}).commit()
    examine(filled)


def test_rows_deleted_by_a_seek_are_not_reported_as_missing(filled):
    delta(filled).delete("sequence_number >= '4'")
    commit_amendment(filled, rewound=("a",))
    delete_entries(filled)
    examine(filled)


def test_rows_deleted_by_a_seek_whose_amendment_was_pruned_are_not_reported_as_missing(filled):
    delta(filled).delete("sequence_number >= '4'")
    seek = commit_amendment(filled, rewound=("a",))
    for _ in range(2):
        commit_amendment(filled)
    Path(filled.uri, amendment_path(seek.commit_id)).unlink()
    delete_entries(filled)
    examine(filled)


@pytest.mark.parametrize(("days", "lowered"), [(0, True), (1, True), (1, False)])
def test_expired_rows_are_not_reported_as_missing(table, days, lowered):
    freeze_all(table, shards("a"))
    floor = ARRIVED.date() + timedelta(days=days)
    commit_amendment(table, floor=floor)
    attempt = Attempt(table, current_positions(table), {"a": 3})
    attempt.moved["a"] = msgspec.structs.replace(attempt.moved["a"], last_arrival=ARRIVED)
    attempt.commit()
    delta(table).delete()
    if lowered:
        commit_amendment(table, floor=floor - timedelta(days=5), lowered_from=floor)
    delete_entries(table)
    if days:
        examine(table)
    else:
        with pytest.raises(TableRewritten):
            examine(table)


@pytest.mark.parametrize("first", ["1", "4"])
def test_rows_may_be_in_files_without_statistics(filled, first):
    rows = delta(filled).to_pyarrow_table(filters=[("sequence_number", ">=", first)])
    delta(filled).delete(f"sequence_number >= '{first}'")
    write_deltalake(filled.uri, rows, mode="append")
    entry = Path(filled.uri, "_delta_log", f"{delta(filled).version():020}.json")
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    entry.write_text("\n".join(map(json.dumps, actions)))
    delete_entries(filled)
    examine(filled)


def test_a_plan_and_its_commit_read_each_log_entry_once(filled, monkeypatch):
    read = []
    entry = filled.format.rewrites._entry
    monkeypatch.setattr(
        filled.format.rewrites, "_entry", lambda version: read.append(version) or entry(version)
    )
    snapshot = filled.snapshot()
    positions = snapshot.positions(STREAM)
    refuse_rewritten(filled, snapshot, positions)
    Attempt(filled, positions, {"a": 3}).commit()
    assert read == [delta(filled).version() - 1]


@pytest.mark.parametrize(
    "written",
    [
        {"timestamp": 1_770_033_600_000_000},
        {"timestamp": -(1 << 62)},
        {"timestamp": 1_770_033_600_000.5},
        {"timestamp": "2026-02-02 12:00:00"},
        {"timestamp": None, "operation": None},
        {"operation": "WRITE", "operationParameters": None},
        {"operation": "WRITE", "operationParameters": {"mode": None}},
        {"operation": "WRITE", "operationParameters": "Append"},
        {"operation": 7},
    ],
    ids=str,
)
def test_unexpected_commit_info_of_another_writer_does_not_fail_a_run(filled, written):
    log = Path(filled.uri, "_delta_log", f"{delta(filled).version() + 1:020}.json")
    log.write_bytes(msgspec.json.encode({"commitInfo": written}) + b"\n\n")
    examine(filled)
    Attempt(filled, current_positions(filled), {"a": 3}).commit()
    assert rows_by_shard(filled) == {"a": [*range(1, 10)]}
    snapshot = filled.snapshot()
    assert snapshot.version_of(current_positions(filled).commit_id) == snapshot.version


def test_rows_may_be_in_a_table_without_statistics(filled):
    rows = delta(filled).to_pyarrow_table()
    columns = {"delta.dataSkippingStatsColumns": "stream"}
    delta(filled).alter.set_table_properties(columns)
    delta(filled).delete()
    write_deltalake(filled.uri, rows, mode="append")
    delete_entries(filled)
    examine(filled)
