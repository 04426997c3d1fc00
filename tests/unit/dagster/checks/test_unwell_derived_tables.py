"""Each way in which a derived table can be wrong or stuck, and the checks that are red because of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets import new_rows
from kinesis_assets.dagster.checks.derived_evaluation import (
    DerivedEvaluation,
    DerivedProgress,
    DerivedState,
)
from kinesis_assets.dagster.checks.in_run import evaluated_derived
from kinesis_assets.dagster.sensor import sensor_cursor
from kinesis_assets.dagster.settings.check_settings import DerivedChecks
from kinesis_assets.derive.commit import Attempt, commit
from kinesis_assets.derive.commit_entry import Definition, Kind, entry_path
from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.derive.data_files import RecordCounts
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.policy import DeletedRows, Deletion, OnDeleted
from kinesis_assets.derive.rebuild import rebuild, take_over
from kinesis_assets.table.commit_ids import new_id, time_of_id
from kinesis_assets.table.maintenance.retention import expire
from support.checked_tables import changed, checked_table
from support.plain_derived import PlainDerived
from support.table_folder import folder_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.bench import Bench

pytestmark = pytest.mark.slow

CHECKS = {"compaction_debt": {"max_small_files": 3}, "bad_records": {"max_share": 0.1}}


class Table:
    """A derived table that has consumed records 1 and 2 of a raw table.

    Attributes:
        bench: The raw table.
        changes: The fields in which its definition differs.
        seconds: Seconds since the newest commit of the raw table.
    """

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench, self.folder = bench, folder
        bench.create()
        bench.set_retention(hours=1000)
        self.land(1, 2)
        cursor = new_rows(bench.table.uri).cursor
        self.derived = PlainDerived(folder / "derived", source=cursor.source)
        self.derived.append((1, 0, "a"), (2, 0, "a"), cursor=cursor, consumed=2)
        self.changes: dict[str, Any] = {}
        self.seconds = 0.0
        self.progress = DerivedProgress()

    def land(self, *items: int) -> None:
        self.bench.put(*items)
        self.bench.run()

    def commit(self, **fields: Any) -> None:
        """Make a commit without rows."""
        newest = self.derived.table.snapshot().newest
        assert newest is not None
        defaults = {"cursor": newest.cursor, "consumed": newest.consumed, "batch_id": new_id()}
        commit(self.derived.table, Attempt(**defaults | fields), expected=newest.commit_id)

    def red(self, on_deleted: OnDeleted) -> set[str]:
        """Return the checks that are red."""
        table = checked_table(
            "derived", self.derived.table.uri, self.bench.table.uri, DerivedChecks.parse(CHECKS)
        )
        table = changed(table, on_deleted=on_deleted, **self.changes)
        now = time_of_id(self.bench.positions.commit_id) + self.seconds
        evaluation = DerivedEvaluation(table, DerivedState.of(table), self.progress, now)
        self.progress = evaluation.progress
        return {result.name for result in evaluation.results if not result.passed}


def nothing(table: Table) -> None:
    assert table.derived.rows


# What happens to its source


def rewind(table: Table) -> None:
    """An operator has set the position back, and the next run has read again."""
    table.bench.seek("TRIM_HORIZON")
    table.bench.run()


def expire_unread(table: Table) -> None:
    table.land(3)
    table.bench.later(days=3)
    identity = table.bench.positions.identity
    list(expire(table.bench.table, identity, table.bench.now.date() - timedelta(days=1), table.bench.now))


def add_again(table: Table) -> None:
    """Another program has deleted rows that were consumed, and a replay has added them again."""
    table.bench.delta.delete("TRUE")
    table.bench.replay()


def delete_unread(table: Table) -> None:
    table.land(3, 4)
    table.bench.delta.delete("data = CAST('4' AS BYTEA)")


def duplicate_unread(table: Table) -> None:
    table.land(3)
    rows = DeltaTable(table.bench.table.uri).to_pyarrow_table()
    write_deltalake(table.bench.table.uri, rows, mode="append")


def restore_source(table: Table) -> None:
    DeltaTable(table.bench.table.uri).restore(0)


def lose_source(table: Table) -> None:
    table.changes = {"source": str(table.folder / "gone")}


def prune_source(table: Table) -> None:
    """The commits since the table's position are no longer recorded."""
    source = new_rows(table.bench.table.uri).cursor.source
    table.commit(cursor=Cursor(source=source, commit=1), consumed=0)


