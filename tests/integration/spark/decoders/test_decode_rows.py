"""`decode` returns the same rows with values or with errors."""

from __future__ import annotations

import gzip
import json
from functools import reduce
from io import BytesIO

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructType

from kinesis_assets.decoders import (
    AvroContainer,
    Confluent,
    ConfluentRegistry,
    Glue,
    Gzip,
    Json,
    Protobuf,
    SchemaVersion,
    Zstd,
    decode,
)
from kinesis_assets.decoders.spark_types import parse_type
from kinesis_assets.errors import InvalidInput
from support.glue_records import avro
from support.protobuf import descriptor_set
from support.raw_rows import raw_table
from support.spark_types import spark_type

ORDER = "order_id long, amount double"
DOCUMENT = b'{"order_id": 1, "amount": 2.5}'
SCHEMA_ID = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"
FRAME = bytes.fromhex("03 00 b7b4a7f0 9c96 4e4a a687 fb5de9ef0c63")
JSON_SCHEMA = SchemaVersion("JSON", "{}")
WRITTEN = {"type": "record", "name": "Order", "fields": [{"name": "order_id", "type": "long"}]}
READER = {**WRITTEN, "fields": [*WRITTEN["fields"], {"name": "currency", "type": "string", "default": "EUR"}]}
OF_READER = "order_id long, currency string"
SHOP = 'syntax = "proto3"; package shop; message Order { int64 order_id = 1; } message Item {}'


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


def test_every_row_is_returned_once_with_its_columns(raw):
    data = [b'{"order_id": %d}' % number if number % 3 else b"\xffbad" for number in range(300)]
    errors = [None if number % 7 else "broken aggregate" for number in range(300)]
    given = raw_table(data, errors)
    result = raw(data, errors).repartition(4).transform(decode(Json(ORDER)))
    assert result.columns == [*given.column_names, "value"]
    rows = sorted(result.drop("value", "error").collect(), key=lambda row: int(row.sequence_number))
    expected = raw(data, errors).drop("error").collect()
    assert rows == expected
    assert {
        row.sequence_number for row in result.where("value is null").select("sequence_number").collect()
    } == {str(number) for number in range(300) if number % 3 == 0 or number % 7 == 0}


def test_a_row_that_cannot_be_decoded_keeps_its_bytes_with_the_step_and_the_reason(raw):
    data = [gzip.compress(DOCUMENT), b"plain", gzip.compress(b'{"order_id": "1"}')]
    good, plain, text = raw(data).transform(decode(Gzip(), Json(ORDER))).collect()
    assert (good.value.order_id, good.value.amount, good.error) == (1, 2.5, None)
    assert (bytes(plain.data), plain.value) == (b"plain", None)
    assert plain.error == "gzip: zlib inflate failed: incorrect header check"
    assert (bytes(text.data), text.value) == (data[2], None)
    assert text.error == "json: Expected `int | null`, got `str` - at `$.order_id`"


def test_a_row_with_an_error_is_not_decoded(raw):
    (row,) = raw([DOCUMENT], ["broken aggregate"]).transform(decode(Json(ORDER))).collect()
    assert (row.value, row.error, bytes(row.data)) == (None, "broken aggregate", DOCUMENT)


def test_a_row_without_data_is_an_error(raw):
    no_data = raw([DOCUMENT]).selectExpr("cast(null as binary) as data", "error")
    (row,) = no_data.transform(decode(Json(ORDER))).collect()
    assert (row.value, row.error) == (None, "data is null")


@pytest.mark.parametrize(
    ("data", "decoders", "value"),
    [
        (gzip.compress(DOCUMENT), [Gzip()], DOCUMENT),
        (zstd(DOCUMENT), [Zstd(), Json(ORDER)], {"order_id": 1, "amount": 2.5}),
        (gzip.compress(zstd(DOCUMENT)), [Gzip(), Zstd()], DOCUMENT),
        (
            gzip.compress(FRAME + DOCUMENT),
            [Gzip(), Glue(ORDER, schemas={SCHEMA_ID: JSON_SCHEMA})],
            {"order_id": 1, "amount": 2.5},
        ),
        (FRAME + DOCUMENT, [Glue()], DOCUMENT),
        (FRAME + zstd(DOCUMENT), [Glue(), Zstd(), Json("order_id long")], {"order_id": 1}),
        (b"[1, null]", [Json("array<long>")], [1, None]),
        (b"7", [Json(LongType())], 7),
    ],
    ids=["gzip", "zstd-json", "gzip-zstd", "gzip-glue", "glue", "glue-zstd-json", "json-array", "json-long"],
)
def test_decoders_are_applied_in_order(raw, data, decoders, value):
    (row,) = raw([data]).transform(decode(*decoders)).collect()
    result = row.value.asDict() if isinstance(value, dict) else row.value
    assert (result, row.error) == (value, None)
    assert row.asDict().get("schema_id") == (
        SCHEMA_ID if "glue" in {each.name for each in decoders} else None
    )


