"""Stand-ins for AWS Glue and S3 Tables as catalogs of Iceberg tables: proxies add what moto does not do."""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import quote

from support.http_service import Reply, Request
from support.iceberg.catalogs import TestCatalog
from support.iceberg.fault_proxy import FaultProxy

TABLE_BUCKET = "arn:aws:s3tables:us-east-1:123456789012:bucket/lake"

_LOAD, _UPDATE = "AWSGlue.GetTable", "AWSGlue.UpdateTable"
_KEYS = {"access-key-id": "test", "secret-access-key": "test"}


@dataclass
class GlueProxy(FaultProxy):
    """A proxy before moto's Glue that honors the VersionId of UpdateTable, as Glue does. moto ignores it.

    Attributes:
        calls: How often each operation was called.
    """

    calls: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, request: Request) -> Reply | None:
        self.calls[request.headers["X-Amz-Target"].removeprefix("AWSGlue.")] += 1
        return super().reply(request)

    def loaded(self, request: Request) -> str | None:
        is_load = request.headers.get("X-Amz-Target") == _LOAD
        return request.body.decode() if is_load else None

    def is_commit(self, request: Request) -> bool:
        return request.headers.get("X-Amz-Target") == _UPDATE

    def commit(self, request: Request) -> Reply:
        update = json.loads(request.body)
        table = {"DatabaseName": update["DatabaseName"], "Name": update["TableInput"]["Name"]}
        headers = {**request.headers, "X-Amz-Target": _LOAD}
        with self._lock:
            found = self.forward(request._replace(headers=headers, body=json.dumps(table).encode()))
            if json.loads(found.content)["Table"]["VersionId"] != update.get("VersionId"):
                return _glue_error(HTTPStatus.BAD_REQUEST, "ConcurrentModificationException")
            return self.forward(request)

    def error(self, status: int) -> Reply:
        if status == HTTPStatus.CONFLICT:
            return _glue_error(HTTPStatus.BAD_REQUEST, "ConcurrentModificationException")
        return _glue_error(status, "InternalServiceException")


def _glue_error(status: int, kind: str) -> Reply:
    content = {"__type": kind, "Message": "made by the proxy"}
    return Reply(status, json.dumps(content).encode(), "application/x-amz-json-1.1")


def on_glue(url: str, warehouse: dict[str, str]) -> TestCatalog:
    """Return the catalog behind a `GlueProxy`."""
    keys = {f"glue.{name}": value for name, value in _KEYS.items()}
    return TestCatalog(
        "glue", {"type": "glue", "glue.endpoint": url, "glue.region": "us-east-1", **keys, **warehouse}
    )


@dataclass
class TableBucketProxy(FaultProxy):
    """A proxy that makes a REST catalog a table bucket of S3 Tables, with signed requests and a prefix.

    moto has no Iceberg REST endpoint for S3 Tables.
    """

    def reply(self, request: Request) -> Reply | None:
        if "/s3tables/aws4_request" not in request.headers.get("Authorization", ""):
            return self.error(HTTPStatus.FORBIDDEN)
        prefix = quote(TABLE_BUCKET, safe="")
        if request.path.startswith("/iceberg/v1/config"):
            return Reply(
                HTTPStatus.OK, json.dumps({"defaults": {}, "overrides": {"prefix": prefix}}).encode()
            )
        if not request.path.startswith(f"/iceberg/v1/{prefix}/"):
            return self.error(HTTPStatus.NOT_FOUND)
        path = request.path.replace(f"/iceberg/v1/{prefix}/", "/v1/", 1)
        return super().reply(request._replace(path=path))


def in_table_bucket(url: str) -> TestCatalog:
    """Return the catalog behind a `TableBucketProxy`."""
    signing = {"rest.sigv4-enabled": "true", "rest.signing-name": "s3tables"}
    client = {f"client.{name}": value for name, value in (_KEYS | {"region": "us-east-1"}).items()}
    properties = {"type": "rest", "uri": f"{url}/iceberg", "warehouse": TABLE_BUCKET, **client}
    return TestCatalog("s3tables", {**properties, **signing, "rest.signing-region": "us-east-1"})


def on_s3_tables(url: str) -> TestCatalog:
    """Return the catalog behind a `TableBucketProxy` as settings name it."""
    return TestCatalog("s3tables", {"type": "s3tables", "uri": f"{url}/iceberg", "warehouse": TABLE_BUCKET})
