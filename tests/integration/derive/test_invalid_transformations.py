"""Transformations that Spark refuses: the error has its reason, and nothing is written."""

from __future__ import annotations

from dataclasses import replace

import dagster as dg
import pytest
from deltalake import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.dagster.derived.derived_asset import with_bad_records
from kinesis_assets.derive.derivation import CheckedRows, Rollup, Upsert
from kinesis_assets.errors import InvalidInput, LandingFailed
from support.derived import order, orders
from support.mentions import assert_mentions

MODES = {"append": None, "upsert": Upsert(("id",), ("amount",))}
TRANSFORMATIONS = {
    "UNRESOLVED_COLUMN.WITH_SUGGESTION": lambda rows: orders(rows).select("id", "amount", "price"),
    "ATTRIBUTE_NOT_SUPPORTED": lambda rows: rows.select(rows.price),
    "PARSE_SYNTAX_ERROR": lambda rows: orders(rows).where("amount >"),
    "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN": lambda rows: orders(rows).where("amount"),
    "NOT_EXPECTED_TYPE": lambda rows: orders(rows).withColumns("price"),
}
"""By the condition that Spark names."""


@pytest.fixture(params=MODES)
def either(request, bench, derived):
    """A derived table without and with a key, of whose source one row is new."""
    bench.put(order(1))
    bench.run()
    derived.derivation = replace(derived.derivation, mode=MODES[request.param])
    return derived


@pytest.mark.parametrize(("condition", "transform"), TRANSFORMATIONS.items(), ids=TRANSFORMATIONS)
def test_a_transformation_that_spark_cannot_analyze_is_refused_with_its_reason(either, condition, transform):
    with pytest.raises(InvalidInput) as caught:
        either.run(transform=transform)
    reason = str(caught.value)
    assert reason.startswith(f"table {either.table.uri}: ")
    assert f"[{condition}] " in reason
    assert "\n" not in reason
    assert "Project" not in reason
    assert not DeltaTable.is_deltatable(either.table.folder.uri)


def test_the_table_is_unchanged_and_the_corrected_function_consumes_the_same_rows(either, bench):
    either.run()
    before = either.table.snapshot().delta.version()
    bench.put(order(2))
    bench.run()
    with pytest.raises(InvalidInput):
        either.run(transform=lambda rows: orders(rows).select("*", "price"))
    assert either.table.snapshot().delta.version() == before
    either.run()
    assert either.values("id") == [1, 2]


@pytest.fixture
def above(bench, derived, tmp_path):
    """A roll-up of the orders by id, of which one is new."""
    bench.put(order(1))
    bench.run()
    derived.run()
    derivation = replace(derived.derivation, source=derived.table.uri, mode=Rollup(("id",)))
    return replace(derived, table=type(derived.table)(str(tmp_path / "above")), derivation=derivation)


def test_a_roll_up_that_spark_cannot_analyze_is_refused_too(above):
    with pytest.raises(InvalidInput, match=r"\[UNRESOLVED_COLUMN.*`price`"):
        above.run(transform=lambda rows: rows.groupBy("id").agg(F.sum("price")))
    assert not DeltaTable.is_deltatable(above.table.folder.uri)


@pytest.mark.parametrize(
    ("by", "reason"),
    [
        (("id", "price"), r"^table .*: by: .*\bprice\b.*\bid, item, amount\b"),
        (("parts",), r"^table .*: by: .*\bparts\b"),
    ],
    ids=["missing", "nested"],
)
def test_a_roll_up_by_a_column_that_cannot_identify_groups_is_refused(bench, derived, above, by, reason):
    bench.put(order(2))
    bench.run()
    derived.run(transform=lambda rows: orders(rows).withColumn("parts", F.array("id")))
    with pytest.raises(InvalidInput, match=reason):
        above.run(transform=lambda rows: rows.groupBy("id").count(), mode=Rollup(by))
    assert not DeltaTable.is_deltatable(above.table.folder.uri)


def nothing(rows):
    """Count rows without returning them, as a function without `return` does."""
    rows.count()


def broken(rows):
    """Use an attribute that a list does not have."""
    return rows.select(rows.columns.price)


@pytest.mark.parametrize("bounded", [False, True])
def test_a_function_that_fails_is_an_error_with_the_table_and_the_reason(either, bounded):
    transform = with_bad_records(broken, either.table.uri, 0.5 if bounded else None)
    with pytest.raises(InvalidInput) as caught:
        either.run(transform=transform)
    assert str(caught.value).startswith(f"table {either.table.uri}: ")
    assert_mentions(str(caught.value), "broken", "AttributeError: 'list' object has no attribute 'price'")
    assert isinstance(caught.value.__cause__, AttributeError)
    assert not DeltaTable.is_deltatable(either.table.folder.uri)


