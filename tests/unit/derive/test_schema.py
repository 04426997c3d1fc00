"""The columns that a derived table can have. A DataFrame is not needed: only its schema counts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.sql import types as t

from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.schema import accept_columns, table_schema
from kinesis_assets.errors import InvalidInput


def schema_of(*fields, partition_by=(), key=()):
    rows = SimpleNamespace(schema=t.StructType([t.StructField(*field) for field in fields]))
    return table_schema("orders", rows, partition_by, key)


@pytest.mark.parametrize(
    "names",
    [
        ["_batch_id"],
        ["_BATCH_ID"],
        ["__file"],
        ["id", "id"],
        ["id", "Id"],
        ["a b"],
        ["a.b"],
        ["a`b"],
        ["a=b"],
        [""],
    ],
    ids=str,
)
def test_names_that_columns_cannot_have_are_refused(names):
    with pytest.raises(InvalidInput, match="rename"):
        schema_of(*((name, t.LongType()) for name in names))


@pytest.mark.parametrize(
    "kind",
    [
        t.NullType(),
        t.ArrayType(t.NullType()),
        t.StructType([t.StructField("since", t.DayTimeIntervalType())]),
        t.MapType(t.StringType(), t.YearMonthIntervalType()),
    ],
    ids=str,
)
def test_types_that_delta_tables_do_not_have_are_refused(kind):
    with pytest.raises(InvalidInput, match="cast it"):
        schema_of(("since", kind))


@pytest.mark.parametrize(
    "kind",
    [t.StructType([t.StructField("id", t.LongType())]), t.ArrayType(t.LongType())],
    ids=str,
)
def test_a_key_of_several_parts_is_refused(kind):
    with pytest.raises(InvalidInput, match=r"\bid\b"):
        schema_of(("id", kind), key=["id"])


@pytest.mark.parametrize(
    "within", [lambda kind: kind, t.ArrayType, lambda kind: t.MapType(t.StringType(), kind)]
)
def test_fields_of_a_struct_that_differ_only_by_case_are_refused(within):
    kind = t.StructType([t.StructField("x", t.LongType()), t.StructField("X", t.LongType())])
    with pytest.raises(InvalidInput, match=r"the column a has the fields x, X, .* rename"):
        schema_of(("a", within(t.StructType([t.StructField("inner", kind)]))))


@pytest.mark.parametrize(
    "kind",
    [
        t.DecimalType(38, 6),
        t.TimestampNTZType(),
        t.MapType(t.StringType(), t.ArrayType(t.StructType([t.StructField("at", t.TimestampType())]))),
    ],
    ids=str,
)
def test_types_that_delta_tables_have_are_kept(kind):
    (column, _) = schema_of(("column", kind))["fields"]
    assert column["type"] == kind.jsonValue()


@pytest.mark.parametrize("kind", [t.TimestampType(), t.ArrayType(t.LongType())], ids=str)
def test_types_that_partition_columns_cannot_have_are_refused(kind):
    with pytest.raises(InvalidInput, match=r"\bat\b"):
        schema_of(("at", kind), partition_by=["at"])


def test_a_column_that_another_run_has_just_added_is_not_added_again(tmp_path):
    table = DerivedTable(str(tmp_path / "orders"))
    table.open_or_create("source", schema_of(("id", t.LongType())), ())
    wanted = schema_of(("id", t.LongType()), ("price", t.LongType()))
    for snapshot in [table.snapshot(), table.snapshot()]:
        accept_columns(snapshot, wanted)
    newest = table.snapshot()
    assert newest.version == 1
    assert {field["name"] for field in newest.schema["fields"]} == {"id", "price", "_batch_id"}
