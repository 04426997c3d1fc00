"""Maintenance of a derived table in a bucket, without Spark."""

from __future__ import annotations

import pytest

from kinesis_assets import new_rows
from kinesis_assets.derive.commit_entry import ENTRIES_FOLDER
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.errors import SourceCommitsMissing
from kinesis_assets.table.maintenance.pruning import CHAIN_KEPT
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS
from support.maintained_table import days_from_now
from support.plain_derived import COLUMNS, PlainDerived, steps_of
from support.readers import Filter, found_by


def test_a_table_in_a_bucket_is_compacted_and_pruned_and_consumed_afterwards(lake):
    derived = PlainDerived(f"{lake}/derived")
    first = new_rows(derived.table.uri).cursor
    below = PlainDerived(f"{lake}/below", derived.id, partitioned=False)
    for number in range(DEFAULT_LIMITS.small_files):
        derived.append((number, number, "a/b=c d"))
    derived.upsert((0, 100, "a/b=c d"))
    below.consume_all(derived)
    cursor = new_rows(derived.table.uri).cursor
    rows = derived.rows
    steps = steps_of(derived, days_from_now(CHAIN_KEPT.days + 1))
    assert {step.step for step in steps.values()} == {"compact", "checkpoint", "prune"}
    assert steps["prune", ENTRIES_FOLDER].files == DEFAULT_LIMITS.small_files
    assert (derived.rows, len(derived.active)) == (rows, 1)
    derived.table = DerivedTable(derived.table.uri)
    derived.upsert((1, 101, "a/b=c d"))
    below.consume_all(derived)
    assert derived.replaced(cursor) == [1]
    assert {row for row in below.rows if row[1] > 1} >= {row for row in derived.rows if row[1] > 1}
    with pytest.raises(SourceCommitsMissing):
        new_rows(derived.table.uri, first)


@pytest.mark.parametrize("reader", ["Polars", "delta-rs", "PyArrow"])
def test_readers_find_the_rows_of_partitions_in_a_bucket(lake, reader):
    derived = PlainDerived(f"{lake}/derived")
    texts = ["a b", "a/b=100%", "a%2Fb", "+?&#:", "ü😀", None]
    for number in range(DEFAULT_LIMITS.small_files + 1):
        derived.append(*((10 * number + key, number, text) for key, text in enumerate(texts)))
    derived.upsert(*((key, 100, text) for key, text in enumerate(texts)))
    derived.append((99, 99, "b"))
    rows = derived.rows
    assert sum(step == "compact" for step, _ in steps_of(derived)) == len(texts)
    for text in texts:
        found = found_by(reader, derived.table.uri, COLUMNS, Filter("part", text))
        assert found == {row: count for row, count in rows.items() if row[2] == text}, text