def change_source(table: Table) -> None:
    table.changes = {"source": PlainDerived(table.folder / "other").table.uri}


# What happens to the table


def restore(table: Table) -> None:
    DeltaTable(table.derived.table.uri).restore(0)


def copy_without_position(table: Table) -> None:
    original, copy = DeltaTable(table.derived.table.uri), str(table.folder / "copy")
    write_deltalake(copy, original.to_pyarrow_table())
    properties = original.metadata().configuration
    DeltaTable(copy).alter.set_table_properties(properties, raise_if_not_exists=False)
    table.changes = {"uri": copy}


def lose_record(table: Table) -> None:
    newest = table.derived.table.snapshot().newest
    assert newest is not None
    (folder_of(table.derived.table) / entry_path(newest.commit_id)).unlink()


def change_owner(table: Table) -> None:
    table.commit(definition=Definition(owner="another", kind=Kind.APPEND))


def change_key(table: Table) -> None:
    """The settings have a key now, although the rows were appended."""
    table.commit(definition=Definition(owner="derived", kind=Kind.APPEND))
    assert table.red(OnDeleted.FAIL) == set()
    table.changes = {"unique": ("key",)}


def change_groups(table: Table) -> None:
    table.commit(definition=Definition(owner="derived", kind=Kind.ROLLUP, key=("part",)))
    table.changes = {"groups": ("part",)}
    assert table.red(OnDeleted.FAIL) == set()
    table.changes = {"groups": ("part", "key")}


def change_partitions(table: Table) -> None:
    table.changes = {"partition_by": ()}


# What its runs do, or do not


def stop(table: Table) -> None:
    """No run consumes what has landed."""
    table.land(3)
    table.seconds = 1000.0


def fail_runs(table: Table) -> None:
    """The function of the table fails, or a group of a roll-up cannot be computed any more."""
    table.land(3)
    table.progress = msgspec.structs.replace(table.progress, failing="its last run failed")


def fail_once(table: Table) -> None:
    """The run failed after it had consumed all rows."""
    table.progress = msgspec.structs.replace(table.progress, failing="its last run failed")


def give_up(table: Table) -> None:
    lost = DeletedRows(deletion=Deletion.EXPIRED, rows=3)
    table.commit(on_deleted=OnDeleted.IGNORE, given_up=(lost,))


def decode_badly(table: Table) -> None:
    cursor = new_rows(table.bench.table.uri).cursor
    table.derived.append((3, 0, "a"), cursor=cursor, counts=RecordCounts(9, 1))


def write_small_files(table: Table) -> None:
    for part in "bcd":
        table.derived.append((3, 0, part), cursor=new_rows(table.bench.table.uri).cursor)


CONTINUITY = {"continuity"}

