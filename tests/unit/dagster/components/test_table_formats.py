"""Typed tables of records that are not JSON, from their YAML."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kinesis_assets import KinesisTableComponent
from kinesis_assets.dagster.derived_tables import consumption_of
from support import dagster_components
from support.dagster_components import dagsters_own_warnings
from support.protobuf import descriptor_set

pytestmark = dagsters_own_warnings

SHOP = """syntax = "proto3"; package shop;
message Order { int64 order_id = 1; Order replaced = 2; }
message Item { string sku = 1; }
"""
AVRO = {"type": "record", "name": "Order", "fields": [{"name": "order_id", "type": "long"}]}
FILES = {
    "shop.desc": descriptor_set(SHOP),
    "shop.proto": SHOP,
    "orders.avsc": json.dumps(AVRO),
    "schemas/1.avsc": json.dumps(AVRO),
    "others/orders.avsc": json.dumps(AVRO),
}
TABLE = {"name": "orders", "source": "clicks", "table": "s3://lake/orders"}
ITEM = {"file": "shop.desc", "message": "shop.Item"}
URL = {"url": "https://registry.example:8081"}
DDL = "order_id BIGINT"


def loaded(**attributes: Any) -> Any:
    (asset,) = dagster_components.loaded(KinesisTableComponent, FILES, **TABLE | attributes)[1].assets
    return asset


@pytest.mark.parametrize(
    ("settings", "columns"),
    [
        ({"format": "protobuf", "schema": ITEM}, {"sku"}),
        ({"format": "avro_container", "schema": "orders.avsc"}, {"order_id"}),
        ({"format": "avro_container", "schema": DDL}, {"order_id"}),
        ({"format": "confluent", "schema": DDL, "registry": URL}, {"order_id"}),
        ({"format": "confluent", "schema": "orders.avsc", "registry": {"folder": "schemas"}}, {"order_id"}),
    ],
    ids=str,
)
def test_the_columns_are_those_of_the_schema(settings, columns):
    asset = loaded(**settings)
    lineage = asset.metadata_by_key[asset.key]["dagster/column_lineage"].deps_by_column
    assert columns <= lineage.keys() - {"error", "shard_id", "sequence_number", "sub_sequence_number", "data"}


@pytest.mark.parametrize("version", [{}, {"version": 3, "message": "shop.Order"}], ids=str)
def test_a_subject_is_not_read_when_the_definitions_are_loaded(version):
    registry = {"url": "http://127.0.0.1:1"}
    asset = loaded(format="confluent", schema={"subject": "orders-value"} | version, registry=registry)
    assert consumption_of(asset) is not None


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"format": "protobuf", "schema": DDL}, "schema: with the format protobuf, give a map of the file"),
        ({"format": "protobuf", "schema": {"file": "shop.desc"}}, "schema: message is missing"),
        (
            {"format": "protobuf", "schema": {"file": "none.desc", "message": "a"}},
            r"schema .*none\.desc: .*No such",
        ),
        (
            {"format": "protobuf", "schema": {"file": "shop.proto", "message": "a"}},
            r"schema .*shop\.proto: it is not a descriptor set of protoc",
        ),
        (
            {"format": "protobuf", "schema": {"file": "shop.desc", "message": "Item"}},
            r"schema .*shop\.desc: .* no message Item; its messages are shop\.Item, shop\.Order",
        ),
        (
            {"format": "protobuf", "schema": {"file": "shop.desc", "message": "shop.Order"}},
            r"schema .*shop\.desc: the Protobuf message shop\.Order is recursive: replaced",
        ),
        ({"format": "json", "schema": ITEM}, "schema: with the format json, give DDL"),
        (
            {"format": "glue", "schema": {"subject": "a"}},
            "schema: a subject of a registry requires the format conf",
        ),
        (
            {"format": "confluent", "schema": {"registry": "a", "name": "b"}, "registry": URL},
            "schema: a name in the Glue Schema Registry requires the format glue",
        ),
        ({"format": "confluent", "schema": DDL}, "registry: required with the format confluent"),
        (
            {"format": "confluent", "schema": DDL, "registry": {"region_name": "eu-west-1"}},
            "registry: only with the format glue",
        ),
        ({"format": "glue", "schema": DDL, "registry": URL}, "registry: only with the format confluent"),
        (
            {"format": "confluent", "schema": DDL, "registry": {"url": "registry"}},
            "registry: url: invalid address",
        ),
        (
            {"format": "confluent", "schema": DDL, "registry": URL | {"folder": "schemas"}},
            "registry: url and folder: exactly one",
        ),
        (
            {"format": "confluent", "schema": DDL, "registry": URL | {"username": "ada"}},
            "registry: username and password: only together",
        ),
        (
            {"format": "confluent", "schema": DDL, "registry": {"folder": "none"}},
            "registry: the folder .*none cannot be read",
        ),
        (
            {"format": "confluent", "schema": DDL, "registry": {"folder": "others"}},
            r"registry: .*orders\.avsc is no schema",
        ),
        (
            {"format": "confluent", "schema": {"subject": "a"}, "registry": {"folder": "schemas"}},
            "schema: a subject is read from a registry, and not from a folder",
        ),
        (
            {"format": "confluent", "schema": DDL, "registry": URL | {"user": "ada"}},
            "registry: unknown setting user",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_file_and_line(settings, reason):
    with pytest.raises(Exception, match=r"defs\.yaml \(KinesisTableComponent\)") as caught:
        loaded(**settings)
    assert re.fullmatch(rf"(?s).*defs\.yaml:\d+: {reason}.*", str(caught.value.__cause__))


@pytest.mark.parametrize(
    ("module", "settings", "reason"),
    [
        ("decoders.formats", {"format": "avro_container"}, r"format: .*'kinesis-assets\[avro\]'"),
        (
            "dagster.settings.table_settings",
            {"format": "confluent", "registry": URL},
            r"registry: url: .*'kinesis-assets\[confluent\]'",
        ),
    ],
)
def test_an_extra_that_is_missing_is_named(monkeypatch, module, settings, reason):
    monkeypatch.setattr(f"kinesis_assets.{module}.find_spec", lambda _: None)
    with pytest.raises(Exception, match="defs") as caught:
        loaded(schema=DDL, **settings)
    assert re.fullmatch(rf"(?s).*defs\.yaml:\d+: {reason}.*", str(caught.value.__cause__))
