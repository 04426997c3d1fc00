"""Readers of a raw table, some of which take the arrival date of rows from the paths."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest

from kinesis_assets.table.maintenance.steps import MaintenanceLimits
from support.attempts import NOON, Attempt, current_positions
from support.maintained_table import steps_of
from support.readers import READERS, Filter, found_by

COLUMNS = ("shard_id", "sequence_number", "arrival_date")
DAYS = tuple(date(2026, 2, 2) + timedelta(days=number) for number in range(3))
pytestmark = pytest.mark.slow

FILTERS = [
    *(Filter("arrival_date", day) for day in DAYS),
    Filter("arrival_date", DAYS[1], is_bound=True),
    Filter("shard_id", "a"),
    Filter("error", None),
]


@pytest.fixture
def rows(table, frozen):
    """Three days of records of two shards, in two commits a day; return the rows."""
    del frozen
    for number in (0, 0, 1, 1, 2, 2):
        arrived = NOON + number * 86_400
        Attempt(table, current_positions(table), {"a": 2, "b": 1}, arrived=arrived).commit()
    return [
        {"shard_id": shard, "sequence_number": str(number + 1), "arrival_date": day, "error": None}
        for shard, count in (("a", 2), ("b", 1))
        for number, day in enumerate(day for day in DAYS for _ in range(2 * count))
    ]


def check(reader, table, rows):
    for condition in FILTERS:
        wanted = Counter(tuple(row[name] for name in COLUMNS) for row in rows if condition.accepts(row))
        assert found_by(reader, table.folder.uri, COLUMNS, condition) == wanted, condition


@pytest.mark.parametrize("reader", READERS)
def test_rows_are_found_by_arrival_date_or_another_column(table, rows, reader):
    check(reader, table, rows)


@pytest.mark.parametrize("reader", READERS)
def test_rows_are_found_after_compaction_and_retention(table, rows, reader):
    now = datetime.fromtimestamp(NOON, UTC) + timedelta(days=10)
    done = steps_of(table, now, retention_days=9, limits=MaintenanceLimits(small_files=2))
    assert {step for step, _ in done} >= {"expire", "compact"}
    check(reader, table, [row for row in rows if row["arrival_date"] > DAYS[0]])
