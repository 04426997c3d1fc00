"""A column travels beside the rows of a DataFrame, unseen by the code that transforms them."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import StructType

from kinesis_assets.spark.carried_column import carried, carry, is_in_order, map_each_row, with_carried

ROWS = [(1, "a", [10, 11]), (2, "b", []), (3, "c", [30])]


@pytest.fixture
def rows(spark):
    """Rows that carry ten times their id as a text."""
    given = spark.createDataFrame(ROWS, "id INT, name STRING, many ARRAY<INT>")
    return carry(given.withColumn("__order", (F.col("id") * 10).cast("string")), "__order")


def pairs(rows):
    """Return the id and the carried value of each row."""
    return sorted((row["id"], row["__order"]) for row in with_carried(rows).collect())


ALL = [(1, "10"), (2, "20"), (3, "30")]

ROW_BY_ROW = {
    "select": lambda rows: rows.select("id", F.upper("name")),
    "select by list": lambda rows: rows.select(["name", "id"]),
    "select all": lambda rows: rows.select("*", F.lit(1).alias("one")),
    "select own columns": lambda rows: rows.select(rows["id"], rows.name),
    "select by alias": lambda rows: rows.alias("r").select("r.*"),
    "selectExpr": lambda rows: rows.selectExpr("id", "id * id AS square"),
    "where": lambda rows: rows.where("id > 0").filter(F.col("id") < 9),
    "withColumn": lambda rows: rows.withColumn("twice", rows["id"] * 2).withColumnRenamed("twice", "double"),
    "drop": lambda rows: rows.drop("name", "many"),
    "fill": lambda rows: rows.na.fill("none").dropna(),
    "transform": lambda rows: rows.transform(lambda each: each.select("id")),
    "struct": lambda rows: rows.select(F.struct("id", "name").alias("pair")).select("pair.*"),
}

MOVING = {
    "repartition": lambda rows: rows.repartition(3, "id"),
    "sort": lambda rows: rows.orderBy(F.col("name").desc()),
    "left join": lambda rows: rows.join(rows.groupBy("id").count(), "id", "left"),
    "union": lambda rows: rows.where("id = 1").union(rows.where("id > 1")),
    "unionByName": lambda rows: rows.where("id = 1").unionByName(
        rows.where("id > 1").select("many", "name", "id")
    ),
}

LOSING = {
    "groupBy": lambda rows: rows.groupBy("id").count(),
    "distinct": lambda rows: rows.distinct(),
    "full join": lambda rows: rows.join(rows.groupBy("id").count(), "id", "full"),
    "hash of all columns": lambda rows: rows.select("id", F.xxhash64("*").alias("hash")),
    "hash of all columns as a further one": lambda rows: rows.withColumn("hash", F.xxhash64("*")),
    "hash of all columns in a condition": lambda rows: rows.where("xxhash64(*) % 2 = 0"),
    "JSON of all columns": lambda rows: rows.selectExpr("id", "to_json(struct(*)) AS json"),
    "union with others": lambda rows: rows.select("id").union(rows.sparkSession.range(1)),
    "mapInArrow": lambda rows: rows.mapInArrow(lambda batches: batches, rows.schema),
}


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_the_column_is_carried_row_by_row(rows, name):
    transformed = ROW_BY_ROW[name](rows)
    assert "__order" not in transformed.columns
    assert pairs(transformed) == ALL
    assert is_in_order(transformed)


@pytest.mark.parametrize("name", MOVING)
def test_the_column_is_carried_where_rows_move_but_not_as_their_order(rows, name):
    transformed = MOVING[name](rows)
    assert "__order" not in transformed.columns
    assert pairs(transformed) == ALL
    assert not is_in_order(transformed)


@pytest.mark.parametrize("name", LOSING)
def test_any_other_method_returns_rows_without_the_column(rows, name):
    transformed = LOSING[name](rows)
    assert carried(transformed) is None
    assert "__order" not in with_carried(transformed).columns


def test_a_row_without_values_is_dropped(rows):
    nothing = F.lit(None).cast("string").alias("nothing")
    assert with_carried(rows.select(nothing).dropna("all")).collect() == []
    assert with_carried(rows.select(nothing, "id").na.drop(thresh=2)).collect() == []
    assert pairs(rows.select(nothing, "id").dropna("all")) == ALL


@pytest.mark.parametrize("name", ROW_BY_ROW | MOVING | LOSING)
def test_the_code_sees_what_it_would_see_without_the_column(spark, rows, name):
    plain = spark.createDataFrame(ROWS, "id INT, name STRING, many ARRAY<INT>")
    apply = (ROW_BY_ROW | MOVING | LOSING)[name]
    expected, found = apply(plain), apply(rows)
    assert found.columns == expected.columns
    assert sorted(map(repr, found.collect())) == sorted(map(repr, expected.collect()))


def test_each_row_of_an_explode_has_the_column_of_its_row(rows):
    exploded = rows.select("id", F.explode("many").alias("one"))
    assert pairs(exploded) == [(1, "10"), (1, "10"), (3, "30")]


def test_the_column_passes_a_step_in_arrow(rows):
    kept = rows.select("id")
    assert (
        pairs(map_each_row(kept, lambda batch: batch.select(["id"]), StructType(kept.schema.fields))) == ALL
    )


def test_an_error_is_that_of_the_method(rows):
    with pytest.raises(Exception, match="missing"):
        rows.select("missing")
