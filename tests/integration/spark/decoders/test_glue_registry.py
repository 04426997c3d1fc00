"""Schema versions from a registry over HTTP: moto, and servers that return errors."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkException

from kinesis_assets.decoders import Glue, GlueRegistry, decode
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
    message = register("messages", "PROTOBUF", 'syntax = "proto3"; message Order { int64 order_id = 1; }')
    data = [
        framed(first, avro(FIRST, {"order_id": 1})),
        framed(second, avro(SECOND, {"order_id": 2, "amount": 2.5})),
        framed(document, b'{"order_id": 3, "amount": 3.5}'),
        framed(message, b"\0\x08\x04"),
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
        (4, None),
        None,
        None,
    ]
    assert [row.error for row in rows] == [
        None,
        None,
        None,
        None,
        f"glue: schema version {UNKNOWN}: not found",
        rows[5].error,
    ]
    assert rows[5].error.startswith("glue: ")
    assert "EOFError" in rows[5].error


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


def test_a_registry_that_denies_access_fails_the_job(raw, registries):
    endpoint = registries.start(400, {"__type": "AccessDeniedException", "Message": "no permission"})
    decoded = raw([framed(UNKNOWN, b"")]).transform(
        decode(Glue("order_id long", schemas=GlueRegistry(endpoint_url=endpoint)))
    )
    error = rf"RegistryCallFailed: schema version {UNKNOWN}: GetSchemaVersion failed at {endpoint}: .*Access"
    with pytest.raises(PySparkException, match=error):
        decoded.collect()
