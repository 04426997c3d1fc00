"""Schema versions from a registry over HTTP: moto, and servers that return errors."""

from __future__ import annotations

import json
import socket

import pytest
from pyspark.errors import PySparkException

from kinesis_assets import RegistryCallFailed
from kinesis_assets.decoders import Glue, GlueRegistry, decode
from kinesis_assets.errors import InvalidInput, KinesisAssetsError
from support.glue_records import avro, framed

ORDER = "order_id long, amount double"
FIRST = {"type": "record", "name": "Order", "fields": [{"name": "order_id", "type": "long"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "amount", "type": "double", "default": 0}]}
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def test_each_record_is_decoded_by_its_schema_version(raw, schema_registry):
    register = schema_registry.register
    first = register("orders", "AVRO", json.dumps(FIRST))
    second = register("orders", "AVRO", json.dumps(SECOND))
    document = register("documents", "JSON", '{"$schema": "http://json-schema.org/draft-07/schema#"}')
    message = register("messages", "PROTOBUF", 'syntax = "proto3"; message Order { int64 id = 1; }')
    data = [
        framed(first, avro(FIRST, {"order_id": 1})),
        framed(second, avro(SECOND, {"order_id": 2, "amount": 2.5})),
        framed(document, b'{"order_id": 3, "amount": 3.5}'),
        framed(message, b"\x08\x04"),
        framed(UNKNOWN, b""),
        framed(second, avro(FIRST, {"order_id": 6})),
    ]
    rows = (
        raw(data)
        .transform(decode(Glue(ORDER, schemas=GlueRegistry(endpoint_url=schema_registry.endpoint))))
        .collect()
    )
    assert [row.schema_id for row in rows] == [first, second, document, message, UNKNOWN, second]
    assert [row.value and tuple(row.value) for row in rows] == [
        (1, None),
        (2, 2.5),
        (3, 3.5),
        None,
        None,
        None,
    ]
    assert [row.error for row in rows] == [
        None,
        None,
        None,
        f"glue: schema version {message}: its data format is PROTOBUF; only AVRO and JSON are supported",
        f"glue: schema version {UNKNOWN}: not found",
        rows[5].error,
    ]
    assert rows[5].error.startswith("glue: the record does not match its schema: EOFError")


def test_the_sdk_settings_of_the_driver_determine_the_registry(raw, schema_registry, monkeypatch):
    schema_id = schema_registry.register("orders", "AVRO", json.dumps(FIRST))
    # The workers of the session started before, without these settings.
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", schema_registry.endpoint)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert GlueRegistry().resolved() == GlueRegistry("eu-central-1", schema_registry.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    data = [framed(schema_id, avro(FIRST, {"order_id": 1}))]
    (row,) = raw(data).transform(decode(Glue("order_id long", schemas=GlueRegistry()))).collect()
    assert (row.value.order_id, row.error) == (1, None)


def test_a_schema_version_is_requested_once_per_process(registries):
    endpoint = registries.start(200, {"DataFormat": "AVRO", "SchemaDefinition": json.dumps(FIRST)})
    registry = GlueRegistry(endpoint_url=endpoint).resolved()
    found = registry.get(UNKNOWN)
    assert found is not None
    registries.stop()
    assert registry.get(UNKNOWN) is found


def test_an_invalid_schema_is_an_error_on_its_rows_only(decoded, registries):
    endpoint = registries.start(200, {"DataFormat": "AVRO", "SchemaDefinition": '{"type": "record"}'})
    registry = GlueRegistry(endpoint_url=endpoint)
    (row,) = decoded([framed(UNKNOWN, b"")], Glue("order_id long", schemas=registry))
    assert (row["value"], row["schema_id"]) == (None, UNKNOWN)
    assert row["error"].startswith(f"glue: schema version {UNKNOWN}: its definition is not an Avro schema")


def test_a_registry_that_denies_access_fails_the_job(raw, registries):
    endpoint = registries.start(400, {"__type": "AccessDeniedException", "Message": "no permission"})
    decoded = raw([framed(UNKNOWN, b"")]).transform(
        decode(Glue("order_id long", schemas=GlueRegistry(endpoint_url=endpoint)))
    )
    error = rf"RegistryCallFailed: schema version {UNKNOWN}: GetSchemaVersion failed at {endpoint}: .*Access"
    with pytest.raises(PySparkException, match=error):
        decoded.collect()


@pytest.mark.parametrize("code", ["EntityNotFoundException", "InvalidInputException"])
def test_an_unknown_schema_version_does_not_fail_the_job(registries, code):
    registry = GlueRegistry(
        endpoint_url=registries.start(400, {"__type": code, "Message": "no such version"})
    )
    assert registry.resolved().get(UNKNOWN) is None


@pytest.mark.parametrize("body", [{}, {"DataFormat": "AVRO"}, {"SchemaDefinition": "{}"}], ids=str)
def test_an_incomplete_response_is_a_failure(registries, body):
    registry = GlueRegistry(endpoint_url=registries.start(200, body))
    with pytest.raises(RegistryCallFailed, match="GetSchemaVersion failed at http"):
        registry.resolved().get(UNKNOWN)


def test_an_unreachable_registry_is_a_failure(monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        endpoint = f"http://127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(KinesisAssetsError, match="EndpointConnectionError"):
        GlueRegistry(endpoint_url=endpoint).resolved().get(UNKNOWN)


@pytest.mark.parametrize(
    ("registry", "error"),
    [
        (GlueRegistry(profile_name="nobody"), "nobody"),
        (GlueRegistry(), "region"),
        (GlueRegistry("us-east-1", "x"), "x"),
    ],
    ids=str,
)
def test_an_invalid_registry_is_refused_on_the_driver(monkeypatch, registry, error):
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(InvalidInput, match=f"cannot create a client of the Glue Schema Registry: .*{error}"):
        registry.resolved()
