"""The records of a derived table are counted from the entries of its commits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from kinesis_assets.dagster.checks.table_checks import BadRecords, HourOfRecords, count_committed
from kinesis_assets.derive.commit_entry import entry_path
from kinesis_assets.derive.data_files import RecordCounts
from kinesis_assets.derive.derived_table import DerivedTable
from support.plain_derived import PlainDerived

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400
NOTHING = BadRecords()


@pytest.fixture
def orders(tmp_path: Path) -> PlainDerived:
    return PlainDerived(tmp_path / "orders")


def count(orders: PlainDerived, before: BadRecords = NOTHING, *, later: float = 0, **limits: int):
    table = DerivedTable(orders.table.uri)  # without a cache, as in each tick
    return count_committed(table.entries, table.snapshot().newest, before, time.time() + later, **limits)


def totals(counted: BadRecords) -> tuple[int, int]:
    return sum(hour.records for hour in counted.hours), sum(hour.bad for hour in counted.hours)


def test_the_records_of_all_commits_are_added(orders):
    orders.append((1, 0, "a"), counts=RecordCounts(10, 1))
    newest = orders.append((2, 0, "a"), counts=RecordCounts(5, 0))
    assert totals(count(orders)) == (15, 1)
    assert count(orders).through == newest.commit_id


def test_each_commit_is_counted_once(orders):
    orders.append((1, 0, "a"), counts=RecordCounts(10, 1))
    first = count(orders)
    assert count(orders, first) == first
    orders.append((2, 0, "a"), counts=RecordCounts(5, 5))
    assert totals(count(orders, first)) == (15, 6)


def test_a_commit_that_did_not_count_its_records_is_left_out(orders):
    orders.append((1, 0, "a"), counts=RecordCounts(10, 1))
    orders.append((2, 0, "a"))
    assert totals(count(orders)) == (10, 1)


def test_records_that_a_redrive_has_decoded_are_not_bad_any_more(orders):
    orders.append((1, 0, "a"), counts=RecordCounts(10, 3))
    before = count(orders)
    orders.append((2, 0, "a"), errors=[b"c"], redriven=[b"a", b"b", b"c"])
    assert totals(count(orders, before)) == totals(count(orders)) == (10, 1)
    orders.append((3, 0, "a"), counts=RecordCounts(5, 2))
    assert totals(count(orders)) == (15, 3)
    orders.append((4, 0, "a"), errors=[], redriven=[b"d", b"e", b"c"])
    assert totals(count(orders, before)) == (15, 0)


def test_commits_of_more_than_a_day_ago_are_forgotten(orders):
    orders.append((1, 0, "a"), counts=RecordCounts(10, 1))
    first = count(orders)
    assert count(orders, first, later=DAY + 3600).hours == ()
    assert count(orders, later=DAY + 3600).hours == ()


def test_the_number_of_commits_that_are_read_is_bounded(orders):
    for number in range(5):
        orders.append((number, 0, "a"), counts=RecordCounts(1, 0))
    assert totals(count(orders, max_commits=3)) == (3, 0)


def test_a_record_that_is_missing_ends_the_count(orders):
    first = orders.append((1, 0, "a"), counts=RecordCounts(10, 1))
    orders.append((2, 0, "a"), counts=RecordCounts(5, 0))
    orders.table.files.delete_file(entry_path(first.commit_id))
    assert totals(count(orders)) == (5, 0)


def test_what_was_counted_before_stays(orders):
    first = orders.append((1, 0, "a"))
    orders.append((2, 0, "a"), counts=RecordCounts(10, 1))
    hour = int(time.time() // 3600)
    before = BadRecords(first.commit_id, (HourOfRecords(hour - 2, 100, 3),))
    assert totals(count(orders, before)) == (110, 4)


def test_records_of_a_table_that_has_started_again_do_not_count(orders):
    orders.append((1, 0, "a"), counts=RecordCounts(10, 10))
    before = count(orders)
    orders.rebuild()
    assert totals(count(orders, before)) == (0, 0)
    orders.append((1, 0, "a"), counts=RecordCounts(10, 1))
    assert totals(count(orders, before)) == totals(count(orders)) == (10, 1)
