"""Servers on loopback: their threads, and one that responds with given bytes, which may be malformed."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

_NO_LINGER = struct.pack("ii", 1, 0)


class After(Enum):
    """What happens to a connection after a response."""

    KEEP = auto()
    END = auto()
    RESET = auto()
    HOLD = auto()
    """The connection stays open, and nothing more is sent."""


@dataclass(frozen=True)
class Response:
    """One response.

    Attributes:
        data: The bytes to send at once.
        then: What happens to the connection afterwards.
        more: Bytes to send after `data`; with TLS, in a record of their own.
        after: Seconds to wait before anything is sent.
    """

    data: bytes
    then: After = After.KEEP
    more: bytes = b""
    after: float = 0


class LoopbackServer:
    """A server on loopback with a thread for each connection, which runs while it is entered as a context.

    Args:
        tls: A context with which to serve TLS.

    Attributes:
        address: Host and port.
        connections: The number of connections that were accepted.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.connections = 0
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.url = f"{'https' if tls else 'http'}://{self.address}"
        self._threads = [threading.Thread(target=self._listen)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listening.close()
        self.end()
        for thread in self._threads:
            thread.join()

    def end(self) -> None:
        """End all open connections."""
        for connection in self._open:
            with suppress(OSError):  # it has already ended
                connection.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        with suppress(OSError):  # the server stops listening
            while True:
                connection, _ = self._listening.accept()
                self.connections += 1
                self._start(self._serve, connection)

    def _start(self, function: Callable[..., None], *arguments: socket.socket) -> threading.Thread:
        """Run a function in a thread, which ends before the server does."""
        thread = threading.Thread(target=function, args=arguments)
        self._threads.append(thread)
        thread.start()
        return thread

    def _serve(self, plain: socket.socket) -> None:
        with suppress(OSError), plain:  # the client disconnects
            connection = self._tls.wrap_socket(plain, server_side=True) if self._tls else plain
            self._open.append(connection)
            with connection:
                self._converse(connection)

    def _converse(self, connection: socket.socket) -> None:
        """Use a connection, which is closed afterwards."""
        raise NotImplementedError


class ScriptedServer(LoopbackServer):
    """A server with given responses.

    Args:
        responses: The responses to the requests in order. The last one is repeated.

    Attributes:
        requests: The requests received, with head and body.
        requested: Set when a request has been received.
        ended: Set when the server has ended a connection.
    """

    def __init__(self, *responses: Response, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.requests: list[bytes] = []
        self.requested = threading.Event()
        self.ended = threading.Event()
        self._responses = list(responses)

    def _serve(self, plain: socket.socket) -> None:
        super()._serve(plain)
        self.ended.set()

    def _converse(self, connection: socket.socket) -> None:
        while self._respond(connection):
            pass

    def _respond(self, connection: socket.socket) -> bool:
        request = read_request(connection)
        if not request:
            return False
        self.requests.append(request)
        self.requested.set()
        response = self._responses.pop(0) if len(self._responses) > 1 else self._responses[0]
        time.sleep(response.after)
        connection.sendall(response.data)
        connection.sendall(response.more)
        if response.then is After.HOLD:
            return bool(connection.recv(1))  # until the client disconnects
        if response.then is After.RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        return response.then is After.KEEP


def read_request(connection: socket.socket) -> bytes:
    """Read a whole request; empty if the client disconnects first."""
    with connection.makefile("rb", buffering=0) as stream:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = stream.readline()
            if not line:
                return b""
            head += line
        lengths = [line for line in head.lower().splitlines() if line.startswith(b"content-length:")]
        length = int(lengths[0].split(b":")[1]) if lengths else 0
        body = b""
        while len(body) < length:
            piece = stream.read(length - len(body))
            if not piece:
                return b""
            body += piece
        return head + body