def test_the_value_has_the_requested_type(raw):
    requested = StructType.fromDDL(
        "a boolean, b byte, c short, d int, e long, f float, g double, h string, i binary, j date, "
        "k timestamp, l timestamp_ntz, m decimal(10,2), n array<struct<x: int>>, o map<string, array<double>>"
    )
    result = raw([b"{}"]).transform(decode(Json(requested)))
    assert result.schema["value"].dataType == requested
    assert set(result.select("value.*").first()) == {None}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "ddl",
    [
        "a long not null, `b c` decimal(10,2), d timestamp_ntz, e binary",
        "a array<struct<b: array<int>, c: map<string, double>>>, d float",
        "map<string, decimal(2,2)>",
        "short",
    ],
)
def test_the_unit_tests_have_the_types_that_spark_parses(ddl):
    assert spark_type(ddl) == parse_type(ddl)


def test_rows_are_converted_by_arrow_if_a_required_field_is_missing(raw):
    result = raw([b'{"order_id": 1}', b"{}"]).transform(decode(Json("order_id long not null"))).toArrow()
    assert result["value"].to_pylist() == [{"order_id": 1}, None]
    assert result["error"].to_pylist() == [None, "json: Object missing required field `order_id`"]


def test_rows_are_decoded_with_large_arrow_types(raw, spark):
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        (row,) = raw([zstd(DOCUMENT)]).transform(decode(Zstd())).collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    assert bytes(row.value) == DOCUMENT


def test_an_empty_batch_is_decoded(raw):
    assert raw([DOCUMENT]).where("false").transform(decode(Glue())).collect() == []


@pytest.mark.parametrize(
    ("decoder", "error"),
    [
        (Json("a lon"), "'a lon' is not a Spark type"),
        (Json("a interval day"), "the type interval day is not supported"),
        (Json("a map<int, long>"), r"the type map<int,bigint> is not supported"),
        (Json("a varchar(3)"), r"the type varchar\(3\) is not supported"),
        (Json("a string collate UTF8_LCASE"), "the type string collate UTF8_LCASE is not supported"),
        (Json(StructType().add("a", "long").add("a", "long")), "two fields with the same name"),
        (Glue("a long", schemas={SCHEMA_ID: SchemaVersion("AVRO", "{")}), "is not an Avro schema"),
        (Glue("a long", schemas={SCHEMA_ID: SchemaVersion("XML", "")}), "its data format is XML"),
        (Glue("a lon", schemas={SCHEMA_ID: JSON_SCHEMA}), "'a lon' is not a Spark type"),
    ],
    ids=str,
)
def test_an_invalid_type_or_schema_is_refused_on_the_driver(raw, decoder, error):
    rows = raw([])
    with pytest.raises(InvalidInput, match=error):
        rows.transform(decode(decoder))


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        (["data"], r"data \(binary\) and error \(string\).* the rows have data \(binary\)$"),
        (["cast(data as string) as data", "error"], r"the rows have data \(string\), error \(string\)"),
        (["data", "error", "1 as value"], "already have a column value"),
        (["data", "error", "1 as schema_id"], "already have a column schema_id"),
    ],
)
def test_rows_without_a_required_column_or_with_a_new_one_are_refused(raw, columns, error):
    rows = raw([]).selectExpr(*columns)
    with pytest.raises(InvalidInput, match=error):
        rows.transform(decode(Glue()))


def test_records_of_each_format_with_a_schema_are_decoded_in_one_job(raw, confluent):
    """The descriptors, schemas and connections of decoders reach Python workers, as do their libraries."""
    confluent.register(7, "orders-value", json.dumps(WRITTEN))
    confluent.register(8, "orders-value", SHOP, "PROTOBUF")
    datum, message = avro(WRITTEN, {"order_id": 1}), bytes.fromhex("08 01")
    container = BytesIO()
    fastavro.writer(container, WRITTEN, [{"order_id": 1}, {"order_id": 2}], codec="deflate")
    versions = {SCHEMA_ID: SchemaVersion("PROTOBUF", SHOP)}
    registry, reader = ConfluentRegistry(confluent.url), json.dumps(READER)
    decoded = [
        raw([message, b"\xff"]).transform(decode(Protobuf(descriptor_set(SHOP), "shop.Order", OF_READER))),
        raw([FRAME + b"\x01" + message]).transform(decode(Glue(OF_READER, schemas=versions))),
        raw([b"\0\0\0\0\x07" + datum, b"\0\0\0\0\x08\0" + message, b"\0\0\0\0\x09"]).transform(
            decode(Confluent(OF_READER, schemas=registry, reader=reader))
        ),
        raw([container.getvalue()]).transform(decode(AvroContainer(OF_READER, reader))),
    ]
    rows = reduce(DataFrame.union, [each.select("value.*", "error") for each in decoded]).collect()
    assert [tuple(row)[:2] for row in rows] == [
        (1, None),
        (None, None),
        (1, None),
        (1, "EUR"),
        (1, None),
        (None, None),
        (1, "EUR"),
        (2, "EUR"),
    ]
    errors = [row.error for row in rows if row.error is not None]
    assert errors == [
        "protobuf: the record is not a shop.Order: Error parsing message with type 'shop.Order'",
        "confluent: schema version 9: not found",
    ]
