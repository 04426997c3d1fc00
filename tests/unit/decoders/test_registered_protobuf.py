"""Protobuf payloads of a registry are decoded as the message that they say they are."""

from __future__ import annotations

import sys

import pytest

from kinesis_assets.decoders import Glue, SchemaVersion
from kinesis_assets.decoders.decoder import RegisteredName, Undecodable
from kinesis_assets.decoders.registered_payloads import registered_type
from kinesis_assets.decoders.registered_protobuf import registered_message, registered_protobuf_reader
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.protobuf_schema import protobuf_columns
from support.glue_records import framed
from support.raw_rows import decoded
from support.spark_types import spark_type

SCHEMA_ID = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"
# By name: shop.Item 0, shop.Order 1, shop.Order.CountsEntry 2, shop.Order.Note 3, shop.Order.Note.Link 4.
SHOP = """syntax = "proto3"; package shop;
message Order {
  int64 id = 1;
  map<string, int32> counts = 2;
  message Note { string id = 1; message Link { bool id = 1; } }
}
message Item { double id = 1; }
"""
VERSION = SchemaVersion("PROTOBUF", SHOP)


def glue(ddl: str, version: SchemaVersion = VERSION) -> Glue:
    return Glue(spark_type(ddl), schemas={SCHEMA_ID: version})


@pytest.mark.parametrize(
    ("payload", "ddl", "value"),
    [
        ("00 09 0000000000000440", "id double", {"id": 2.5}),
        ("01 08 07", "id long", {"id": 7}),
        ("01 12 05 0a 01 61 10 02", "counts map<string, int>", {"counts": {"a": 2}}),
        ("03 0a 02 6869", "id string", {"id": "hi"}),
        ("04 08 01", "id boolean", {"id": True}),
        ("84 00 08 01", "id boolean", {"id": True}),
        ("01", "id long", {"id": 0}),
    ],
)
def test_a_glue_payload_begins_with_the_place_of_its_message_by_name(payload, ddl, value):
    (row,) = decoded([framed(SCHEMA_ID, bytes.fromhex(payload))], glue(ddl))
    assert (row["value"], row["schema_id"], row["error"]) == (value, SCHEMA_ID, None)


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ("", "no message: the payload does not begin with the place of its message"),
        ("80", "no message: the payload does not begin"),
        ("ff ff ff ff ff 01", "no message: the payload does not begin"),
        ("05 08 01", "no message: there are 5, and none at the place 5"),
        ("01 08", "the record is not a shop.Order: "),
        ("03 0a 02 6869", "Expected `bigint`, the message has STRING - at `$.id`"),
    ],
)
def test_a_glue_payload_that_is_no_message_is_an_error(payload, error):
    (row,) = decoded([framed(SCHEMA_ID, bytes.fromhex(payload))], glue("id long"))
    assert (row["value"], row["schema_id"]) == (None, SCHEMA_ID)
    assert row["error"].startswith(f"glue: {error}")


@pytest.mark.parametrize(
    ("payload", "ddl", "value"),
    [
        ("00 08 07", "id long", {"id": 7}),
        ("02 00 08 07", "id long", {"id": 7}),
        ("02 02 09 0000000000000440", "id double", {"id": 2.5}),
        ("04 00 00 0a 02 6869", "id string", {"id": "hi"}),
        ("06 00 00 00 08 01", "id boolean", {"id": True}),
    ],
)
def test_a_confluent_payload_begins_with_the_path_of_its_message(payload, ddl, value):
    read = registered_protobuf_reader(VERSION.definition, VERSION.imports, spark_type(ddl), is_sorted=False)
    assert read(bytes.fromhex(payload)) == value


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ("", "does not begin with the place"),
        ("04 00", "does not begin with the place"),
        ("01", "has the place -1"),
        ("02 03", "has the place -2"),
        ("02 04", "there are 2, and none at the place 2"),
        ("04 02 00", "there are 0, and none at the place 0"),
        ("ff ff ff ff 0f", "has the place"),
        ("fe ff ff ff 0f", "has 2147483647 parts"),
    ],
)
def test_a_confluent_payload_that_is_no_message_is_an_error(payload, error):
    read = registered_protobuf_reader(
        VERSION.definition, VERSION.imports, spark_type("id long"), is_sorted=False
    )
    with pytest.raises(Undecodable, match=error):
        read(bytes.fromhex(payload))


def test_a_definition_may_import_others():
    money = 'syntax = "proto3"; package common; message Money { int64 cents = 1; }'
    definition = (
        'syntax = "proto3"; import "common/money.proto"; import "google/protobuf/timestamp.proto";'
        "message Order { common.Money price = 1; google.protobuf.Timestamp at = 2; }"
    )
    version = SchemaVersion("PROTOBUF", definition, (("common/money.proto", money),))
    assert (
        protobuf_columns(registered_message(version.definition, version.imports, None))
        == "price STRUCT<cents: BIGINT>, at TIMESTAMP"
    )


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (SchemaVersion("PROTOBUF", "message {"), "definition.proto:1:9"),
        (SchemaVersion("PROTOBUF", 'import "common/money.proto";'), "common/money.proto"),
        (SchemaVersion("PROTOBUF", SHOP, (("../money.proto", ""),)), "imports ../money.proto"),
        (SchemaVersion("PROTOBUF", SHOP, (("/money.proto", ""),)), "imports /money.proto"),
    ],
)
def test_a_definition_that_cannot_be_compiled_is_an_error_with_the_reason(version, error):
    with pytest.raises(InvalidInput, match=rf"(?s){SCHEMA_ID}.*{error}"):
        glue("id long", version).resolved()


def test_protobuf_without_protoc_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    with pytest.raises(InvalidInput, match=r"pip install 'kinesis-assets\[protobuf\]'"):
        glue("id long").resolved()


def test_a_registered_message_is_the_only_one_or_must_be_named():
    assert (
        protobuf_columns(registered_message(VERSION.definition, VERSION.imports, "shop.Order.Note"))
        == "id STRING"
    )
    with pytest.raises(InvalidInput, match=r"shop.Order, shop.Item; name one with message"):
        registered_message(VERSION.definition, VERSION.imports, None)
    with pytest.raises(InvalidInput, match=r"no message shop.Basket; its messages are shop.Order, "):
        registered_type(VERSION, RegisteredName("shop", "orders", message="shop.Basket"))
