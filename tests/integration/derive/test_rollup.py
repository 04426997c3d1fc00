"""Roll-ups: aggregates of a table that are computed again only for the groups that changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.changes import Rollup
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.upsert import Upsert
from support.derived import DerivedBench, order


@pytest.fixture
def newest(derived) -> DerivedBench:
    """The newest order of each id."""
    upsert = Upsert(key=("id",), order_by=("amount",), delete_where="deleted")
    derived.derivation = replace(derived.derivation, mode=upsert)
    return derived


@pytest.fixture
def revenue(newest, tmp_path) -> DerivedBench:
    """The sum of the amounts of each item."""
    derivation = replace(
        newest.derivation,
        source=newest.table.uri,
        mode=Rollup(by=("item",)),
        transform=lambda rows: rows.groupBy("item").agg(F.sum("amount").alias("revenue")),
    )
    return DerivedBench(newest.spark, DerivedTable(str(tmp_path / "revenue")), derivation)


@pytest.fixture
def consume(bench, newest, revenue):
    """Puts orders, and brings both tables up to date."""

    def consume(*orders):
        bench.put(*orders)
        bench.run()
        newest.run()
        return revenue.run()

    return consume


def test_a_group_to_which_rows_were_added_is_computed_again(consume, revenue):
    consume(order(1, 1.0, item="a"), order(2, 2.0, item="b"))
    consume(order(3, 3.0, item="a"))
    assert revenue.values("item", "revenue") == [("a", 4.0), ("b", 2.0)]


def test_a_group_without_changes_keeps_its_row(consume, revenue):
    (first,) = consume(order(1, 1.0, item="a"), order(2, 2.0, item="b"))
    (second,) = consume(order(3, 3.0, item="a"))
    assert revenue.values("item", "_batch_id") == [("a", second.batch_id), ("b", first.batch_id)]


def test_a_group_that_a_row_left_is_computed_again(consume, revenue):
    consume(order(1, 1.0, item="a"), order(2, 2.0, item="a"))
    consume(order(1, 5.0, item="b"))
    assert revenue.values("item", "revenue") == [("a", 2.0), ("b", 5.0)]


def test_a_group_whose_last_row_left_is_deleted(consume, revenue):
    consume(order(1, 1.0, item="a"))
    consume(order(1, 5.0, item="b"))
    assert revenue.values("item", "revenue") == [("b", 5.0)]


def test_a_group_of_which_a_row_was_deleted_is_computed_again(consume, revenue):
    consume(order(1, 1.0, item="a"), order(2, 2.0, item="a"))
    consume(order(1, 5.0, item="a", deleted=True))
    assert revenue.values("item", "revenue") == [("a", 2.0)]


def test_rows_without_a_value_are_a_group(consume, revenue):
    consume(order(1, 1.0), order(2, 2.0, item="a"))
    consume(order(3, 3.0))
    assert revenue.values("item", "revenue") == [("a", 2.0), (None, 4.0)]


def test_a_roll_up_of_a_raw_table_follows_its_new_rows(bench, revenue):
    by_day = replace(
        revenue,
        derivation=replace(
            revenue.derivation,
            source=bench.table.uri,
            mode=Rollup(by=("arrival_date",)),
            transform=lambda rows: rows.groupBy("arrival_date").count(),
        ),
    )
    for number in range(2):
        bench.put(order(number))
        bench.run()
        by_day.run()
    assert by_day.values("count") == [2]


def test_the_source_keeps_the_rows_that_it_replaced(consume, newest):
    consume(order(1, 1.0, item="a"))
    consume(order(1, 5.0, item="b"))
    (kept,) = newest.table.snapshot().newest.replaced
    table = DeltaTable(newest.table.uri)
    assert kept.path not in {path.removeprefix(f"{newest.table.folder.uri}/") for path in table.file_uris()}
    assert kept.rows == 1


def test_an_empty_text_in_a_partition_column_is_the_same_group_as_null(consume, revenue):
    revenue.derivation = replace(revenue.derivation, partition_by=("item",))
    consume(order(1, 1.0, item=""), order(2, 2.0))
    assert revenue.values("item", "revenue") == [(None, 3.0)]
    consume(order(3, 3.0, item=""))
    assert revenue.values("item", "revenue") == [(None, 6.0)]


def test_a_few_groups_are_written_to_a_few_files_with_the_default_partitions_of_spark(
    spark, consume, revenue
):
    few = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    try:
        for first in (0, 100):
            consume(*(order(number, item=str(number)) for number in range(first, first + 100)))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", few)
    assert len(revenue.values("item")) == 200
    assert len(revenue.table.snapshot().delta.file_uris()) <= 10
