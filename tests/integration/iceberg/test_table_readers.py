"""All readers find the same rows with the same filters in a table that pyiceberg has written."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from support.iceberg.plain_table import MORNING, arrow_of, create
from support.iceberg.table_readers import found_by_all
from support.readers import Filter

FILTERS = [
    (None, range(24)),
    (Filter("item", 22, is_bound=True), [22, 23]),
    (Filter("name", "it's 8"), [8]),
    (Filter("name", None), range(0, 24, 3)),
    (Filter("at", MORNING + timedelta(hours=20), is_bound=True), [20, 21, 22, 23]),
]


def rows(items):
    return Counter((str(item), repr(f"it's {item}") if item % 3 else "None") for item in items)


def test_all_readers_find_the_same_rows(iceberg_catalog, iceberg_spark):
    table = create(iceberg_catalog)
    for first in range(0, 24, 8):
        table.append(arrow_of(range(first, first + 8)))
    for condition, expected in FILTERS:
        found = found_by_all(iceberg_catalog, table, ("item", "name"), condition, iceberg_spark)
        assert found == dict.fromkeys(("pyiceberg", "Polars", "DuckDB", "Spark"), rows(expected)), condition
