"""A server over HTTP/2 whose responses are written by a function, and may be malformed."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from zlib import crc32

import h2.config
import h2.connection
import h2.events
from h2.exceptions import ProtocolError

from support.scripted_server import LoopbackServer

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable

HEAD = {"content-type": "application/vnd.amazon.eventstream", "date": "Sat, 28 Nov 2026 12:00:00 GMT"}


def message(payload: bytes, **headers: str) -> bytes:
    """Return a message of an event stream. The names of headers are written with `_` for `-`."""
    named = b"".join(
        bytes([len(name) + 1]) + b":" + name.replace("_", "-").encode() + b"\x07"
        + struct.pack(">H", len(value)) + value.encode()
        for name, value in headers.items()
    )  # fmt: skip
    lengths = struct.pack(">II", 16 + len(named) + len(payload), len(named))
    data = lengths + struct.pack(">I", crc32(lengths)) + named + payload
    return data + struct.pack(">I", crc32(data))


def event(**members: Any) -> bytes:
    """Return the message of a SubscribeToShardEvent, with the names of its members as in Python."""
    wire = {"".join(part.capitalize() for part in name.split("_")): value for name, value in members.items()}
    return message(json.dumps(wire).encode(), message_type="event", event_type="SubscribeToShardEvent")


def exception(code: str, text: str) -> bytes:
    return message(json.dumps({"message": text}).encode(), message_type="exception", exception_type=code)


class Peer:
    """The server's end of a connection, after the request was received.

    Attributes:
        corked: Whether what is to be sent is kept, to be sent together later.
    """

    def __init__(self, connection: socket.socket, *, corked: bool = False) -> None:
        self.socket = connection
        self.corked = corked
        self.http = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        self.http.initiate_connection()
        self.headers: dict[str, str] = {}
        self.body = b""
        self.received: list[h2.events.Event] = []
        self.flush()
        while not self.has_received(h2.events.StreamEnded):
            self.receive()

    def has_received(self, kind: type[h2.events.Event]) -> bool:
        return any(isinstance(each, kind) for each in self.received)

    def flush(self) -> None:
        if not self.corked:
            self.socket.sendall(self.http.data_to_send())

    def receive(self) -> None:
        """Receive what comes next. Raises ConnectionError at the end of the connection."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        for each in self.http.receive_data(data):
            self.received.append(each)
            if isinstance(each, h2.events.RequestReceived):
                self.headers = dict(each.headers)
            elif isinstance(each, h2.events.DataReceived):
                self.body += each.data
        self.flush()

    def receive_until(self, kind: type[h2.events.Event]) -> None:
        while not self.has_received(kind):
            self.receive()

    def head(self, status: int = 200) -> None:
        self.http.send_headers(1, [(":status", str(status)), *HEAD.items()])
        self.flush()

    def send(self, data: bytes, frame: int = 16_384) -> None:
        """Send data as far as the client's windows allow, and wait for more of them."""
        while data:
            size = min(frame, len(data), self.http.local_flow_control_window(1))
            if size <= 0:
                self.receive()
                continue
            self.http.send_data(1, data[:size])
            self.flush()
            data = data[size:]

    def end(self) -> None:
        self.http.end_stream(1)
        self.flush()

    def reset(self) -> None:
        self.http.reset_stream(1, 2)
        self.flush()

    def go_away(self) -> None:
        self.http.close_connection(0, last_stream_id=1)
        self.flush()

    def hold(self) -> None:
        """Keep the connection open until the client ends it."""
        while True:
            self.receive()


class Http2Server(LoopbackServer):
    """A server that talks to each client as a script says.

    Args:
        scripts: What to do with the request of each connection in order. The last one is repeated. When it
            returns, the connection is closed.
        corked: See `Peer`, until a script changes it.

    Attributes:
        peers: The ends of the connections that have sent a request.
    """

    def __init__(
        self, *scripts: Callable[[Peer], object], tls: ssl.SSLContext | None = None, corked: bool = False
    ) -> None:
        super().__init__(tls)
        self.peers: list[Peer] = []
        self._corked = corked
        self._scripts = list(scripts)

    def _converse(self, connection: socket.socket) -> None:
        with suppress(ProtocolError):  # the script ends HTTP/2
            peer = Peer(connection, corked=self._corked)
            self.peers.append(peer)
            script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
            script(peer)
