"""Roll-ups: aggregates of a table that are computed again only for the groups that changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.derivation import Rollup, Upsert
from kinesis_assets.derive.maintenance import maintain
from kinesis_assets.derive.policy import Deletion, OnDeleted, Retention
from kinesis_assets.errors import InvalidInput, SourceRowsDeleted
from kinesis_assets.table.maintenance.retention import expire, lower_floor
from support.derived import DerivedBench, order
from support.formats import FORMAT, derived_at, source_format

pytestmark = pytest.mark.any_format


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
        **newest.as_source,
        mode=Rollup(by=("item",)),
        transform=lambda rows: rows.groupBy("item").agg(F.sum("amount").alias("revenue")),
    )
    return DerivedBench(newest.spark, derived_at(str(tmp_path / "revenue")), derivation)


@pytest.fixture
def consume(bench, newest, revenue):
    """Puts orders, and brings both tables up to date."""

    def consume(*orders):
        bench.put(*orders)
        bench.run()
        newest.run()
        return revenue.run()

    return consume


@pytest.mark.usefixtures("compiled")
def test_only_groups_of_which_rows_changed_are_computed_again_and_those_without_rows_are_deleted(
    consume, revenue
):
    (first,) = consume(
        *(order(number, number, item="a row was added") for number in (1, 2)),
        *(order(number, number, item="a row left") for number in (3, 4)),
        order(5, 5, item="the last row left"),
        *(order(number, number, item="a row was deleted") for number in (6, 7)),
        order(8, 8),
        order(9, 9, item="nothing changed"),
    )
    (second,) = consume(
        order(11, 11, item="a row was added"),
        order(3, 13, item="a row was added"),
        order(5, 15, item="a row arrived"),
        order(6, 16, item="a row was deleted", deleted=True),
        order(18, 18),
    )
    assert revenue.values("item", "revenue", "_batch_id") == [
        ("a row arrived", 15.0, second.batch_id),
        ("a row left", 4.0, second.batch_id),
        ("a row was added", 27.0, second.batch_id),
        ("a row was deleted", 7.0, second.batch_id),
        ("nothing changed", 9.0, first.batch_id),
        (None, 26.0, second.batch_id),
    ]


def test_a_roll_up_of_a_raw_table_follows_its_new_rows(bench, revenue):
    by_day = replace(
        revenue,
        derivation=replace(
            revenue.derivation,
            source=bench.table.uri,
            source_format=source_format(bench.table),
            mode=Rollup(by=("arrival_date",)),
            transform=lambda rows: rows.groupBy("arrival_date").count(),
        ),
    )
    for number in range(2):
        bench.put(order(number))
        bench.run()
        by_day.run()
    assert by_day.values("count") == [2]


def test_the_source_keeps_the_rows_that_it_replaced(bench, newest):
    for each in (order(1, 1.0, item="a"), order(1, 5.0, item="b")):
        bench.put(each)
        bench.run()
        newest.run()
    (kept,) = newest.table.snapshot().newest.replaced
    assert kept.path not in {file.path for file in newest.table.snapshot().data_files()}
    assert kept.rows == 1


def test_an_empty_text_in_a_partition_column_is_the_same_group_as_null_in_delta_lake(consume, revenue):
    revenue.derivation = replace(revenue.derivation, partition_by=("item",))
    together = FORMAT == "delta"
    consume(order(1, 1.0, item=""), order(2, 2.0))
    assert revenue.values("item", "revenue") == ([(None, 3.0)] if together else [("", 1.0), (None, 2.0)])
    consume(order(3, 3.0, item=""))
    assert revenue.values("item", "revenue") == ([(None, 6.0)] if together else [("", 4.0), (None, 2.0)])


@pytest.mark.thorough
@pytest.mark.usefixtures("compiled")
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
    assert len(revenue.table.snapshot().data_files()) <= 10


def lowered(rows):
    return rows.groupBy(F.lower("item").alias("item")).agg(F.sum("amount").alias("revenue"))


def test_a_function_that_changes_the_value_of_a_group_is_refused_before_anything_is_written(consume, revenue):
    transform = revenue.derivation.transform
    consume(order(1, 1.0, item="a"))
    version = revenue.table.snapshot().version
    revenue.derivation = replace(revenue.derivation, transform=lowered)
    with pytest.raises(InvalidInput, match="item = 'b'"):
        consume(order(2, 1.0, item="B"))
    assert revenue.table.snapshot().version == version
    revenue.derivation = replace(revenue.derivation, transform=transform)
    revenue.run()
    assert revenue.values("item", "revenue") == [("B", 1.0), ("a", 1.0)]


@pytest.mark.delta
def test_a_function_that_leaves_the_values_of_its_groups_is_not_refused(consume, revenue):
    revenue.derivation = replace(revenue.derivation, transform=lowered, partition_by=("item",))
    consume(order(1, 1.0, item="a"), order(2, 2.0, item=""), order(3, 4.0))
    assert revenue.values("item", "revenue") == [("a", 1.0), (None, 6.0)]


# Sources that have lost rows


@pytest.fixture
def per_part(bench, derived) -> DerivedBench:
    """The number of records of each partition key in the raw table."""
    bench.set_retention(hours=1000)
    derived.derivation = replace(
        derived.derivation,
        mode=Rollup(by=("partition_key",)),
        transform=lambda rows: rows.groupBy("partition_key").count(),
    )
    return derived


def test_the_column_of_the_first_arrival_is_reserved(bench, per_part):
    land_parts(bench, "a")
    with pytest.raises(InvalidInput, match="_first_arrival"):
        per_part.run(
            transform=lambda rows: rows.groupBy("partition_key").agg(F.min("data").alias("_first_arrival"))
        )
    assert per_part.table.existing() is None


def land_parts(bench, *keys):
    for key in keys:
        bench.kinesis.put_record(StreamName=bench.stream, Data=order(1), PartitionKey=key)
    bench.run()


def expire_all(bench):
    """Let all rows of the raw table expire."""
    bench.later(days=3)
    list(expire(bench.table, bench.positions.identity, bench.now.date(), bench.now))


@pytest.fixture
def expired(bench, per_part):
    """Two groups of two rows, all of which have expired since they were counted."""
    land_parts(bench, "a", "a", "b", "b")
    per_part.run()
    expire_all(bench)


@pytest.mark.usefixtures("expired")
def test_a_group_whose_rows_expired_is_not_replaced_by_default(bench, per_part):
    land_parts(bench, "a")
    with pytest.raises(SourceRowsDeleted, match="partition_key = 'a'"):
        per_part.run()
    assert per_part.values("partition_key", "count") == [("a", 2), ("b", 2)]


@pytest.mark.usefixtures("expired")
def test_a_group_whose_rows_expired_keeps_its_row_if_that_is_ignored(bench, per_part):
    for _ in range(2):
        land_parts(bench, "a", "c")
        (commit,) = per_part.run(on_deleted=OnDeleted.IGNORE)
        (lost,) = commit.given_up
        assert (lost.deletion, lost.groups) == (Deletion.INCOMPLETE, 1)
    assert per_part.values("partition_key", "count") == [("a", 2), ("b", 2), ("c", 2)]


@pytest.mark.usefixtures("expired")
def test_a_group_whose_rows_expired_does_not_start_the_table_again(bench, per_part):
    land_parts(bench, "a")
    with pytest.raises(SourceRowsDeleted, match=r"partition_key = 'a'.*rebuild"):
        per_part.run(on_deleted=OnDeleted.REBUILD)
    assert per_part.values("partition_key", "count") == [("a", 2), ("b", 2)]


@pytest.mark.thorough
@pytest.mark.usefixtures("expired")
def test_groups_of_which_no_row_expired_are_computed_again(bench, per_part):
    for number in (1, 2):
        land_parts(bench, "c")
        per_part.run()
        assert ("c", number) in per_part.values("partition_key", "count")


@pytest.mark.usefixtures("expired")
def test_a_group_whose_rows_were_added_again_is_computed_again(bench, per_part):
    land_parts(bench, "a")
    lower_floor(bench.table, bench.positions.identity, (bench.now - timedelta(days=9)).date(), bench.now)
    with pytest.raises(SourceRowsDeleted):  # nothing was added again yet
        per_part.run()
    bench.replay()
    per_part.run()
    assert per_part.values("partition_key", "count") == [("a", 3), ("b", 2)]


def test_a_roll_up_by_arrival_date_goes_on_while_its_source_expires(bench, per_part):
    per_part.derivation = replace(
        per_part.derivation,
        mode=Rollup(by=("arrival_date",)),
        transform=lambda rows: rows.groupBy("arrival_date").count(),
    )
    for _ in range(2):
        land_parts(bench, "a", "a")
        per_part.run()
        expire_all(bench)
    assert per_part.values("count") == [2, 2]


def test_a_late_row_of_an_expired_day_does_not_replace_the_count_of_the_day(bench, per_part):
    per_part.derivation = replace(
        per_part.derivation,
        mode=Rollup(by=("arrival_date",)),
        transform=lambda rows: rows.groupBy("arrival_date").count(),
    )
    land_parts(bench, "a", "a")
    per_part.run()
    bench.kinesis.put_record(StreamName=bench.stream, Data=order(1), PartitionKey="a")
    expire_all(bench)
    bench.run()
    with pytest.raises(SourceRowsDeleted):
        per_part.run()
    per_part.run(on_deleted=OnDeleted.IGNORE)
    assert per_part.values("count") == [2]


@pytest.mark.thorough
def test_groups_of_which_rows_of_a_derived_table_have_expired_keep_their_rows(consume, newest, revenue):
    now = datetime.now(UTC)
    old, today = (str((now - timedelta(days=days)).date()) for days in (100, 0))

    def expire_after(days):
        retention = Retention("day", days)
        list(maintain(newest.table, now, retention=retention, machine=lambda: now))

    consume(
        order(1, 1.0, item="a", day=old), order(2, 2.0, item="b", day=today), order(3, 3.0, item="c", day=old)
    )
    expire_after(1000)
    consume(order(4, 4.0, item="a", day=today))
    expire_after(30)
    assert newest.values("id") == [2, 4]
    revenue.run()
    before = [("a", 5.0), ("b", 2.0), ("c", 3.0)]
    assert revenue.values("item", "revenue") == before
    with pytest.raises(SourceRowsDeleted, match="2 groups"):
        consume(*(order(id_, 6.0, item=item, day=day) for id_, item, day in ((6, "a", today), (7, "c", old))))
    assert revenue.values("item", "revenue") == before
    with pytest.raises(SourceRowsDeleted, match="an unknown number"):
        revenue.run(on_deleted=OnDeleted.REBUILD)
    revenue.run(on_deleted=OnDeleted.IGNORE)
    assert revenue.values("item", "revenue") == before
    consume(order(8, 8.0, item="b", day=today))
    assert revenue.values("item", "revenue") == [("a", 5.0), ("b", 10.0), ("c", 3.0)]
