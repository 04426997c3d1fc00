"""A stub of a table bucket of Amazon S3 Tables: a REST catalog that chooses locations, and its store.

moto has no Iceberg REST endpoint for S3 Tables. So Iceberg's own handlers are the catalog, and a proxy before
them creates a bucket of the gateway for each table. Another proxy, before the gateway, answers requests for
these buckets as S3 Tables does by its documentation: objects are neither listed nor deleted. A missing object
is refused, as it is to a caller of S3 who must not list. The service itself calls the gateway directly.
"""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from benchmarks.harness.waiting import SECONDS
from support.http_service import HttpService, Request
from support.iceberg import foreign
from support.iceberg.aws_catalogs import TableBucketProxy, on_s3_tables
from support.iceberg.catalogs import TestCatalog, in_bucket, over_rest

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from support.http_service import Reply

_ENDING = "--table-s3"

_ACTIONS = {
    ("GET", 1): {"GetTableBucket"},  # config
    ("POST", 2): {"CreateNamespace"},  # {prefix}/namespaces
    ("HEAD", 3): {"GetNamespace"},
    ("GET", 3): {"GetNamespace"},
    ("POST", 4): {"CreateTable", "PutTableData"},  # {prefix}/namespaces/{namespace}/tables
    ("GET", 5): {"GetTableMetadataLocation", "GetTableData"},
    ("POST", 5): {"UpdateTableMetadataLocation", "GetTableData", "PutTableData"},
}
"""The actions that an operation needs, by its method and the number of parts of its path."""


@dataclass
class RestrictedStore:
    """A proxy in front of the gateway that refuses what S3 Tables refuses; runs while it is entered.

    Attributes:
        gateway: The URL of the gateway.
        refused: The method and the path of each request that was refused.
        url: The URL of the proxy.
    """

    gateway: str
    refused: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""

    def __enter__(self) -> Self:
        self._service = HttpService(type("Handler", (_Handler,), {"store": self}))
        self.url = self._service.url
        return self

    def __exit__(self, *_: object) -> None:
        self._service.stop()

    def is_allowed(self, method: str, path: str) -> bool:
        """Return whether a request is an operation of table buckets, or one in another bucket."""
        place, _, query = path.partition("?")
        bucket, _, key = place.lstrip("/").partition("/")
        if not bucket.endswith(_ENDING):
            return True
        in_parts = "uploadId" in parse_qs(query, keep_blank_values=True)
        return bool(key) and (method != "DELETE" or in_parts)


class _Handler(BaseHTTPRequestHandler):
    store: RestrictedStore
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self._body()
        if not self.store.is_allowed(self.command, self.path):
            self.store.refused.append((self.command, self.path))
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "MethodNotAllowed")
            return
        connection = http.client.HTTPConnection(urlsplit(self.store.gateway).netloc, timeout=SECONDS)
        try:
            # The signature covers the host of this proxy.
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in {"transfer-encoding", "content-length", "expect"}:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            content = response.read()
            self._respond(response.status, response.getheaders(), content)
        finally:
            connection.close()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _respond(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        if status == HTTPStatus.NOT_FOUND and _ENDING in self.path:
            self._refuse(HTTPStatus.FORBIDDEN, "AccessDenied")
            return
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in {"transfer-encoding", "connection", "content-length"}:
                self.send_header(name, value)
        lengths = [value for name, value in headers if name.lower() == "content-length"]
        length = lengths[0] if self.command == "HEAD" and lengths else str(len(content))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _refuse(self, status: HTTPStatus, code: str) -> None:
        content = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>stub</Message></Error>"
        self.send_response_only(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content.encode())

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@dataclass
class TableBucket(TableBucketProxy):
    """The catalog.

    Attributes:
        s3: A client of the gateway, as the service uses it.
        store: The store, as users of the table bucket use it.
        actions: The actions of IAM that the requests need, by AWS' page about the endpoint.
    """

    s3: Any = None
    store: RestrictedStore = field(default_factory=lambda: RestrictedStore(""))
    actions: set[str] = field(default_factory=set)

    @property
    def catalog(self) -> TestCatalog:
        """The catalog with a new namespace, as settings name it."""
        return on_s3_tables(self.url)

    def reply(self, request: Request) -> Reply | None:
        self.actions |= _ACTIONS[request.method, request.path.partition("?")[0].count("/") - 2]
        if request.method == "POST" and request.path.endswith("/tables"):
            namespace = request.path.split("/")[-2]
            found = self.forward(Request("GET", f"/v1/namespaces/{namespace}", {}, b""))
            if found.status != HTTPStatus.OK:  # unlike S3 Tables, the catalog would create the table
                return found
            table = json.loads(request.body)
            if table.get("location") is not None or table.get("stage-create"):
                return self.error(HTTPStatus.BAD_REQUEST)
            bucket = f"{uuid4()}{_ENDING}"
            self.s3.create_bucket(Bucket=bucket)
            request = request._replace(body=json.dumps(table | {"location": f"s3://{bucket}"}).encode())
        return super().reply(request)

    def table(self, catalog: TestCatalog, name: str = "orders") -> Table:
        """Return the newest version of a table, as the service reads and writes it."""
        store = in_bucket("s3://none", self.store.gateway)
        served = replace(over_rest(self.catalog_url, store), namespace=catalog.namespace)
        return served.load().load_table((catalog.namespace, name))

    def maintain(self, catalog: TestCatalog, name: str = "orders") -> list[str]:
        """Expire all snapshots but the newest, and delete the objects that no snapshot names, however new.

        The service deletes no object of the last days.

        Returns:
            The keys of the objects.
        """
        foreign.expire_all_but_current(self.table(catalog, name))
        table = self.table(catalog, name)
        kept = {table.metadata_location}
        for snapshot in table.snapshots():
            kept.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                kept.add(manifest.manifest_path)
                kept.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))
        removed = [key for key in self.keys(table.location()) if f"{table.location()}/{key}" not in kept]
        for key in removed:
            self.s3.delete_object(Bucket=urlsplit(table.location()).netloc, Key=key)
        return removed

    def keys(self, uri: str) -> list[str]:
        """Return the keys of the objects in a bucket."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=urlsplit(uri).netloc)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]
