"""Steps of Arrow batches in Spark: in a row they stay in Python, and after anything else get its rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.spark.arrow_steps import is_mapped, map_in_arrow


def plus_one(batches):
    for batch in batches:
        yield pa.record_batch({"id": pc.add(batch["id"], 1)})


def nothing(batches):
    for batch in batches:
        yield batch.slice(0, 0)


def raising(batches):
    for _ in batches:
        raise ValueError("an unexpected row")
    yield from ()


def mapped(rows, *steps):
    for step in steps:
        rows = map_in_arrow(rows, step, "id long")
    return rows


def ids(rows):
    return sorted(row["id"] for row in rows.collect())


def crossings(rows, capsys):
    """Return how often rows go from the JVM to Python."""
    rows.explain()
    return capsys.readouterr().out.count("MapInArrow")


@pytest.fixture
def source(spark):
    return spark.range(0, 4, 1, 2)


def test_steps_in_a_row_go_to_python_once(source, capsys):
    rows = mapped(source, plus_one, plus_one, plus_one)
    assert ids(rows) == [3, 4, 5, 6]
    assert crossings(rows, capsys) == 1


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        (lambda rows: rows.withColumn("id", F.col("id") * 10), [11, 21, 31, 41]),
        (lambda rows: rows.where("id > 2"), [4, 5]),
        (lambda rows: rows.select(F.explode(F.array("id", "id")).alias("id")), [2, 2, 3, 3, 4, 4, 5, 5]),
        (lambda rows: rows.unionByName(rows), [2, 2, 3, 3, 4, 4, 5, 5]),
        (lambda rows: rows.repartition(1), [2, 3, 4, 5]),
    ],
    ids=["column", "condition", "generator", "union", "shuffle"],
)
def test_a_step_after_another_transformation_gets_its_rows(source, between, expected):
    rows = between(mapped(source, plus_one))
    assert not is_mapped(rows)
    assert ids(mapped(rows, plus_one)) == expected


def test_a_step_after_cached_rows_does_not_compute_them_again(source, capsys):
    rows = mapped(source, plus_one).persist()
    try:
        assert ids(rows) == [1, 2, 3, 4]
        after = mapped(rows, plus_one)
        assert ids(after) == [2, 3, 4, 5]
        after.explain()
        assert "InMemoryTableScan" in capsys.readouterr().out
    finally:
        rows.unpersist()


def test_steps_get_and_return_no_rows(source):
    assert ids(mapped(source, nothing, plus_one)) == []
    assert ids(mapped(source.where("id < 0"), plus_one, plus_one)) == []


def test_a_step_that_raises_fails_the_job_wherever_it_is(source):
    for steps in ([raising], [raising, plus_one], [plus_one, raising], [plus_one, raising, nothing]):
        with pytest.raises(PythonException, match="an unexpected row"):
            mapped(source, *steps).collect()
