"""A proxy for an S3 endpoint that can delay, drop or reject the request that commits to a Delta table."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path  # noqa: TC003  # the fields of a dataclass
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

_HOP_BY_HOP_REQUEST = {"content-length", "expect", "transfer-encoding"}
_HOP_BY_HOP_RESPONSE = {"connection", "keep-alive", "transfer-encoding", "date", "server"}


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Commit:
    """How the proxy handles the request of one commit.

    Attributes:
        before: Called before the request is forwarded.
        forwarded: Whether the request is forwarded.
        after: Called after that.
        status: Status of the response; None closes the connection without a response.
        content: Body of the response.
    """

    before: Callable[[], object] = _nothing
    forwarded: bool = True
    after: Callable[[], object] = _nothing
    status: int | None = None
    content: bytes = b""


@dataclass
class S3Proxy:
    """A proxy that forwards all requests, except for the commits that it is configured to handle.

    Attributes:
        endpoint: The endpoint of S3.
        commits: How to handle the next commits; those after them are forwarded.
        statuses: Status of each response of S3 to a PUT into the log of a table.
        latency: Seconds by which each request is delayed.
        conditional: Whether the condition of a PUT is forwarded. Without it, the store overwrites objects.
        conditional_puts: Held while a conditional PUT is forwarded. moto checks the condition and writes in
            two steps, so that two requests at once could both succeed.
        signers: A file to which the access key of each request is appended, in a line.
    """

    endpoint: str
    latency: float = 0.0
    conditional: bool = True
    commits: deque[Commit] = field(default_factory=deque)
    statuses: list[int] = field(default_factory=list)
    conditional_puts: threading.Lock = field(default_factory=threading.Lock)
    signers: Path | None = None

    def __enter__(self) -> Self:
        server: S3Proxy = self

        class Handler(_Handler):
            proxy = server

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The URL of the proxy."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that point a process to the proxy."""
        return {"AWS_ENDPOINT_URL_S3": self.url}


class _Handler(BaseHTTPRequestHandler):
    proxy: S3Proxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a body would wait until the headers are acknowledged: 40 ms

    def handle(self) -> None:
        with suppress(ConnectionError):  # a process that dies resets its connections
            super().handle()

    def do_GET(self) -> None:
        time.sleep(self.proxy.latency)
        if self.proxy.signers is not None:
            found = re.search("Credential=([^/]+)/", self.headers.get("Authorization", ""))
            with self.proxy.signers.open("a") as signers:
                signers.write(f"{found[1] if found else None}\n")
        body = self._body()
        commits = self.command == "PUT" and re.search(r"/_delta_log/\d{20}\.json$", urlsplit(self.path).path)
        try:
            handling = self.proxy.commits.popleft() if commits else Commit(status=0)
        except IndexError:
            handling = Commit(status=0)
        handling.before()
        if handling.forwarded:
            status, headers, content = self._forward(body)
            if commits:
                self.proxy.statuses.append(status)
        handling.after()
        if handling.status is None:
            self.close_connection = True
        elif handling.status:
            self._respond(handling.status, {}, handling.content)
        else:
            self._respond(status, headers, content)

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815  # names of the base class

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = HTTPConnection(urlsplit(self.proxy.endpoint).netloc, timeout=30)
        dropped = _HOP_BY_HOP_REQUEST if self.proxy.conditional else {*_HOP_BY_HOP_REQUEST, "if-none-match"}
        headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
        with self.proxy.conditional_puts if "If-None-Match" in self.headers else nullcontext():
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            content = response.read()
        connection.close()
        return response.status, dict(response.getheaders()), content

    def _respond(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        length = str(len(content))
        for name, value in headers.items():
            if name.lower() == "content-length":
                length = value if self.command == "HEAD" else length
            elif name.lower() not in _HOP_BY_HOP_RESPONSE:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass
