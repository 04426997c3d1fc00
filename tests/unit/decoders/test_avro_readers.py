"""A reader's Avro schema adds its defaults to what others wrote, and finds fields by its aliases."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from kinesis_assets.decoders import Glue, SchemaVersion
from kinesis_assets.decoders.avro import AvroDefinition, AvroReader
from kinesis_assets.errors import InvalidInput
from support.glue_records import avro, framed
from support.raw_rows import decoded
from support.spark_types import spark_type

SCHEMA_ID = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"


def record(*fields: object, name: str = "Order", **more: object) -> dict[str, object]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: object, **more: object) -> dict[str, object]:
    return {"name": name, "type": kind, **more}


def read(writer: object, value: object, reader: object, ddl: str) -> object:
    found = AvroReader(
        AvroDefinition(json.dumps(writer)), spark_type(ddl), AvroDefinition(json.dumps(reader))
    )
    return found.read(avro(writer, value))


WRITER = record(field("order_id", "long"))


@pytest.mark.parametrize(
    ("kind", "default", "ddl", "value"),
    [
        ("string", "EUR", "string", "EUR"),
        ("boolean", True, "boolean", True),
        ("int", 7, "int", 7),
        ("double", 1, "double", 1.0),
        ("bytes", "\u00ff\u0001", "binary", b"\xff\x01"),
        ({"type": "fixed", "name": "F", "size": 1}, "\u0080", "binary", b"\x80"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "string", "B"),
        (["null", "string"], None, "string", None),
        (["string", "null"], "x", "string", "x"),
        ({"type": "array", "items": "long"}, [1], "array<long>", [1]),
        ({"type": "map", "values": "bytes"}, {"k": "\u00ff"}, "map<string, binary>", {"k": b"\xff"}),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "\u00ff",
            "decimal(4,2)",
            Decimal("-0.01"),
        ),
        ({"type": "int", "logicalType": "date"}, 1, "date", date(1970, 1, 2)),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            -1,
            "timestamp",
            datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            1,
            "timestamp_ntz",
            datetime(1970, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001
        ),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 5, "long", 5),
        (
            record(field("sku", "string"), field("n", "int", default=1), name="Item"),
            {"sku": "x"},
            "struct<sku: string, n: int>",
            {"sku": "x", "n": 1},
        ),
    ],
)
def test_a_field_that_the_writer_lacks_has_its_default(kind, default, ddl, value):
    reader = record(field("order_id", "long"), field("a", kind, default=default))
    assert read(WRITER, {"order_id": 7}, reader, f"order_id long, a {ddl}") == {"order_id": 7, "a": value}


def test_a_field_that_the_writer_lacks_is_null_without_a_default():
    reader = record(field("order_id", "long"), field("note", "string"), field("n", "int", default=1))
    assert read(WRITER, {"order_id": 7}, reader, "order_id long, note string, n int") == {
        "order_id": 7,
        "n": 1,
    }


def test_a_default_does_not_replace_what_was_written():
    reader = record(field("order_id", "long", default=1))
    assert read(WRITER, {"order_id": 7}, reader, "order_id long") == {"order_id": 7}


def test_a_field_is_found_by_its_alias():
    reader = record(
        field("id", "long", aliases=["number", "order_id"]), field("order_id", "string", default="-")
    )
    writer = record(field("order_id", "long"), field("total", "double"))
    assert read(writer, {"order_id": 7, "total": 1.5}, reader, "id long, total double") == {"id": 7}


def test_a_field_is_found_by_its_own_name_first():
    writer = record(field("a", "long"), field("b", "long"))
    reader = record(field("a", "long", aliases=["b"]), field("c", "long", default=3))
    assert read(writer, {"a": 1, "b": 2}, reader, "a long, c long") == {"a": 1, "c": 3}


def test_records_within_others_are_resolved():
    old, new = (
        record(field("sku", "string"), name="shop.Item"),
        record(field("code", "string", aliases=["sku"]), field("n", "int", default=1), name="Thing"),
    )

    def order(item: object) -> dict[str, object]:
        name = item["name"]
        return record(
            field("one", ["null", item]),
            field("many", {"type": "array", "items": ["null", name]}),
            field("by_id", {"type": "map", "values": name}),
        )

    found = read(
        order(old),
        {"one": {"sku": "x"}, "many": [{"sku": "y"}, None], "by_id": {"k": {"sku": "z"}}},
        order(new),
        "one struct<code: string, n: int>, many array<struct<code: string, n: int>>,"
        " by_id map<string, struct<code: string, n: int>>",
    )
    assert found == {
        "one": {"code": "x", "n": 1},
        "many": [{"code": "y", "n": 1}, None],
        "by_id": {"k": {"code": "z", "n": 1}},
    }


def test_a_null_record_stays_null():
    old = record(field("item", ["null", record(field("a", "int"), name="Item")]))
    new = record(field("item", ["null", record(field("b", "int", default=1), name="Item")]))
    assert read(old, {"item": None}, new, "item struct<b: int>") == {"item": None}


def test_a_glue_record_is_read_with_the_readers_schema():
    reader = record(field("order_id", "long"), field("currency", "string", default="EUR"))
    decoder = Glue(
        spark_type("order_id long, currency string"),
        schemas={SCHEMA_ID: SchemaVersion("AVRO", json.dumps(WRITER))},
        reader=json.dumps(reader),
    )
    (row,) = decoded([framed(SCHEMA_ID, avro(WRITER, {"order_id": 7}))], decoder)
    assert (row["value"], row["error"]) == ({"order_id": 7, "currency": "EUR"}, None)


@pytest.mark.parametrize(
    ("reader", "error"),
    [
        ("{", "not an Avro schema"),
        (json.dumps(record(field("a", "bytes", default=1))), "invalid default|not an Avro schema"),
        (json.dumps(record(field("a", {"type": "array", "items": "bytes"}, default=[1]))), "invalid default"),
    ],
)
def test_a_readers_schema_that_cannot_be_used_is_refused(reader, error):
    decoder = Glue(spark_type("a binary"), schemas={}, reader=reader)
    with pytest.raises(InvalidInput, match=error):
        decoder.resolved()


ITEM = record(field("order_id", "long"), name="Item")
UNION = record(field("a", ["null", "string", "long", "bytes", {"type": "array", "items": "double"}, ITEM]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("x", '"x"'),
        (7, "7"),
        ([1.5], "[1.5]"),
        (b"hi", '"aGk="'),
        ({"order_id": 7}, '{"order_id":7}'),
    ],
)
def test_a_union_of_several_types_is_json_text(value, text):
    found = AvroReader(AvroDefinition(json.dumps(UNION)), spark_type("a variant"))
    assert found.read(avro(UNION, {"a": value})) == {"a": text}
