"""The entry of a table: its types, its limits, and whose it is."""

from __future__ import annotations

import botocore.session
import pytest

from kinesis_assets.errors import CatalogFailed
from kinesis_assets.operations.catalog.entry import MAX_NAME, MAX_TYPE, MAX_VALUE
from kinesis_assets.table.column_schemas import schema_of
from kinesis_assets.table.data_file import TABLE_SCHEMA
from support.catalog_tables import entry_of

ADDRESS = {
    "type": "struct",
    "fields": [
        {"name": "City", "type": "string", "nullable": True, "metadata": {}},
        {"name": "at", "type": "timestamp_ntz", "nullable": True, "metadata": {}},
    ],
}
LIST = {"type": "array", "elementType": ADDRESS, "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": "decimal(10,2)", "valueContainsNull": True}


def test_an_entry_is_that_of_a_native_delta_table():
    entry = entry_of(
        {"id": "long", "Day": "date"},
        partition_by=("Day",),
        version=7,
        properties={"delta.logRetentionDuration": "interval 30 days"},
    )
    assert entry.table_input() == {
        "Name": "orders",
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {
            "EXTERNAL": "TRUE",
            "classification": "delta",
            "spark.sql.sources.provider": "delta",
            "table_type": "delta",
            "delta.logRetentionDuration": "interval 30 days",
            "kinesis_assets.asset": "orders",
            "kinesis_assets.fingerprint": entry.fingerprint,
            "kinesis_assets.stream_asset": "kinesis/clicks",
            "kinesis_assets.table_id": "11111111-1111-4111-8111-111111111111",
            "kinesis_assets.version": "7",
        },
        "PartitionKeys": [{"Name": "day", "Type": "date"}],
        "StorageDescriptor": {
            "Columns": [{"Name": "id", "Type": "bigint"}],
            "Location": "s3://lake/orders/",
            "InputFormat": "org.apache.hadoop.mapred.SequenceFileInputFormat",
            "OutputFormat": "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
            "SerdeInfo": {
                "SerializationLibrary": "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
                "Parameters": {"path": "s3://lake/orders/", "serialization.format": "1"},
            },
        },
    }


@pytest.mark.parametrize(
    ("kind", "hive"),
    [
        ("string", "string"),
        ("long", "bigint"),
        ("integer", "int"),
        ("short", "smallint"),
        ("byte", "tinyint"),
        ("float", "float"),
        ("double", "double"),
        ("boolean", "boolean"),
        ("binary", "binary"),
        ("date", "date"),
        ("timestamp", "timestamp"),
        ("timestamp_ntz", "timestamp"),
        ("decimal(38,18)", "decimal(38,18)"),
        (ADDRESS, "struct<city:string,at:timestamp>"),
        (LIST, "array<struct<city:string,at:timestamp>>"),
        (MAP, "map<string,decimal(10,2)>"),
    ],
)
def test_each_type_has_the_name_that_hive_has_for_it(kind, hive):
    assert entry_of({"x": kind}).columns == (("x", hive),)


def test_the_columns_of_a_raw_table_have_types_of_hive():
    columns = {field["name"]: field["type"] for field in schema_of(TABLE_SCHEMA)["fields"]}
    entry = entry_of(columns, partition_by=("arrival_date",))
    assert dict(entry.columns) == {
        "stream": "string",
        "shard_id": "string",
        "sequence_number": "string",
        "sub_sequence_number": "bigint",
        "partition_key": "string",
        "data": "binary",
        "approximate_arrival_timestamp": "timestamp",
        "batch_id": "bigint",
        "error": "string",
    }
    assert entry.partition_keys == (("arrival_date", "date"),)


