"""Retention of derived tables: which rows expire, and what tables below make of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from math import inf

import pytest

from kinesis_assets import new_rows
from kinesis_assets.derive import data_files
from kinesis_assets.derive import expiry as expiry_module
from kinesis_assets.derive.commit_entry import Floor
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.derived_table import DerivedTable, refuse_rewritten
from kinesis_assets.derive.losses import lost_rows
from kinesis_assets.errors import ClocksDisagree, TableUnsuitable
from kinesis_assets.table.maintenance.steps import State
from support.dated import TODAY, Dated, ago
from support.shifted_clock import ShiftedClock
from support.timing import WRITING

pytestmark = pytest.mark.slow


@pytest.fixture
def dated(tmp_path):
    """Return a function that creates a table."""

    def build(*partition_by: str) -> Dated:
        return Dated.create(tmp_path / "dated", *partition_by)

    return build


@pytest.mark.parametrize("column", ["day", "at", "local"])
def test_rows_before_the_first_date_that_is_kept_are_deleted_and_nulls_and_the_future_stay(dated, column):
    table = dated()
    table.append((1, 91), (2, 90.4), (3, 89), (4, None), (5, -1000))
    table.append((6, 1000))
    table.append((8, 0), (9, None))
    table.append((10, 90.4))
    table.append((11, None))
    table.append((12, 91), (13, None))
    table.append((14, 91))
    table.append((15, 91), (16, 90.4))
    steps = table.expire(column)
    assert [(step.rows, step.files) for step in steps] == [(2, 2), (3, 3)]
    assert table.keys == [2, 3, 4, 5, 8, 9, 10, 11, 13, 16]
    assert table.table.snapshot().newest.floor == Floor(column, TODAY - timedelta(days=90), 5)
    assert table.expire(column) == []


@pytest.mark.parametrize("column", ["day", "at", "local"])
def test_rows_expire_by_the_dates_in_the_footers_of_files_whose_bounds_are_not_in_the_log(
    dated, column, monkeypatch
):
    monkeypatch.setattr(data_files, "_LONGEST_BOUND", inf)  # as in earlier releases
    table = dated()
    table.note = "a" * 5000
    table.append((1, 91))
    table.append((2, 0))
    before = table.files
    assert [(step.rows, step.files) for step in table.expire(column)] == [(1, 1)]
    assert (table.keys, table.expire(column)) == ([2], [])
    assert table.files < before


def test_whole_partitions_are_removed_without_writing_a_file(dated):
    table = dated("day")
    table.append((1, 91), (2, 89), (3, None))
    before = table.files
    (step,) = table.expire()
    assert (step.rows, step.files, table.keys) == (1, 1, [2, 3])
    assert table.files < before


def test_files_of_each_partition_are_written_again_in_commits_of_their_own(dated):
    table = dated("key")
    table.append((1, 91), (1, 0), (2, 91), (2, 0))
    steps = table.expire()
    assert [(step.of.partition(" in ")[2], step.rows) for step in steps] == [("key=1", 1), ("key=2", 1)]
    assert table.keys == [1, 2]


@pytest.mark.parametrize(("service", "machine"), [(0, 1000), (1000, 0)])
def test_nothing_is_deleted_by_a_clock_that_another_one_does_not_confirm(dated, service, machine):
    table = dated()
    table.append((1, 0))
    with pytest.raises(ClocksDisagree):
        table.expire(service=ago(-service), machine=ago(-machine))
    assert table.keys == [1]


def test_a_dry_run_deletes_nothing(dated):
    table = dated()
    table.append((1, 91))
    table.append((2, 91), (3, 0))
    assert [step.state for step in table.expire(dry_run=True)] == [State.PLANNED] * 2
    assert table.keys == [1, 2, 3]


@pytest.mark.parametrize("column", ["no_column", "key"])
def test_a_column_without_dates_is_refused(dated, column):
    table = dated()
    table.append((1, 91))
    with pytest.raises(TableUnsuitable, match=rf"retention_column: {column}.*no row was deleted"):
        table.expire(column)
    assert table.keys == [1]


def test_rows_that_expire_leave_the_position_and_are_no_sign_of_a_restore(dated):
    table = dated()
    before = table.append((1, 91), (2, 0))
    table.expire()
    newest = table.table.snapshot().newest
    assert (newest.cursor, newest.deleted, newest.rows, newest.maintains) == (before.cursor, 1, 0, True)
    refuse_rewritten(table.table.snapshot())


def test_a_step_that_appends_lands_although_rows_expired_meanwhile(dated):
    table = dated()
    table.append((1, 91))
    step = table.planned((2, 0))
    table.expire()
    step()
    assert table.keys == [2]
    assert table.table.snapshot().newest.floor.rows == 1


def test_rows_expire_although_a_step_appends_meanwhile(dated, when):
    table = dated()
    table.append((1, 91), (2, 0))
    when(expiry_module, "commit", lambda: table.append((3, 0)))
    (step,) = table.expire()
    assert (step.state, table.keys) == (State.DONE, [2, 3])


def test_rows_are_left_if_their_files_are_replaced_meanwhile(dated, when):
    table = dated()
    table.append((1, 91), (2, 0))

    table.append((3, 0))
    when(expiry_module, "until_not_overtaken", table.compact)
    (step,) = table.expire()
    assert (step.state, table.keys) == (State.LEFT, [1, 2, 3])


def test_a_consumer_that_has_consumed_the_rows_misses_nothing(dated):
    table = dated()
    table.append((1, 91), (2, 0))
    cursor = new_rows(table.table.uri).cursor
    table.expire()
    rows = new_rows(table.table.uri, cursor)
    assert (rows.files, rows.lost, rows.replaced) == ([], [], [])


def test_a_consumer_that_has_not_consumed_the_rows_learns_which_have_expired(dated):
    table = dated()
    table.append((1, 0))
    cursor = new_rows(table.table.uri).cursor
    commits = [table.append((2, 91), (3, 91), (4, 0)), table.append((5, 91))]
    table.expire()
    table.append((6, 0))
    first = new_rows(table.table.uri, cursor, max_bytes=1)
    rest = new_rows(table.table.uri, first.cursor)
    day = TODAY - timedelta(days=90)
    assert first.deleted == [f"2 rows of batch {commits[0].batch_id} that arrived before {day}"]
    assert rest.deleted == [f"1 rows of batch {commits[1].batch_id} that arrived before {day}"]
    assert new_rows(table.table.uri).lost == []


def test_the_rows_of_each_batch_of_a_compacted_file_are_counted(dated):
    table = dated()
    batches = [table.append((1, 91)).batch_id, table.append((2, 91), (3, 91)).batch_id]
    table.compact()
    (step,) = table.expire()
    expired = table.table.snapshot().newest.expired
    assert (step.rows, [(each.batch_id, each.rows) for each in expired]) == (
        3,
        [*zip(batches, [1, 2], strict=True)],
    )


def lost_in_steps(uri, cursor):
    """Consume what is left in steps of one commit, and return how many rows were lost in each."""
    lost, more = [], True
    while more:
        rows = new_rows(uri, cursor, max_bytes=1)
        lost.append([each.rows for each in rows.lost])
        cursor, more = rows.cursor, rows.more
    return lost


def test_rows_of_the_history_that_expire_before_they_are_consumed_are_lost_once(dated):
    table = dated()
    for key in range(3):
        table.append((key, 91), (key, 0))
    first = new_rows(table.table.uri, max_bytes=1)
    assert first.more
    table.expire()
    assert lost_in_steps(table.table.uri, first.cursor) == [[1, 1], []]


def test_rows_of_old_batches_are_lost_once_too_with_the_last_of_them(dated):
    table = written_long_ago(dated())
    uri, cursors = table.table.uri, []
    for _ in range(5):
        cursors.append(new_rows(uri, cursors[-1] if cursors else None, max_bytes=1).cursor)
    table.expire()
    found = [lost_in_steps(uri, cursor) for cursor in cursors]
    assert found == [[[], [], [3], []], [[], [3], []], [[], [3], []], [[3], []], [[], []]]
    (lost,) = new_rows(uri, cursors[0]).deleted
    day = TODAY - timedelta(days=90)
    assert lost == f"up to 3 rows of batches up to {cursors[4].history} that arrived before {day}"


def written_long_ago(table):
    """Add rows of which every second one expires, each in a batch that is too old to be named on its own."""
    clock = ShiftedClock()
    clock.advance(-24 * 40)
    recent, table.table = table.table, DerivedTable(table.table.uri, replace(WRITING, clock=clock))
    for key in range(6):
        table.append((key, 0 if key % 2 else 91))
    table.table = recent
    return table


def test_a_table_below_does_not_start_again_on_its_own_once_rows_have_expired(dated):
    table = dated()
    table.append((1, 0))
    newest = table.table.snapshot().newest
    table.expire()
    assert lost_rows(open_source(table.table.uri), newest) == 0
    table.append((2, 91))
    table.expire()
    assert lost_rows(open_source(table.table.uri), newest) is None


def test_batches_that_only_a_new_consumer_may_not_have_consumed_are_named_together(dated):
    table = written_long_ago(dated())
    batch = table.append((6, 91)).batch_id
    table.expire()
    expired = table.table.snapshot().newest.expired
    assert [(each.batch_id, each.rows) for each in expired] == [(None, 3), (batch, 1)]
