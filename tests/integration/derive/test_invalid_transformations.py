"""Transformations that Spark refuses: the error has its reason, and nothing is written."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deltalake import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.changes import Rollup
from kinesis_assets.derive.checked_rows import CheckedRows
from kinesis_assets.derive.upsert import Upsert
from kinesis_assets.errors import InvalidInput, LandingFailed
from support.derived import order, orders

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
    assert reason.startswith(
        f"table {either.table.uri}: Spark refuses the transformation, so nothing was written: [{condition}] "
    )
    assert reason.endswith(". Correct the function")
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


def test_a_roll_up_that_spark_cannot_analyze_is_refused_too(bench, derived, tmp_path):
    bench.put(order(1))
    bench.run()
    derived.run()
    above = replace(derived, table=type(derived.table)(str(tmp_path / "above")))
    with pytest.raises(InvalidInput, match=r"nothing was written: \[UNRESOLVED_COLUMN.*`price`"):
        above.run(
            source=derived.table.uri,
            transform=lambda rows: rows.groupBy("id").agg(F.sum("price")),
            mode=Rollup(("id",)),
        )
    assert not DeltaTable.is_deltatable(above.table.folder.uri)


class Unanalyzed:
    """Rows that Spark Connect has not analyzed yet."""

    @property
    def schema(self):
        raise AnalysisException("[UNRESOLVED_COLUMN] No `price`.;\n'Project ['price]\n\nJVM stacktrace:\n...")


@pytest.mark.parametrize(
    "rows", [Unanalyzed(), CheckedRows(Unanalyzed(), check=print)], ids=["rows", "checked"]
)
def test_rows_that_spark_connect_refuses_only_later_are_refused_in_the_same_way(bench, derived, rows):
    bench.put(order(1))
    bench.run()
    with pytest.raises(
        InvalidInput, match=r"written: \[UNRESOLVED_COLUMN\] No `price`\. Correct the function$"
    ):
        derived.run(transform=lambda _: rows)


def test_a_condition_that_spark_cannot_analyze_fails_with_its_reason(bench, derived):
    bench.put(order(1))
    bench.run()
    with pytest.raises(LandingFailed, match=r"nothing was committed: \[UNRESOLVED_COLUMN.*`op`"):
        derived.run(mode=Upsert(("id",), ("amount",), delete_where="op = 'DELETE'"))
    assert derived.rows.num_rows == 0
