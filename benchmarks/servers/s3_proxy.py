"""A proxy before an S3 endpoint, which can hold, drop or refuse the request that makes a table's commit."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

_OF_ONE_WAY = {"content-length", "expect", "transfer-encoding"}
_OF_THE_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "date", "server"}


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Commit:
    """What becomes of one commit's request.

    Attributes:
        before: Done before it is passed on.
        passed_on: Whether it is.
        after: Done then.
        status: What is answered; by default nothing: the connection is closed.
        content: With these bytes.
    """

    before: Callable[[], object] = _nothing
    passed_on: bool = True
    after: Callable[[], object] = _nothing
    status: int | None = None
    content: bytes = b""


@dataclass
class S3Proxy:
    """Passes everything on but the commits that it was told of, first told first.

    Attributes:
        endpoint: Where S3 is.
        commits: What becomes of the next ones.
        answers: What S3 answered to each PUT into a table's log, as told or not.
        latency: Seconds by which each request is delayed.
        conditional_puts: Held while one is passed on. moto checks the condition and writes in two steps: of
            two requests at once, both could win.
    """

    endpoint: str
    latency: float = 0.0
    commits: deque[Commit] = field(default_factory=deque)
    answers: list[int] = field(default_factory=list)
    conditional_puts: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Self:
        proxy: S3Proxy = self

        class Handler(_Handler):
            of = proxy

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
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        """What leads a process here."""
        return {"AWS_ENDPOINT_URL_S3": self.url}


class _Handler(BaseHTTPRequestHandler):
    of: S3Proxy
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        with suppress(ConnectionError):  # a process that dies resets its connections
            super().handle()

    def do_GET(self) -> None:
        time.sleep(self.of.latency)
        body = self._body()
        commits = self.command == "PUT" and re.search(r"/_delta_log/\d{20}\.json$", urlsplit(self.path).path)
        try:
            told = self.of.commits.popleft() if commits else Commit(status=0)
        except IndexError:
            told = Commit(status=0)
        told.before()
        if told.passed_on:
            status, headers, content = self._pass_on(body)
            if commits:
                self.of.answers.append(status)
        told.after()
        if told.status is None:
            self.close_connection = True
        elif told.status:
            self._answer(told.status, {}, told.content)
        else:
            self._answer(status, headers, content)

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815  # the base class calls them so

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _pass_on(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = HTTPConnection(urlsplit(self.of.endpoint).netloc, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_ONE_WAY}
        with self.of.conditional_puts if "If-None-Match" in self.headers else nullcontext():
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), content

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        length = str(len(content))
        for name, value in headers.items():
            if name.lower() == "content-length":
                length = value if self.command == "HEAD" else length
            elif name.lower() not in _OF_THE_CONNECTION:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass
