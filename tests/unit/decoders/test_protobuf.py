"""Protobuf messages are decoded to exactly the type that they have, or have an error with the reason."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinesis_assets.decoders.decoder import Undecodable
from kinesis_assets.decoders.protobuf import Protobuf, protobuf_reader
from kinesis_assets.decoders.spark_types import value_type
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.protobuf_schema import protobuf_columns, read_message
from support.protobuf import descriptor_set, message
from support.raw_rows import decoded
from support.spark_types import spark_type

HEAD = 'syntax = "proto3"; package shop;'
ORDER = HEAD + " message Order { int64 order_id = 1; string note = 2; double amount = 3; }"
# order_id 7 as a varint; note, two bytes, "hi"; amount 2.5, little-endian.
ORDER_BYTES = bytes.fromhex("08 07 12 02 6869 19 0000000000000440")
TYPE = "order_id long, note string, amount double"


def protobuf(definition: str, ddl: str | None = None, name: str = "shop.Order") -> Protobuf:
    descriptors = descriptor_set(definition)
    if ddl is None:
        # As a session parses it, which needs a JVM.
        ddl = protobuf_columns(read_message(descriptors, name)).lower().replace("bigint", "long")
    return Protobuf(descriptors, name, spark_type(ddl))


def value_of(definition: str, ddl: str, data: bytes) -> object:
    (row,) = decoded([data], protobuf(definition, ddl))
    assert row["error"] is None
    return row["value"]


def test_a_message_is_decoded():
    assert value_of(ORDER, TYPE, ORDER_BYTES) == {"order_id": 7, "note": "hi", "amount": 2.5}


def test_fields_are_matched_by_name_and_others_are_ignored():
    assert value_of(ORDER, "amount double, missing long, Note string", ORDER_BYTES + b"\xa8\x06\x01") == {
        "amount": 2.5,
        "missing": None,
        "Note": None,
    }


def test_the_last_value_of_a_repeated_tag_counts():
    assert value_of(ORDER, "order_id long", b"\x08\x07\x08\x09") == {"order_id": 9}


def test_a_field_without_presence_has_its_default():
    assert value_of(ORDER, TYPE, b"") == {"order_id": 0, "note": "", "amount": 0.0}


def test_a_field_with_presence_is_null_if_it_is_not_set():
    definition = HEAD + (
        " message Item { string sku = 1; } message Order { optional int32 a = 1; Item b = 2;"
        " oneof c { string d = 3; int32 e = 4; } }"
    )
    ddl = "a int, b struct<sku: string>, d string, e int"
    assert value_of(definition, ddl, b"") == {"a": None, "b": None, "d": None, "e": None}
    data = message(definition, "shop.Order", a=0, b={}, e=0).SerializeToString()
    assert value_of(definition, ddl, data) == {"a": 0, "b": {"sku": ""}, "d": None, "e": 0}


def test_an_optional_field_of_proto2_has_the_default_that_it_declares():
    definition = (
        'syntax = "proto2"; package shop; message Order { optional int32 a = 1;'
        ' optional int32 b = 2 [default = 5]; optional string c = 3 [default = "x"]; }'
    )
    assert value_of(definition, "a int, b int, c string", b"") == {"a": None, "b": 5, "c": "x"}


def test_a_record_without_a_required_field_is_an_error():
    definition = (
        'syntax = "proto2"; package shop; message Item { required int32 n = 1; }'
        " message Order { repeated Item items = 1; optional int32 a = 2; }"
    )
    (row,) = decoded([b"\x0a\x00\x10\x01"], protobuf(definition, "a int"))
    assert row["error"] == "protobuf: the record lacks required fields of shop.Order: items[0].n"
    assert value_of(definition, "a int", b"\x0a\x02\x08\x01\x10\x01") == {"a": 1}


@pytest.mark.parametrize(
    ("declared", "ddl", "field", "value"),
    [
        ("bool", "boolean", True, True),
        ("bytes", "binary", b"\xff", b"\xff"),
        ("double", "double", float("-inf"), float("-inf")),
        ("fixed32", "long", 2**32 - 1, 2**32 - 1),
        ("fixed64", "decimal(20,0)", 2**64 - 1, Decimal(2**64 - 1)),
        ("float", "float", 0.5, 0.5),
        ("int32", "int", -(2**31), -(2**31)),
        ("int64", "long", -(2**63), -(2**63)),
        ("sfixed32", "int", -1, -1),
        ("sfixed64", "long", -1, -1),
        ("sint32", "int", -1, -1),
        ("sint64", "long", -1, -1),
        ("string", "string", "é😀\0", "é😀\0"),
        ("uint32", "long", 2**32 - 1, 2**32 - 1),
        ("uint64", "decimal(20,0)", 2**64 - 1, Decimal(2**64 - 1)),
        ("Color", "string", 2, "BLUE"),
        ("Color", "string", 9, "9"),
        ("repeated int32", "array<int>", [1, 0], [1, 0]),
        ("repeated string", "array<string>", [], []),
        ("repeated Color", "array<string>", [2, 9], ["BLUE", "9"]),
        ("repeated uint64", "array<decimal(20,0)>", [1], [Decimal(1)]),
        ("map<string, int64>", "map<string, long>", {"": 1}, {"": 1}),
        ("map<int32, string>", "map<string, string>", {-1: "x"}, {"-1": "x"}),
        ("map<bool, Color>", "map<string, string>", {True: 1}, {"true": "RED"}),
        ("Item", "struct<sku: string>", {"sku": "x"}, {"sku": "x"}),
        ("repeated Item", "array<struct<sku: string>>", [{"sku": "x"}, {}], [{"sku": "x"}, {"sku": ""}]),
        ("map<string, Item>", "map<string, struct<sku: string>>", {"k": {"sku": "x"}}, {"k": {"sku": "x"}}),
        ("Nothing", "boolean", {}, True),
    ],
)
def test_a_value_has_its_type(declared, ddl, field, value):
    definition = HEAD + (
        " enum Color { option allow_alias = true; NONE = 0; RED = 1; BLUE = 2; AZURE = 2; }"
        f" message Nothing {{}} message Item {{ string sku = 1; }} message Order {{ {declared} a = 1; }}"
    )
    order = message(definition, "shop.Order")
    if "map<" in declared and "Item" in declared:
        for key, item in field.items():
            order.a[key].sku = item["sku"]
    else:
        order = message(definition, "shop.Order", a=field)
    assert value_of(definition, f"a {ddl}", order.SerializeToString()) == {"a": value}


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOON_SECONDS = 1769860800


@pytest.mark.parametrize(
    ("kind", "file", "ddl", "field", "value"),
    [
        ("Timestamp", "timestamp", "timestamp", {"seconds": NOON_SECONDS}, NOON),
        (
            "Timestamp",
            "timestamp",
            "timestamp",
            {"seconds": NOON_SECONDS, "nanos": 999_999_999},
            NOON.replace(microsecond=999_999),
        ),
        ("Timestamp", "timestamp", "timestamp", {"seconds": -62135596800}, datetime(1, 1, 1, tzinfo=UTC)),
        ("Duration", "duration", "decimal(21,9)", {"seconds": 1, "nanos": 5}, Decimal("1.000000005")),
        ("Duration", "duration", "decimal(21,9)", {"nanos": -5}, Decimal("-0.000000005")),
        ("Int64Value", "wrappers", "long", {"value": 0}, 0),
        ("UInt64Value", "wrappers", "decimal(20,0)", {"value": 2**64 - 1}, Decimal(2**64 - 1)),
        ("StringValue", "wrappers", "string", None, None),
        ("Struct", "struct", "variant", {"b": 1.5}, '{"b":1.5}'),
        (
            "Value",
            "struct",
            "variant",
            {"list_value": {"values": [{"null_value": 0}, {"bool_value": True}]}},
            "[null,true]",
        ),
        ("Value", "struct", "variant", {"null_value": 0}, None),
        ("Value", "struct", "variant", {"number_value": 3}, "3.0"),
        ("Empty", "empty", "boolean", {}, True),
        (
            "Any",
            "any",
            "struct<type_url: string, value: binary>",
            {"type_url": "x"},
            {"type_url": "x", "value": b""},
        ),
    ],
)
def test_a_well_known_message_is_what_it_means(kind, file, ddl, field, value):
    definition = (
        f'{HEAD} import "google/protobuf/{file}.proto"; message Order {{ google.protobuf.{kind} a = 1; }}'
    )
    data = message(definition, "shop.Order", a=field).SerializeToString()
    assert value_of(definition, f"a {ddl}", data) == {"a": value}


@pytest.mark.parametrize(
    ("kind", "file", "ddl", "field", "error"),
    [
        ("Timestamp", "timestamp", "timestamp", {"seconds": 253402300800}, "a timestamp is out of range"),
        ("Timestamp", "timestamp", "timestamp", {"nanos": -1}, "a timestamp is out of range"),
        ("Duration", "duration", "decimal(21,9)", {"seconds": 315576000001}, "a duration is out of range"),
        ("Duration", "duration", "decimal(21,9)", {"seconds": 1, "nanos": -1}, "a duration is out of range"),
        ("Value", "struct", "variant", {"number_value": float("nan")}, "a value is not JSON"),
    ],
)
def test_a_well_known_message_that_means_nothing_is_an_error(kind, file, ddl, field, error):
    definition = (
        f'{HEAD} import "google/protobuf/{file}.proto"; message Order {{ google.protobuf.{kind} a = 1; }}'
    )
    data = message(definition, "shop.Order", a=field).SerializeToString()
    (row,) = decoded([data], protobuf(definition, f"a {ddl}"))
    assert row["value"] is None
    assert row["error"].startswith(f"protobuf: {error}")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(ORDER_BYTES[:-1], id="truncated"),
        pytest.param(ORDER_BYTES + b"\x08", id="a tag without its value"),
        pytest.param(b"\x12\xff\xff\xff\xff\x07hi", id="a huge length"),
        pytest.param(b"\x12\x02\xff\xff", id="text that is not UTF-8"),
        pytest.param(b"\x08" + b"\xff" * 10, id="a varint that is too long"),
        pytest.param(b"\x0c", id="the end of a group"),
        pytest.param(b"\x00\x00\x00\x00\x01" + ORDER_BYTES, id="a header"),
        pytest.param(b'{"order_id": 7}', id="JSON"),
        pytest.param(b"\x23" * 200, id="deep nesting"),
    ],
)
def test_damaged_bytes_are_an_error(data):
    (row,) = decoded([data], protobuf(ORDER, TYPE))
    assert (row["data"], row["value"]) == (data, None)
    assert row["error"].startswith("protobuf: the record is not a shop.Order: ")


@pytest.mark.parametrize(
    ("declared", "ddl", "data"),
    [
        ("optional string", "string", "0a 01 ff"),
        ("repeated string", "array<string>", "0a 01 ff"),
        ("map<string, int32>", "map<string, int>", "0a 05 0a 01 ff 10 01"),
        ("map<int32, string>", "map<string, string>", "0a 05 08 01 12 01 ff"),
    ],
)
def test_text_of_proto2_that_is_not_utf8_is_an_error(declared, ddl, data):
    definition = f'syntax = "proto2"; package shop; message Order {{ {declared} note = 1; }}'
    (row,) = decoded([bytes.fromhex(data)], protobuf(definition, f"note {ddl}"))
    assert row["error"].startswith("protobuf: the record is not a shop.Order: ")


def test_a_bad_record_does_not_spoil_its_neighbours():
    rows = decoded([ORDER_BYTES, b"\xff", ORDER_BYTES], protobuf(ORDER, "order_id long"))
    assert [row["value"] for row in rows] == [{"order_id": 7}, None, {"order_id": 7}]


@pytest.mark.parametrize(
    ("declared", "ddl", "field", "value"),
    [
        ("int32", "long", 7, 7),
        ("int64", "int", 7, 7),
        ("float", "double", 0.5, 0.5),
        ("uint64", "long", 7, 7),
    ],
)
def test_a_number_that_fits_another_type_is_converted(declared, ddl, field, value):
    definition = HEAD + f" message Order {{ {declared} a = 1; }}"
    data = message(definition, "shop.Order", a=field).SerializeToString()
    assert value_of(definition, f"a {ddl}", data) == {"a": value}


def test_a_number_that_does_not_fit_another_type_is_an_error():
    definition = HEAD + " message Order { int64 a = 1; }"
    data = message(definition, "shop.Order", a=2**31).SerializeToString()
    (row,) = decoded([data], protobuf(definition, "a int"))
    assert row["error"] == "protobuf: Expected `int` <= 2147483647 - at `$.a`"


@pytest.mark.parametrize(
    ("declared", "ddl", "error"),
    [
        ("string", "long", "Expected `bigint`, the message has STRING - at `$.a`"),
        ("int64", "string", "Expected `string`, the message has BIGINT - at `$.a`"),
        ("repeated int64", "long", "Expected `bigint`, the message has repeated - at `$.a`"),
        ("int64", "array<long>", "Expected `array<bigint>`, the message has BIGINT - at `$.a`"),
        ("Order", "long", "Expected `bigint`, the message has a shop.Order - at `$.a`"),
        ("map<string, int64>", "array<long>", "Expected `array<bigint>`, the message has a map - at `$.a`"),
    ],
)
def test_a_type_that_the_message_does_not_have_is_refused(declared, ddl, error):
    with pytest.raises(InvalidInput) as refused:
        protobuf(HEAD + f" message Order {{ {declared} a = 1; }}", f"a {ddl}").resolved()
    assert error in str(refused.value)


def test_a_required_column_without_a_value_is_an_error():
    definition = HEAD + " message Order { optional int32 a = 1; }"
    (row,) = decoded([b""], protobuf(definition, "a int not null"))
    assert row["error"] == "protobuf: Expected a value, got `null` - at `$.a`"


def test_fields_may_have_the_names_of_python():
    definition = (
        HEAD + " message Order { optional int32 class = 1; int32 HasField = 2; int32 m = 3; int32 _0 = 4; }"
    )
    data = bytes.fromhex("08 01 10 02 18 03 20 04")
    assert value_of(definition, "class int, HasField int, m int, _0 int", data) == {
        "class": 1,
        "HasField": 2,
        "m": 3,
        "_0": 4,
    }


def test_a_column_that_no_field_has_cannot_enter_the_code():
    assert value_of(ORDER, """`x": __import__("os")` long, order_id long""", ORDER_BYTES) == {
        'x": __import__("os")': None,
        "order_id": 7,
    }


def test_messages_may_be_nested_as_deep_as_protobuf_allows():
    depth = 100
    definition = HEAD + " message M0 { int64 id = 1; }"
    ddl, data = "id long", b"\x08\x07"
    for number in range(1, depth):
        definition += f" message M{number} {{ M{number - 1} m = 1; }}"
        ddl, size = f"m struct<{ddl.replace(' ', ': ', 1)}>", len(data)
        data = b"\x0a" + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + data
    (row,) = decoded([data], protobuf(definition, ddl, f"shop.M{depth - 1}"))
    value = row["value"]
    for _ in range(depth - 1):
        value = value["m"]
    assert value == {"id": 7}


@pytest.mark.slow
@settings(derandomize=True, max_examples=500)
@given(data=st.binary(max_size=60))
def test_random_bytes_are_a_value_of_the_type_or_an_error(data):
    definition = (
        'syntax = "proto2"; import "google/protobuf/timestamp.proto"; import "google/protobuf/struct.proto";'
        "message R { optional google.protobuf.Timestamp a = 1; optional string b = 2; repeated uint64 c = 3;"
        " map<string, bytes> d = 4; optional google.protobuf.Struct e = 5;"
        " enum E { X = 0; } optional E f = 6; }"
    )
    wanted = spark_type(
        "a timestamp, b string, c array<decimal(20,0)>, d map<string, binary>, e variant, f string"
    )
    with suppress(Undecodable):
        value = protobuf_reader(read_message(descriptor_set(definition), "R"), wanted)(data)
        assert pa.array([value], value_type(wanted)[1]).null_count == 0
