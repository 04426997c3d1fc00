"""Schema versions from a registry over HTTP that has one response to every call."""

from __future__ import annotations

import json
import socket

import pytest

from kinesis_assets import RegistryCallFailed
from kinesis_assets.decoders import Glue, GlueRegistry
from kinesis_assets.errors import InvalidInput, KinesisAssetsError
from support.glue_records import framed
from support.raw_rows import decoded
from support.spark_types import spark_type

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "order_id", "type": "long"}]}
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.mark.slow
def test_a_schema_version_is_requested_once_per_process(registries):
    endpoint = registries.start(200, {"DataFormat": "AVRO", "SchemaDefinition": json.dumps(ORDER)})
    registry = GlueRegistry(endpoint_url=endpoint).resolved()
    found = registry.get(UNKNOWN)
    assert found is not None
    registries.stop()
    assert registry.get(UNKNOWN) is found


@pytest.mark.slow
def test_an_invalid_schema_is_an_error_on_its_rows_only(registries):
    endpoint = registries.start(200, {"DataFormat": "AVRO", "SchemaDefinition": '{"type": "record"}'})
    registry = GlueRegistry(endpoint_url=endpoint)
    (row,) = decoded([framed(UNKNOWN, b"")], Glue(spark_type("order_id long"), schemas=registry))
    assert (row["value"], row["schema_id"]) == (None, UNKNOWN)
    assert row["error"].startswith(f"glue: schema version {UNKNOWN}: ")
    assert "Avro schema" in row["error"]


@pytest.mark.slow
@pytest.mark.parametrize("code", ["EntityNotFoundException", "InvalidInputException"])
def test_an_unknown_schema_version_does_not_fail_the_job(registries, code):
    registry = GlueRegistry(
        endpoint_url=registries.start(400, {"__type": code, "Message": "no such version"})
    )
    assert registry.resolved().get(UNKNOWN) is None


@pytest.mark.slow
@pytest.mark.parametrize("body", [{}, {"DataFormat": "AVRO"}, {"SchemaDefinition": "{}"}], ids=str)
def test_an_incomplete_response_is_a_failure(registries, body):
    registry = GlueRegistry(endpoint_url=registries.start(200, body))
    with pytest.raises(RegistryCallFailed, match=r"GetSchemaVersion .*http://"):
        registry.resolved().get(UNKNOWN)


@pytest.mark.slow
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
    with pytest.raises(InvalidInput, match=f"Glue Schema Registry: .*{error}"):
        registry.resolved()
