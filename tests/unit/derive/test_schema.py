"""The columns that a derived table can have. A DataFrame is not needed: only its schema counts."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from kinesis_assets.derive.commit import Attempt, commit
from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.derive.data_files import DerivedFileWriter, Manifest
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.schema import (
    accept_columns,
    accepted_schema,
    growing,
    refuse_missing_columns,
    table_schema,
)
from kinesis_assets.derive.write import writing_job
from kinesis_assets.errors import InvalidInput, SchemaChangeRefused, UpsertOvertaken
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.delta.version import commit_properties
from kinesis_assets.table.policy import STATISTICS_PROPERTY


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


def test_a_transform_of_a_column_of_another_type_is_refused():
    with pytest.raises(
        InvalidInput, match=r"at has the type string; for day\(at\) use a date or a timestamp"
    ):
        schema_of(("at", t.StringType()), partition_by=["day(at)"])
    with pytest.raises(InvalidInput, match="does not return at,"):
        schema_of(("day", t.DateType()), partition_by=["day(at)"])


def test_a_column_with_the_name_of_a_partition_is_refused():
    with pytest.raises(InvalidInput, match=r"the column AT_day has the name of the partition day\(at\)"):
        schema_of(("at", t.DateType()), ("AT_day", t.StringType()), partition_by=["day(at)"])


def test_a_column_that_another_run_has_just_added_is_not_added_again(tmp_path):
    table = DerivedTable(str(tmp_path / "orders"))
    table.open_or_create("source", schema_of(("id", t.LongType())), ())
    wanted = schema_of(("id", t.LongType()), ("price", t.LongType()))
    for snapshot in [table.snapshot(), table.snapshot()]:
        accept_columns(snapshot, wanted)
    newest = table.snapshot()
    assert newest.version == 1
    assert {field["name"] for field in newest.schema["fields"]} == {"id", "price", "_batch_id"}


# Growth


def struct(**fields):
    return t.StructType([t.StructField(name, kind) for name, kind in fields.items()])


ITEM = struct(sku=t.StringType())
LATER_ITEM = struct(number=t.IntegerType(), sku=t.StringType())


@pytest.fixture
def orders(tmp_path):
    """A table of orders with a struct."""
    table = DerivedTable(str(tmp_path / "orders"))
    table.open_or_create("source", schema_of(("item", ITEM), ("id", t.IntegerType())), ())
    return table


def types_of(table):
    return {field["name"]: field["type"] for field in table.snapshot().schema["fields"]}


def written(table):
    """Add a row to a table, and return the smallest values that its log has for the row's file."""
    snapshot, batch_id = table.snapshot(), new_id(table.clock)
    job = writing_job(table, snapshot.file_schema, (), batch_id)
    writer = DerivedFileWriter(job)
    row = dict.fromkeys(job.schema.names) | {"id": 7, "_batch_id": batch_id}
    writer.write(pa.RecordBatch.from_pylist([row], job.schema))
    commit(
        table,
        Attempt(cursor=Cursor(source="source"), batch_id=batch_id, manifest=Manifest(tuple(writer.close()))),
        expected=snapshot.commit_id,
    )
    (file,) = table.snapshot().data_files(["id", "_batch_id"])
    return file.smallest, batch_id


def test_a_new_field_of_a_struct_is_added_after_those_of_the_table(orders):
    accept_columns(orders.snapshot(), schema_of(("item", LATER_ITEM), ("id", t.IntegerType())))
    item = struct(sku=t.StringType(), number=t.IntegerType())
    assert types_of(orders)["item"] == item.jsonValue()


def test_the_statistics_of_columns_after_a_struct_are_known(orders):
    smallest, batch_id = written(orders)
    assert smallest == {"id": 7, "_batch_id": batch_id}


def test_a_table_that_lists_no_structs_gets_them_with_its_next_rows(orders):
    orders.snapshot().set_properties({STATISTICS_PROPERTY: "id,_batch_id"})
    _, batch_id = written(orders)
    accept_columns(orders.snapshot(), schema_of(("item", ITEM), ("id", t.IntegerType())))
    (file,) = orders.snapshot().data_files(["_batch_id"])
    assert file.smallest == {"_batch_id": batch_id}
    version = orders.snapshot().version
    accept_columns(orders.snapshot(), schema_of(("item", ITEM), ("id", t.IntegerType())))
    assert orders.snapshot().version == version


def test_a_wider_type_is_not_added_to_files_with_the_narrower_one(orders):
    wanted = schema_of(("item", ITEM), ("id", t.LongType()))
    snapshot = orders.snapshot()
    schema = accepted_schema(snapshot, wanted)
    assert growing(snapshot, schema) == ["id"]
    with pytest.raises(UpsertOvertaken):
        accept_columns(snapshot, wanted)
    assert types_of(orders)["id"] == "integer"


def test_rows_of_a_registry_that_lack_a_field_of_a_struct_are_refused(orders):
    accept_columns(orders.snapshot(), schema_of(("item", LATER_ITEM), ("id", t.IntegerType())))
    stale = schema_of(("item", ITEM), ("id", t.IntegerType()))
    with pytest.raises(SchemaChangeRefused, match=r"lack item\.number, .*Nothing was written"):
        refuse_missing_columns(orders.snapshot(), stale)


@pytest.mark.parametrize("kind", [t.DoubleType(), t.StringType()], ids=str)
def test_a_refused_type_is_named_with_the_old_one_and_the_ways_out(tmp_path, kind):
    table = DerivedTable(str(tmp_path / "prices"))
    table.open_or_create("source", schema_of(("price", t.FloatType())), ())
    with pytest.raises(
        SchemaChangeRefused, match=r"price has the type float.* Cast it.*name, or run"
    ) as error:
        accepted_schema(table.snapshot(), schema_of(("price", kind)), compared=["price"])
    assert kind.simpleString() in str(error.value)


def test_columns_cannot_be_changed_without_the_files_that_stay(orders):
    written(orders)
    snapshot = orders.snapshot()
    schema = accepted_schema(snapshot, schema_of(("item", ITEM), ("id", t.LongType())))
    with pytest.raises(ValueError, match="without its other files"):
        snapshot._write([], properties=commit_properties({}, exclusive=True), columns=schema)
    assert types_of(orders)["id"] == "integer"
