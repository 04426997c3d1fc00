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


def with_properties(**types):
    return {"type": "object", "properties": {name: {"type": type_} for name, type_ in types.items()}}


BASE = with_properties(id="integer")
REFERENCE = {"$ref": "#/$defs/Base"}
AMOUNT = with_properties(amount="number")
OWN = {"properties": AMOUNT["properties"]}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (AMOUNT | {"allOf": [REFERENCE]}, "amount DOUBLE, id BIGINT"),
        (OWN | {"allOf": [REFERENCE]}, "amount DOUBLE, id BIGINT"),
        ({"allOf": [REFERENCE, AMOUNT]}, "id BIGINT, amount DOUBLE"),
        ({"allOf": [{"allOf": [REFERENCE]}, AMOUNT]}, "id BIGINT, amount DOUBLE"),
        (OWN | {"anyOf": [REFERENCE]}, "amount DOUBLE, id BIGINT"),
        (AMOUNT | {"oneOf": [REFERENCE, {"type": "null"}]}, "amount DOUBLE, id BIGINT"),
    ],
    ids=str,
)
def test_a_json_schema_has_the_columns_of_the_schemas_that_it_extends(schema, expected):
    assert json_schema_columns(schema | {"$defs": {"Base": BASE}}) == expected


def test_a_json_schema_requires_what_the_schemas_that_it_extends_require():
    base = BASE | {"required": ["id"]}
    schema = AMOUNT | {"allOf": [REFERENCE], "required": ["amount"], "$defs": {"Base": base}}
    assert json_schema_columns(schema) == "amount DOUBLE NOT NULL, id BIGINT NOT NULL"


def test_a_json_property_has_the_properties_that_each_of_the_extended_schemas_gives_it():
    schemas = [{"properties": {"a": BASE}}, {"properties": {"a": AMOUNT}}]
    assert json_schema_columns({"allOf": schemas}) == "a STRUCT<id: BIGINT, amount: DOUBLE>"


@pytest.mark.parametrize(
    ("draft", "expected"),
    [
        ("https://json-schema.org/draft/2020-12/schema", "amount DOUBLE, id BIGINT"),
        ("https://json-schema.org/draft/2019-09/schema", "amount DOUBLE, id BIGINT"),
        ("http://json-schema.org/draft-07/schema#", "id BIGINT"),
        ("http://json-schema.org/draft-04/schema#", "id BIGINT"),
    ],
)
def test_what_is_beside_a_json_reference_applies_since_draft_2019_09(draft, expected):
    assert json_schema_columns(AMOUNT | REFERENCE | {"$schema": draft, "$defs": {"Base": BASE}}) == expected


@pytest.mark.parametrize(
    ("schema", "lost"),
    [
        (AMOUNT | {"oneOf": [with_properties(a="string"), with_properties(b="string")]}, "a, b"),
        (OWN | {"anyOf": [REFERENCE, {"required": ["amount"]}]}, "id"),
        (AMOUNT | {"allOf": [{"oneOf": [REFERENCE, {"not": REFERENCE}]}]}, "id"),
        ({"type": "object", "oneOf": [REFERENCE, AMOUNT]}, "amount, id"),
        (
            {"properties": {"a": AMOUNT}, "oneOf": [{"properties": {"a": REFERENCE}}, {"required": ["a"]}]},
            r"a\.id",
        ),
    ],
    ids=str,
)
def test_a_json_schema_of_which_only_alternatives_have_a_property_is_refused(schema, lost):
    with pytest.raises(InvalidInput, match=rf"# has alternatives .* outside of anyOf and oneOf: {lost}$"):
        json_schema_columns(schema | {"$defs": {"Base": BASE}})


def test_what_json_alternatives_say_of_the_values_of_a_map_is_ignored():
    detail = {"type": "object", "additionalProperties": {"type": "string"}}
    alternatives = [{"properties": {"detail": {"properties": {name: {}}}}} for name in "xy"]
    schema = {"type": "object", "properties": {"detail": detail}, "oneOf": alternatives}
    assert json_schema_columns(schema) == "detail MAP<STRING, STRING>"


def test_a_property_that_a_json_alternative_forbids_needs_no_column():
    alternatives = [{"properties": {"b": False}}, {"required": ["amount"]}]
    assert json_schema_columns(OWN | {"anyOf": alternatives}) == "amount DOUBLE"


def test_json_alternatives_without_further_properties_are_ignored():
    restricted = {"properties": {"amount": {"minimum": 0}}}
    schema = OWN | {"anyOf": [restricted, {"required": ["amount"]}]}
    assert json_schema_columns(schema) == "amount DOUBLE"


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
