"""Derived tables whose sources and files are in a bucket. Spark needs no library for S3."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets import Cursor, new_rows, read_table
from kinesis_assets.derive.derivation import Derivation, Rollup, Upsert
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.policy import OnDeleted
from kinesis_assets.errors import SourceRowsDeleted
from kinesis_assets.table.raw_table import PositionedTable
from support.derived import DerivedBench, maintain_derived, order, orders
from support.timing import WRITING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.bench import Bench


@pytest.fixture
def newest(bench: Bench, lake: str, spark_in_lake: SparkSession) -> DerivedBench:
    """The newest order of each id in the stream of the bench."""
    bench.create()
    bench.table = PositionedTable(f"{lake}/raw", WRITING)
    derivation = Derivation(bench.table.uri, orders, Upsert(("id",), ("amount",)))
    return DerivedBench(spark_in_lake, DerivedTable(f"{lake}/orders", WRITING), derivation)


@pytest.fixture
def revenue(newest: DerivedBench, lake: str) -> DerivedBench:
    """The sum of the amounts of each item."""
    derivation = replace(
        newest.derivation,
        source=newest.table.uri,
        mode=Rollup(by=("item",)),
        transform=lambda rows: rows.groupBy("item").agg(F.sum("amount").alias("revenue")),
    )
    return DerivedBench(newest.spark, DerivedTable(f"{lake}/revenue", WRITING), derivation)


def land(bench: Bench, *items: bytes) -> None:
    bench.put(*items)
    bench.run()


@pytest.mark.thorough
def test_rows_are_upserted_from_a_table_in_a_bucket_into_another(bench: Bench, newest: DerivedBench) -> None:
    for items in ([order(1, 1.0), order(2, 1.0)], [order(1, 2.0), order(3, 1.0)]):
        land(bench, *items)
        newest.run()
    assert newest.values("id", "amount") == [(1, 2.0), (2, 1.0), (3, 1.0)]


def test_rows_are_appended_to_the_folders_of_their_partitions(bench: Bench, newest: DerivedBench) -> None:
    land(bench, order(1, item="a/b=c d"), order(2, item="e"))
    newest.run(mode=None, partition_by=("item",))
    assert newest.values("id", "item") == [(1, "a/b=c d"), (2, "e")]


@pytest.mark.thorough
def test_a_roll_up_of_a_derived_table_follows_its_upserts(
    bench: Bench, newest: DerivedBench, revenue: DerivedBench
) -> None:
    for items in ([order(1, 1.0, item="a"), order(2, 2.0, item="b")], [order(1, 5.0, item="a")]):
        land(bench, *items)
        newest.run()
        revenue.run()
    assert revenue.values("item", "revenue") == [("a", 5.0), ("b", 2.0)]


def test_a_derived_table_continues_after_its_maintenance(
    bench: Bench, newest: DerivedBench, revenue: DerivedBench
) -> None:
    for number in range(3):
        land(bench, order(number, item="a"))
        newest.run()
    revenue.run()
    assert {step.step for step in maintain_derived(newest)} == {"compact", "checkpoint"}
    land(bench, order(3, item="a"))
    newest.run()
    revenue.run()
    assert revenue.values("item", "revenue") == [("a", 4.0)]


@pytest.mark.thorough
def test_a_derived_table_is_rebuilt_after_a_seek(bench: Bench, newest: DerivedBench) -> None:
    land(bench, order(1), order(2))
    newest.run()
    bench.seek("TRIM_HORIZON")
    land(bench, order(3))
    with pytest.raises(SourceRowsDeleted):
        newest.run()
    newest.run(on_deleted=OnDeleted.REBUILD)
    assert newest.values("id") == [1, 2, 3]


def test_a_raw_and_a_derived_table_are_read_with_their_positions(bench: Bench, newest: DerivedBench) -> None:
    land(bench, order(1), order(2))
    newest.run()
    raw, _ = read_table(newest.spark, bench.table.uri)
    assert sorted(bytes(row["data"]) for row in raw.collect()) == [order(1), order(2)]
    rows, seen = read_table(newest.spark, newest.table.uri)
    land(bench, order(3))
    newest.run()
    assert sorted(row["id"] for row in rows.collect()) == [1, 2]
    assert seen["source_rows"] == 2
    (later,) = new_rows(newest.table.uri, Cursor.parse(str(seen["cursor"]))).files
    assert later.rows == 1
