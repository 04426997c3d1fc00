"""The Spark types of Avro schemas and JSON Schemas."""

from __future__ import annotations

from functools import reduce

import pytest

from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.avro_schema import avro_columns
from kinesis_assets.schemas.json_schema import json_schema_columns


def avro(*types: object, name: str = "Order") -> dict[str, object]:
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def decimal(precision: object, scale: object) -> dict[str, object]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("int", "INT"),
        ("long", "BIGINT"),
        ("float", "FLOAT"),
        ("double", "DOUBLE"),
        ("boolean", "BOOLEAN"),
        ("string", "STRING"),
        ("bytes", "BINARY"),
        (["null", "long"], "BIGINT"),
        (["int", "null", "long"], "BIGINT"),
        (["float", "double"], "DOUBLE"),
        (["string", "long"], "VARIANT"),
        (["null", "long", avro("int", name="Inner")], "VARIANT"),
        ({"type": "array", "items": ["int", "double"]}, "ARRAY<VARIANT>"),
        (["string", {"type": "null"}], "STRING"),
        ({"type": "string"}, "STRING"),
        ({"type": "enum", "name": "State", "symbols": ["A"]}, "STRING"),
        ({"type": "fixed", "name": "Hash", "size": 4}, "BINARY"),
        ({"type": "array", "items": "int"}, "ARRAY<INT>"),
        ({"type": "map", "values": ["null", "double"]}, "MAP<STRING, DOUBLE>"),
        ({"type": "int", "logicalType": "date"}, "DATE"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "TIMESTAMP"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "TIMESTAMP_NTZ"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "DECIMAL(9, 2)"),
        ({"type": "string", "logicalType": "uuid"}, "STRING"),
        ({"type": "int", "logicalType": "time-millis"}, "INT"),
        ({"type": "long", "logicalType": "date"}, "BIGINT"),
        ({"type": "long", "logicalType": ["date"]}, "BIGINT"),
        (decimal(38, 38), "DECIMAL(38, 38)"),
        (avro("int", name="Inner"), "STRUCT<f0: INT>"),
    ],
    ids=str,
)
def test_an_avro_type_has_a_spark_type(type_, expected):
    assert avro_columns(avro(type_)) == f"f0 {expected}"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("long", "is not a record"),
        (avro(), "the Avro schema is a record without fields"),
        (avro(avro(name="Inner")), "f0 is a record without fields"),
        (avro("Order"), "f0 is recursive"),
        (avro({"type": "array", "items": ["null", "Order"]}), "f0 is recursive"),
        (avro("Customer"), "f0 has the unknown type Customer"),
        (avro([]), "f0 is a union of no types"),
        (avro(["long", avro("Order", name="Inner")]), r"f0\.f0 is recursive"),
        (avro(avro(["null"], name="Inner")), r"f0\.f0 is always null"),
        (avro("null"), "f0 is always null"),
        (avro({"type": "array", "items": {"type": "null"}}), "f0 is always null"),
        (avro(None), "f0 has no type"),
        (avro({"logicalType": "date"}), "f0 has no type"),
        (avro("enum"), "f0 has the unknown type enum"),
        (avro({"type": {"type": "long"}}), "f0 has the unknown type"),
        (avro({"type": "enum", "symbols": ["A"]}), "f0 has a definition without a name"),
        ({"type": "record", "name": "Order", "fields": [{"type": "long"}]}, "has a field without a name"),
        (avro(decimal(39, 2)), "f0 is a decimal of 39 digits"),
        (avro(["null", decimal(2, 3)]), "f0 is a decimal with the precision 2 and the scale 3"),
        (avro(decimal(None, 0)), "f0 is a decimal with the precision None"),
        (avro(decimal("9", 0)), "f0 is a decimal with the precision 9"),
        (avro(decimal(9, -1)), "f0 is a decimal with .* the scale -1"),
    ],
    ids=str,
)
def test_an_avro_schema_without_a_spark_type_is_refused(schema, reason):
    with pytest.raises(InvalidInput, match=reason):
        avro_columns(schema)


def test_an_avro_schema_with_thousands_of_types_within_each_other_is_refused():
    arrays = reduce(lambda items, _: {"type": "array", "items": items}, range(2000), "long")
    with pytest.raises(InvalidInput, match="nested too deeply"):
        avro_columns(avro(arrays))


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ({"type": "integer"}, "BIGINT"),
        ({"type": "number"}, "DOUBLE"),
        ({"type": ["integer", "number"]}, "DOUBLE"),
        ({"type": "boolean"}, "BOOLEAN"),
        ({"type": "string"}, "STRING"),
        ({"type": "string", "format": "date"}, "DATE"),
        ({"type": "string", "format": "date-time"}, "TIMESTAMP"),
        ({"type": "string", "format": "email"}, "STRING"),
        ({"type": "string", "contentEncoding": "base64"}, "BINARY"),
        ({"enum": ["A", "B"]}, "STRING"),
        ({"const": "A"}, "STRING"),
        ({"type": "array", "items": {"type": "integer"}}, "ARRAY<BIGINT>"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "MAP<STRING, DOUBLE>"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "STRING"),
        ({"$ref": "#/$defs/price"}, "STRUCT<amount: DOUBLE>"),
    ],
    ids=str,
)
def test_a_json_type_has_a_spark_type(type_, expected):
    price = {"type": "object", "properties": {"amount": {"type": "number"}}}
    schema = {"properties": {"f0": type_}, "$defs": {"price": price}}
    assert json_schema_columns(schema) == f"f0 {expected}"


def test_a_required_json_property_must_be_present_unless_it_may_be_null():
    schema = {
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": ["integer", "null"]},
            "c`": {"type": "string"},
        },
        "required": ["a", "b"],
    }
    assert json_schema_columns(schema) == "a BIGINT NOT NULL, b BIGINT, `c``` STRING"


def test_a_json_property_that_says_itself_that_it_is_required_is_not():
    inner = {"type": "object", "properties": {"b": {"type": "integer"}}, "required": True}
    assert json_schema_columns({"properties": {"a": inner}}) == "a STRUCT<b: BIGINT>"


LISTS = {"type": "array", "items": {"$ref": "#/$defs/a"}}
MAPS = {"type": "object", "additionalProperties": {"$ref": "#/$defs/a"}}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ([], "is not an object"),
        ({"type": "object"}, "# has no properties"),
        ({"properties": {"a": {"type": ["string", "integer"]}}}, "#/properties/a has string, integer"),
        ({"properties": {"a": {}}}, "#/properties/a has no type"),
        ({"properties": {"a": {"type": "object"}}}, "#/properties/a has no properties"),
        ({"properties": {"a": {"type": "array"}}}, "#/properties/a/items has no type"),
        ({"properties": {"a": {"type": "text"}}}, "#/properties/a has the unknown type text"),
        ({"properties": {"a": {"$ref": "other.json"}}}, r"\bother\.json\b"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, r"#/\$defs/b\b"),
        (
            {"properties": {"a": {"type": [{"type": "integer"}, "null"]}}},
            "#/properties/a has the unknown type {",
        ),
        ({"properties": {"a": {"$ref": "#"}}}, "is recursive"),
        ({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": LISTS}}, "is recursive"),
        ({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": MAPS}}, "is recursive"),
        ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "is recursive"),
        ({"properties": {"a": {"oneOf": [{"type": "string"}, {"type": "integer"}]}}}, "has 2 alternatives"),
    ],
    ids=str,
)
def test_a_json_schema_without_a_spark_type_is_refused(schema, reason):
    with pytest.raises(InvalidInput, match=reason):
        json_schema_columns(schema)