WAYS: dict[Callable[[Table], None], tuple[set[str], set[str], set[str]]] = {
    nothing: (set(), set(), set()),
    rewind: (CONTINUITY, set(), set()),
    expire_unread: (CONTINUITY, set(), CONTINUITY),  # what was consumed has expired too
    add_again: (CONTINUITY, set(), set()),
    delete_unread: (CONTINUITY, CONTINUITY, set()),
    duplicate_unread: (CONTINUITY, CONTINUITY, CONTINUITY),
    restore_source: (CONTINUITY, CONTINUITY, CONTINUITY),
    lose_source: (CONTINUITY, CONTINUITY, CONTINUITY),
    prune_source: (CONTINUITY, CONTINUITY, set()),
    change_source: (CONTINUITY, CONTINUITY, CONTINUITY),
    restore: (CONTINUITY, CONTINUITY, set()),
    copy_without_position: (CONTINUITY, CONTINUITY, CONTINUITY),
    lose_record: (CONTINUITY, CONTINUITY, CONTINUITY),
    change_owner: (CONTINUITY, CONTINUITY, CONTINUITY),
    change_key: (CONTINUITY, CONTINUITY, CONTINUITY),
    change_groups: (CONTINUITY, CONTINUITY, CONTINUITY),
    change_partitions: (CONTINUITY, CONTINUITY, CONTINUITY),
    stop: ({"lag"}, {"lag"}, {"lag"}),
    fail_runs: (CONTINUITY, CONTINUITY, CONTINUITY),
    fail_once: (set(), set(), set()),
    give_up: ({"no_accepted_data_loss"}, {"no_accepted_data_loss"}, {"no_accepted_data_loss"}),
    decode_badly: ({"bad_records"}, {"bad_records"}, {"bad_records"}),
    write_small_files: ({"compaction_debt"}, {"compaction_debt"}, {"compaction_debt"}),
}
"""The checks that are red, by what has happened: with on_deleted `fail`, `ignore` and `rebuild`."""


@pytest.mark.parametrize(("happen", "red"), WAYS.items(), ids=[way.__name__ for way in WAYS])
def test_what_is_wrong_turns_its_check_red(bench_of_today, tmp_path, happen, red):
    table = Table(bench_of_today, tmp_path)
    happen(table)
    for _ in range(2):  # also if nothing is read again
        assert tuple(map(table.red, OnDeleted)) == red


@pytest.mark.parametrize("happen", [rewind, expire_unread, add_again, restore, lose_record, prune_source])
def test_a_rebuild_as_the_check_advises_turns_it_green(bench_of_today, tmp_path, happen):
    table = Table(bench_of_today, tmp_path)
    happen(table)
    assert table.red(OnDeleted.FAIL) == CONTINUITY
    source, definition = open_source(table.bench.table.uri), Definition(owner="derived", kind=Kind.APPEND)
    rebuild(table.derived.table, source, definition, ["part"], by="ann", apply=True)
    assert table.red(OnDeleted.FAIL) == set()


def test_a_table_that_was_renamed_is_green_once_its_asset_has_taken_it_over(bench_of_today, tmp_path):
    table = Table(bench_of_today, tmp_path)
    change_owner(table)
    assert table.red(OnDeleted.FAIL) == CONTINUITY
    take_over(table.derived.table, Definition(owner="derived", kind=Kind.APPEND), by="ann", apply=True)
    assert table.red(OnDeleted.FAIL) == set()


def test_a_table_whose_cause_is_gone_is_green_at_once(bench_of_today, tmp_path):
    table = Table(bench_of_today, tmp_path)
    rewind(table)
    assert table.red(OnDeleted.FAIL) == CONTINUITY
    table.commit(cursor=new_rows(table.bench.table.uri).cursor)  # as a run with on_deleted: ignore does
    assert table.red(OnDeleted.FAIL) == set()


@pytest.mark.parametrize(("ticked_ago", "passed"), [(60, False), (7200, True)])
def test_an_execution_of_the_checks_leaves_out_a_failed_run_that_a_sensor_found_that_has_stopped(
    bench_of_today, tmp_path, monkeypatch, ticked_ago, passed
):
    table = Table(bench_of_today, tmp_path)
    table.land(3)
    now = time_of_id(table.bench.positions.commit_id)
    known = DerivedProgress(at=now - ticked_ago, failing="its last run failed")
    memory = sensor_cursor.Cursor(derived_checks={"derived": known})
    # An instance in memory does not store the states of sensors.
    monkeypatch.setattr(sensor_cursor, "sensor_cursors", lambda *_: [memory.encode()])
    checked = checked_table("derived", table.derived.table.uri, table.bench.table.uri)
    found = {each.name: each.passed for each in evaluated_derived(None, checked, now, None)}
    assert found["continuity"] == passed