def nested(*names):
    return {"type": "struct", "fields": [{"name": name, "type": "long"} for name in names]}


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"Id": "long", "id": "long"}, "cannot have Id and id: their names differ only by case"),
        ({"a": nested("X", "x")}, r"cannot have a\.X and a\.x: their names differ only by case"),
        ({"a": nested("x-y")}, r"cannot have a\.x-y: in the name of a field, Athena accepts letters, digits"),
        ({"a": {"type": "array", "elementType": "variant"}}, "cannot have a: it has the type variant"),
        ({"a" * 256: "long"}, "its name has 256 characters, and at most 255 are allowed"),
        ({"a": nested(*(f"field_{n:05}" for n in range(8000)))}, "at most 131072 are allowed"),
    ],
)
def test_a_column_that_the_catalog_cannot_have_is_refused(columns, reason):
    with pytest.raises(CatalogFailed, match=reason):
        entry_of(columns)


def test_a_property_that_is_too_long_is_left_out():
    assert entry_of({"id": "long"}, properties={"a": "x" * 512_001, "b": "y"}).properties == {"b": "y"}


def test_the_limits_are_those_of_the_api():
    model = botocore.session.get_session().get_service_model("glue")
    column = model.shape_for("Column").members
    assert column["Name"].metadata["max"] == MAX_NAME
    assert column["Type"].metadata["max"] == MAX_TYPE
    assert model.shape_for("ParametersMap").value.metadata["max"] == MAX_VALUE


def test_an_entry_says_whether_it_has_the_columns_and_the_properties_of_the_table():
    found = entry_of({"id": "long"}, version=3).table_input()
    assert entry_of({"id": "long"}, version=9).is_in(found)  # later commits have only added rows
    assert not entry_of({"id": "long", "b": "long"}, version=9).is_in(found)
    assert not entry_of({"id": "long"}, version=9, properties={"a": "b"}).is_in(found)


def test_an_entry_of_a_later_version_is_not_replaced_by_an_earlier_one():
    found = entry_of({"id": "long", "b": "long"}, version=9).table_input()
    assert entry_of({"id": "long"}, version=3).is_in(found)
    recreated = entry_of({"id": "long"}, version=3, table_id="22222222-2222-4222-8222-222222222222")
    assert not recreated.is_in(found)


def test_the_entry_of_a_table_that_was_created_again_in_its_folder_may_be_replaced():
    found = entry_of({"id": "long"}).table_input()
    again = entry_of({"id": "string"}, table_id="22222222-2222-4222-8222-222222222222")
    assert again.refusal_to_replace(found) is None
    moved = entry_of({"id": "string"}, uri="s3://lake/others")
    assert moved.refusal_to_replace(found) == "the entry is that of another table, at s3://lake/orders/"


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({}, "which somebody else made; its location is empty"),
        ({"CreatedBy": "arn:aws:iam::1:user/ada"}, "which arn:aws:iam::1:user/ada made"),
        ({"Parameters": {"UPDATED_BY_CRAWLER": "nightly"}}, "which the crawler nightly made"),
    ],
)
def test_an_entry_without_marks_is_not_replaced(found, reason):
    assert reason in entry_of({"id": "long"}).refusal_to_replace(found)


def test_what_people_add_to_an_entry_is_kept():
    found = entry_of({"id": "long"}).table_input() | {"Description": "All orders", "Retention": 0}
    found["Parameters"]["team"] = "sales"
    found["StorageDescriptor"]["Columns"][0]["Comment"] = "Number of the order"
    entry = entry_of({"id": "long", "b": "long"}, version=1)
    assert entry.refusal_to_replace(found) is None
    replaced = entry.table_input(found)
    assert (replaced["Description"], replaced["Parameters"]["team"]) == ("All orders", "sales")
    assert replaced["StorageDescriptor"]["Columns"] == [
        {"Name": "id", "Type": "bigint", "Comment": "Number of the order"},
        {"Name": "b", "Type": "bigint"},
    ]


@pytest.mark.parametrize("part", ["Columns", "Location", "SerdeInfo"])
def test_an_entry_that_somebody_has_changed_is_not_replaced(part):
    entry = entry_of({"id": "long"})
    found = entry.table_input()
    other = {"Columns": [], "Location": "s3://elsewhere/", "SerdeInfo": {}}
    found["StorageDescriptor"][part] = other[part]
    assert entry.refusal_to_replace(found) == (
        "somebody has changed the columns, the location or the format of the entry"
    )
