"""Servers over HTTP whose responses are those of a function, in place of services of others."""

from __future__ import annotations

import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Request(NamedTuple):
    """A request, with its headers by name."""

    method: str
    path: str
    headers: Any
    body: bytes


class Reply(NamedTuple):
    """A response."""

    status: int
    content: bytes = b""
    kind: str = "application/json"


class HttpService:
    """A server on loopback, which runs until it is stopped."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=[0.01], daemon=True).start()

    @classmethod
    def of(cls, respond: Callable[[Request], Reply | None]) -> HttpService:
        """Start a server with the responses of a function. Where it returns None, the connection ends."""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # it would let a body wait for the acknowledgement of its headers

            def _respond(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                reply = respond(Request(self.command, self.path, self.headers, body))
                if reply is None:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.kind)
                if reply.status != HTTPStatus.NO_CONTENT:
                    self.send_header("Content-Length", str(len(reply.content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(reply.content)

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _respond  # noqa: N815  # http.server's names

            def log_message(self, *_: object) -> None:
                pass

        return cls(Handler)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