def test_a_column_that_is_missing_as_an_attribute_is_named_on_every_version_of_spark(bench, derived):
    bench.put(order(1))
    bench.run()
    with pytest.raises(InvalidInput, match=f"^table {derived.table.uri}: .*price.*Correct the function"):
        derived.run(transform=lambda rows: rows.select(rows.price))


def test_a_function_may_request_that_dagster_retries_the_run(bench, derived):
    bench.put(order(1))
    bench.run()

    def unavailable(_):
        raise dg.RetryRequested

    with pytest.raises(dg.RetryRequested):
        derived.run(transform=unavailable)


def test_an_error_of_a_job_that_a_function_runs_is_an_error_of_spark(bench, derived):
    bench.put(order(1))
    bench.run()
    with pytest.raises(LandingFailed, match=r"[]:] no\b"):
        derived.run(transform=lambda rows: rows.select(F.raise_error(F.lit("no"))).collect())


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize(
    ("function", "returned"),
    [(nothing, "None"), (lambda rows: rows.columns, "builtins.list")],
    ids=["None", "list"],
)
def test_a_function_that_returns_no_data_frame_is_refused_with_its_name(either, function, returned, bounded):
    transform = with_bad_records(function, either.table.uri, 0.5 if bounded else None)
    with pytest.raises(InvalidInput) as caught:
        either.run(transform=transform)
    assert str(caught.value).startswith(f"table {either.table.uri}: ")
    assert_mentions(str(caught.value), function.__name__, "DataFrame", returned)
    assert not DeltaTable.is_deltatable(either.table.folder.uri)


def test_the_function_of_a_roll_up_that_returns_no_data_frame_is_refused_too(above):
    with pytest.raises(InvalidInput, match=r"\bnothing\b.*\bDataFrame\b"):
        above.run(transform=nothing)
    assert not DeltaTable.is_deltatable(above.table.folder.uri)


class Unanalyzed(DataFrame):
    """Rows that Spark Connect has not analyzed yet."""

    def __new__(cls):
        return object.__new__(cls)

    def __init__(self):
        pass

    @property
    def schema(self):
        raise AnalysisException("[UNRESOLVED_COLUMN] No `price`.;\n'Project ['price]\n\nJVM stacktrace:\n...")


@pytest.mark.parametrize(
    "rows", [Unanalyzed(), CheckedRows(Unanalyzed(), check=print)], ids=["rows", "checked"]
)
def test_rows_that_spark_connect_refuses_only_later_are_refused_in_the_same_way(bench, derived, rows):
    bench.put(order(1))
    bench.run()
    with pytest.raises(InvalidInput, match=r"\[UNRESOLVED_COLUMN\] No `price`"):
        derived.run(transform=lambda _: rows)


CONDITIONS = {"UNRESOLVED_COLUMN": "op = 'DELETE'", "FILTER_NOT_BOOLEAN": "item", "PARSE_SYNTAX": "amount >"}


@pytest.mark.parametrize(("reason", "condition"), CONDITIONS.items(), ids=CONDITIONS)
def test_a_condition_that_spark_cannot_analyze_is_refused_before_the_table_is_created(
    bench, derived, reason, condition
):
    bench.put(order(1))
    bench.run()
    with pytest.raises(InvalidInput, match=rf"delete_where.*\[.*{reason}"):
        derived.run(mode=Upsert(("id",), ("amount",), delete_where=condition))
    assert not DeltaTable.is_deltatable(derived.table.folder.uri)


def test_a_condition_on_a_column_that_the_function_leaves_out_is_refused_before_the_table_is_created(
    bench, derived
):
    bench.put(order(1))
    bench.run()
    with pytest.raises(InvalidInput, match=r"delete_where.*UNRESOLVED_COLUMN.*`item`"):
        derived.run(
            transform=lambda rows: orders(rows).select("id", "amount"),
            mode=Upsert(("id",), ("amount",), delete_where="item = 'gone'"),
        )
    assert not DeltaTable.is_deltatable(derived.table.folder.uri)


def test_fields_that_differ_only_by_case_are_refused_before_the_table_is_created(bench, derived):
    bench.put(order(1))
    bench.run()
    pair = F.struct(F.lit(1).alias("x"), F.lit(2).alias("X"))
    with pytest.raises(InvalidInput, match=r"the column pair has the fields x, X"):
        derived.run(transform=lambda rows: orders(rows).withColumn("pair", pair))
    assert not DeltaTable.is_deltatable(derived.table.folder.uri)
