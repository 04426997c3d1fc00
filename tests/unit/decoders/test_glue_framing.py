"""Records with the header of Glue Schema Registry are decoded by local schemas, and keep their schema id."""

from __future__ import annotations

import json
import sys
import zlib
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StringType, StructType

from kinesis_assets.decoders import Glue, SchemaVersion
from kinesis_assets.decoders.avro import AvroDefinition, AvroReader
from kinesis_assets.decoders.decoder import Undecodable
from kinesis_assets.decoders.spark_types import value_type
from kinesis_assets.errors import InvalidInput
from support.glue_records import avro
from support.mentions import assert_mentions
from support.raw_rows import decoded
from support.spark_types import spark_type

SCHEMA_ID = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"
HEADER = bytes.fromhex("b7b4a7f0 9c96 4e4a a687 fb5de9ef0c63")
ORDER = "order_id long, amount double"
ORDER_AVRO = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "order_id", "type": "long"},
    {"name": "note", "type": ["null", "string"]},
    {"name": "amount", "type": "double"}]}"""
# order_id 7, zigzag; note: branch 1, two bytes, "hi"; amount 2.5, little-endian.
ORDER_DATUM = bytes.fromhex("0e 02 04 6869 0000000000000440")


def plain(payload: bytes) -> bytes:
    return b"\x03\x00" + HEADER + payload


def compressed(payload: bytes) -> bytes:
    return b"\x03\x05" + HEADER + zlib.compress(payload)


def glue(ddl: str, definition: str, data_format: str = "AVRO") -> Glue:
    return Glue(spark_type(ddl), schemas={SCHEMA_ID: SchemaVersion(data_format, definition)})


@pytest.mark.parametrize("framed", [plain, compressed])
def test_an_avro_payload_is_decoded_by_its_writers_schema(framed):
    (row,) = decoded([framed(ORDER_DATUM)], glue(ORDER, ORDER_AVRO))
    assert (row["value"], row["schema_id"], row["error"]) == ({"order_id": 7, "amount": 2.5}, SCHEMA_ID, None)


@pytest.mark.parametrize("framed", [plain, compressed])
def test_a_json_payload_is_decoded_by_the_given_type(framed):
    (row,) = decoded([framed(b'{"order_id": 7, "amount": 2.5}')], glue(ORDER, "{}", "JSON"))
    assert (row["value"], row["schema_id"], row["error"]) == ({"order_id": 7, "amount": 2.5}, SCHEMA_ID, None)


def test_digits_of_a_timestamp_in_json_beyond_microseconds_are_cut_off():
    (row,) = decoded([plain(b'{"at": "2026-01-31T12:00:00.9999999Z"}')], glue("at timestamp", "{}", "JSON"))
    assert row["value"] == {"at": NOON.replace(microsecond=999_999)}


@pytest.mark.parametrize("framed", [plain, compressed])
def test_the_payload_is_the_value_without_schemas(framed):
    (row,) = decoded([framed(b"payload")], Glue())
    assert (row["value"], row["schema_id"], row["error"]) == (b"payload", SCHEMA_ID, None)


@pytest.mark.parametrize("payload", [b"", b"x"])
def test_a_payload_may_be_short(payload):
    (row,) = decoded([plain(payload)], Glue())
    assert (row["value"], row["schema_id"], row["error"]) == (payload, SCHEMA_ID, None)


@pytest.mark.parametrize(
    ("data", "found", "expected"),
    [
        (b"", "0 bytes", "18"),
        (plain(b"")[:-1], "17 bytes", "18"),
        (b'{"order_id": 7, "amount": 2.5}', "7b 22", "03 00 or 03 05"),
        (b"\x03\x01" + HEADER, "03 01", "03 00 or 03 05"),
        (b"\x00\x00" + HEADER, "00 00", "03 00 or 03 05"),
    ],
)
def test_a_record_without_the_header_is_an_error_without_schema_id(data, found, expected):
    (row,) = decoded([data], glue(ORDER, ORDER_AVRO))
    assert (row["data"], row["value"], row["schema_id"]) == (data, None, None)
    assert row["error"].startswith("glue: no header: ")
    assert_mentions(row["error"], found, expected)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (compressed(ORDER_DATUM)[:-1], "Truncated compressed stream"),
        (compressed(ORDER_DATUM) + b"more", "zlib inflate failed"),
        (b"\x03\x05" + HEADER + ORDER_DATUM, "zlib inflate failed"),
        (b"\x03\x05" + HEADER, "the compressed data is empty"),
        (plain(ORDER_DATUM[:-1]), "EOFError"),
        (plain(b""), "EOFError"),
        (plain(ORDER_DATUM + b"x"), "1 bytes follow its end"),
        (plain(b"\x0e\x0e" + ORDER_DATUM), "IndexError"),
        (plain(bytes.fromhex("0e 02 04 ffff 0000000000000440")), "UnicodeDecodeError"),
    ],
)
def test_a_payload_that_cannot_be_decoded_keeps_its_schema_id_with_the_reason(data, error):
    (row,) = decoded([data], glue(ORDER, ORDER_AVRO))
    assert (row["data"], row["value"], row["schema_id"]) == (data, None, SCHEMA_ID)
    assert row["error"].startswith("glue: ")
    assert error in row["error"]


def test_a_decompression_bomb_is_an_error():
    (row,) = decoded([compressed(bytes(10_001))], Glue(max_bytes=10_000))
    assert (row["value"], row["schema_id"]) == (None, SCHEMA_ID)
    assert_mentions(row["error"], "glue: ", "10000 bytes", "max_bytes")
    (row,) = decoded([compressed(bytes(10_000))], Glue(max_bytes=10_000))
    assert row["value"] == bytes(10_000)


def test_a_missing_schema_version_is_an_error_on_its_rows():
    other = "00000000-0000-4000-8000-000000000000"
    schemas = {other: SchemaVersion("AVRO", ORDER_AVRO)}
    (row,) = decoded([plain(ORDER_DATUM)], Glue(spark_type(ORDER), schemas=schemas))
    assert (row["value"], row["schema_id"]) == (None, SCHEMA_ID)
    assert row["error"] == f"glue: schema version {SCHEMA_ID}: not found"


def test_schema_version_ids_are_case_insensitive():
    schemas = {SCHEMA_ID.upper(): SchemaVersion("AVRO", ORDER_AVRO)}
    (row,) = decoded([plain(ORDER_DATUM)], Glue(spark_type(ORDER), schemas=schemas))
    assert row["value"] == {"order_id": 7, "amount": 2.5}


def test_avro_without_fastavro_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(InvalidInput, match=r"pip install 'kinesis-assets\[avro\]'"):
        decoded([plain(ORDER_DATUM)], glue(ORDER, ORDER_AVRO))
    (row,) = decoded([plain(b'{"order_id": 7}')], glue(ORDER, "{}", "JSON"))
    assert row["error"] is None


def logical(kind: str, name: str, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": name, **more}


NOON = datetime(2026, 1, 31, 12, 0, 0, 5000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schema", "written", "ddl", "value"),
    [
        ("boolean", True, "boolean", True),
        ("int", -1, "int", -1),
        ("int", 7, "long", 7),
        ("long", 7, "int", 7),
        ("long", 7, "double", 7.0),
        ("float", 0.5, "float", 0.5),
        ("float", float("inf"), "float", float("inf")),
        ("double", float("-inf"), "double", float("-inf")),
        ("string", "é", "string", "é"),
        ("bytes", b"\xff", "binary", b"\xff"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", "binary", b"ab"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "string", "B"),
        ({"type": "array", "items": ["null", "int"]}, [1, None], "array<int>", [1, None]),
        ({"type": "map", "values": "long"}, {"x": 1}, "map<string, long>", {"x": 1}),
        (logical("int", "date"), date(2026, 1, 31), "date", date(2026, 1, 31)),
        (logical("long", "timestamp-millis"), NOON, "timestamp", NOON),
        (logical("long", "timestamp-micros"), NOON, "timestamp", NOON),
        (logical("long", "local-timestamp-millis"), NOON, "timestamp_ntz", NOON.replace(tzinfo=None)),
        (logical("long", "local-timestamp-micros"), NOON, "timestamp_ntz", NOON.replace(tzinfo=None)),
        (
            logical("bytes", "decimal", precision=9, scale=2),
            Decimal("-1.25"),
            "decimal(10,3)",
            Decimal("-1.250"),
        ),
        ("long", 3, "decimal(10,2)", Decimal("3.00")),
        (logical("string", "uuid"), SCHEMA_ID, "string", SCHEMA_ID),
        (logical("int", "time-millis"), 5, "int", 5),
        (logical("long", "timestamp-nanos"), 5, "long", 5),
    ],
)
def test_an_avro_value_that_fits_its_spark_type_is_decoded(schema, written, ddl, value):
    record = {"type": "record", "name": "R", "fields": [{"name": "a", "type": schema}]}
    (row,) = decoded([plain(avro(record, {"a": written}))], glue(f"a {ddl}", json.dumps(record)))
    assert (row["value"], row["error"]) == ({"a": value}, None)


@pytest.mark.parametrize(
    ("schema", "written", "ddl", "error"),
    [
        ("string", "7", "long", "Expected `int | null`, got `str` - at `$.a`"),
        ("long", 1 << 31, "int", "Expected `int` <= 2147483647 - at `$.a`"),
        ("double", 1.0, "long", "Expected `int | null`, got `float` - at `$.a`"),
        ("double", 1e39, "float", "Number out of range - at `$.a`"),
        ("double", 1.5, "decimal(10,2)", "Expected `decimal`, got `float` - at `$.a`"),
        ("boolean", True, "long", "Expected `int | null`, got `bool` - at `$.a`"),
        ("string", "aGk=", "binary", "Expected `bytes | null`, got `str` - at `$.a`"),
        ("bytes", b"hi", "string", "Expected `str | null`, got `bytes` - at `$.a`"),
        ("string", "2026-01-31", "date", "Expected `date | null`, got `str` - at `$.a`"),
        ("string", "2026-01-31T12:00:00Z", "timestamp", "Expected `datetime | null`, got `str` - at `$.a`"),
        ("long", 1769860800000, "timestamp", "Expected `datetime | null`, got `int` - at `$.a`"),
        (logical("long", "timestamp-millis"), NOON, "long", "got `datetime` - at `$.a`"),
        (logical("long", "timestamp-millis"), NOON, "timestamp_ntz", "no timezone component - at `$.a`"),
        (logical("long", "timestamp-millis"), NOON, "date", "got `datetime` - at `$.a`"),
        (logical("long", "timestamp-millis"), 1 << 60, "timestamp", "OverflowError"),
        (
            logical("bytes", "decimal", precision=9, scale=3),
            Decimal("1.125"),
            "decimal(10,2)",
            "'1.125' is not a decimal(10,2) - at `$.a`",
        ),
        (["null", "long"], None, "long not null", "Expected `int`, got `null` - at `$.a`"),
        ({"type": "map", "values": "long"}, {"x": 1}, "struct<x: string>", "got `int` - at `$.a.x`"),
    ],
)
def test_an_avro_value_that_does_not_fit_its_spark_type_is_an_error_with_its_path(
    schema, written, ddl, error
):
    record = {"type": "record", "name": "R", "fields": [{"name": "a", "type": schema}]}
    (row,) = decoded([plain(avro(record, {"a": written}))], glue(f"a {ddl}", json.dumps(record)))
    assert row["value"] is None
    assert row["error"].startswith("glue: ")
    assert error in row["error"]


@pytest.mark.parametrize("stored", [{"type": "bytes"}, {"type": "fixed", "name": "F", "size": 4}], ids=str)
def test_a_decimal_with_more_digits_than_its_schema_declares_is_not_rounded(stored):
    schema = json.dumps({**stored, "logicalType": "decimal", "precision": 4, "scale": 2})
    datum = (b"" if "size" in stored else b"\x08") + (12345678).to_bytes(4, "big")
    fits, too_long = (decoded([plain(datum)], glue(f"decimal({digits},2)", schema))[0] for digits in (8, 7))
    assert (fits["value"], fits["error"]) == (Decimal("123456.78"), None)
    assert (too_long["value"], too_long["error"]) == (None, "glue: '123456.78' is not a decimal(7,2)")


def test_avro_fields_are_matched_by_name():
    (row,) = decoded([plain(ORDER_DATUM)], glue("amount double, missing long, Note string", ORDER_AVRO))
    assert row["value"] == {"amount": 2.5, "missing": None, "Note": None}
    (row,) = decoded([plain(ORDER_DATUM)], glue("missing long not null", ORDER_AVRO))
    assert row["error"] == "glue: Object missing required field `missing`"


NODE = {"type": "record", "name": "Node", "namespace": "shop", "fields": []}


@pytest.mark.parametrize(
    "again",
    [
        ["null", "Node"],
        ["null", "shop.Node"],
        {"type": "array", "items": "Node"},
        {"type": "map", "values": "Node"},
    ],
    ids=str,
)
def test_a_recursive_schema_is_refused_before_its_data_can_exhaust_the_stack(again):
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "next", "type": again}]}
    definition = json.dumps({**NODE, "fields": [{"name": "inner", "type": inner}]})
    with pytest.raises(InvalidInput, match=f"{SCHEMA_ID}.*recursive"):
        decoded([], glue("a long", definition))


def test_a_named_type_may_be_used_twice():
    money = {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}
    record = {**NODE, "fields": [{"name": "a", "type": money}, {"name": "b", "type": "Money"}]}
    datum = avro(record, {"a": {"cents": 1}, "b": {"cents": 2}})
    (row,) = decoded([plain(datum)], glue("a struct<cents: int>, b struct<cents: int>", json.dumps(record)))
    assert row["value"] == {"a": {"cents": 1}, "b": {"cents": 2}}


@pytest.mark.slow
@settings(derandomize=True, max_examples=500)
@given(datum=st.binary(max_size=60))
def test_random_avro_bytes_are_a_value_of_the_type_or_an_error(datum):
    schema = [
        {"name": "a", "type": ["null", logical("long", "timestamp-micros"), "string"]},
        {"name": "b", "type": logical("bytes", "decimal", precision=4, scale=2)},
        {"name": "c", "type": {"type": "array", "items": {"type": "map", "values": "bytes"}}},
        {"name": "d", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
    ]
    record = json.dumps({"type": "record", "name": "R", "fields": schema})
    wanted = StructType().add("a", StringType()).add("d", StringType()).add("e", LongType())
    with suppress(Undecodable):
        value = AvroReader(AvroDefinition(record), wanted).read(datum)
        assert pa.array([value], value_type(wanted)[1]).null_count == 0


def test_schemas_with_an_id_that_no_header_has_are_refused():
    with pytest.raises(InvalidInput, match="schema version 7: badly formed"):
        Glue("a long", schemas={"7": SchemaVersion("JSON", "{}")})
