"""Schema versions from a registry over HTTP: moto, and servers that return errors."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import boto3
import fastavro
import pytest
from botocore.config import Config
from pyspark.errors import PySparkException

from benchmarks.servers.bucket import moto_endpoint
from kinesis_assets import RegistryCallFailed
from kinesis_assets.decoders import Glue, GlueRegistry, decode
from kinesis_assets.errors import InvalidInput, KinesisAssetsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ORDER = "order_id long, amount double"
FIRST = {"type": "record", "name": "Order", "fields": [{"name": "order_id", "type": "long"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "amount", "type": "double", "default": 0}]}
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def moto(environment: None) -> Iterator[str]:
    """The endpoint of a registry. Each test registers schemas of its own."""
    del environment
    with moto_endpoint() as (endpoint, _):
        yield endpoint


@pytest.fixture
def register(moto: str) -> Callable[..., str]:
    """Registers a version of a schema, and returns its id."""
    glue = boto3.client("glue", endpoint_url=moto, config=Config(retries={"max_attempts": 9}))
    shop = f"shop-{uuid4()}"
    glue.create_registry(RegistryName=shop)
    schemas = set()

    def register(name: str, data_format: str, definition: str) -> str:
        schema = {"RegistryName": shop, "SchemaName": name}
        if name in schemas:
            answer = glue.register_schema_version(SchemaId=schema, SchemaDefinition=definition)
            return str(answer["SchemaVersionId"])
        schemas.add(name)
        answer = glue.create_schema(
            RegistryId={"RegistryName": shop},
            SchemaName=name,
            DataFormat=data_format,
            Compatibility="NONE",
            SchemaDefinition=definition,
        )
        return str(answer["SchemaVersionId"])

    return register


class FixedResponses:
    """Registries with one response to every call."""

    def __init__(self) -> None:
        self._servers: list[tuple[HTTPServer, threading.Thread]] = []

    def start(self, status: int, body: dict[str, Any]) -> str:
        """Start a registry, and return its endpoint."""

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = json.dumps(body).encode()
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self._servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}"

    def stop(self) -> None:
        """Stop the registries."""
        while self._servers:
            server, thread = self._servers.pop()
            server.shutdown()
            thread.join()
            server.server_close()


@pytest.fixture
def registries() -> Iterator[FixedResponses]:
    registries = FixedResponses()
    yield registries
    registries.stop()


def framed(schema_id: str, payload: bytes) -> bytes:
    return b"\x03\x00" + UUID(schema_id).bytes + payload


def avro(schema: object, value: object) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def test_each_record_is_decoded_by_its_schema_version(raw, moto, register):
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
    rows = raw(data).transform(decode(Glue(ORDER, schemas=GlueRegistry(endpoint_url=moto)))).collect()
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


def test_the_sdk_settings_of_the_driver_determine_the_registry(raw, moto, register, monkeypatch):
    schema_id = register("orders", "AVRO", json.dumps(FIRST))
    # The workers of the session started before, without these settings.
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", moto)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert GlueRegistry().resolved() == GlueRegistry("eu-central-1", moto)
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
