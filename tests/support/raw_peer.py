"""A server that reads whole requests and answers with given bytes, however wrong they are."""

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

_NO_LINGER = struct.pack("ii", 1, 0)


class Then(Enum):
    """What becomes of a connection after an answer."""

    KEEP = auto()
    END = auto()
    RESET = auto()
    HOLD = auto()
    """Nothing more comes, and it does not end."""


@dataclass(frozen=True)
class Sent:
    """One answer.

    Attributes:
        data: What is sent at once.
        then: What becomes of the connection.
        more: Is sent after it, by TLS in a record of its own.
        after: Seconds for which all is held back.
    """

    data: bytes
    then: Then = Then.KEEP
    more: bytes = b""
    after: float = 0


class RawPeer:
    """A context in which it serves, on loopback.

    Args:
        answers: To the requests in their order; the last one to all that follow.
        tls: To speak TLS with.

    Attributes:
        address: Host and port.
        url: Where it is.
        requests: That came, heads and bodies.
        asked: Set when one has come.
        connections: That were made.
        ended: Set when a connection was ended by it.
    """

    def __init__(self, *answers: Sent, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.asked = threading.Event()
        self.ended = threading.Event()
        self._answers = list(answers)
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
        """End all connections that are open."""
        for connection in self._open:
            with suppress(OSError):  # it has ended by itself
                connection.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        with suppress(OSError):  # the end of listening
            while True:
                connection, _ = self._listening.accept()
                self.connections += 1
                thread = threading.Thread(target=self._serve, args=[connection])
                self._threads.append(thread)
                thread.start()

    def _serve(self, plain: socket.socket) -> None:
        with suppress(OSError), plain:  # a client that goes
            connection = self._tls.wrap_socket(plain, server_side=True) if self._tls else plain
            self._open.append(connection)
            with connection:
                while self._answer(connection):
                    pass
        self.ended.set()

    def _answer(self, connection: socket.socket) -> bool:
        request = read_request(connection)
        if not request:
            return False
        self.requests.append(request)
        self.asked.set()
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        time.sleep(answer.after)
        connection.sendall(answer.data)
        connection.sendall(answer.more)
        if answer.then is Then.HOLD:
            return bool(connection.recv(1))  # until the other end goes
        if answer.then is Then.RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        return answer.then is Then.KEEP


def read_request(connection: socket.socket) -> bytes:
    """A whole request; empty where none came."""
    with connection.makefile("rb", buffering=0) as coming:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = coming.readline()
            if not line:
                return b""
            head += line
        lengths = [line for line in head.lower().splitlines() if line.startswith(b"content-length:")]
        length = int(lengths[0].split(b":")[1]) if lengths else 0
        body = b""
        while len(body) < length:
            piece = coming.read(length - len(body))
            if not piece:
                return b""
            body += piece
        return head + body
