"""An HTTP/2 client of the embedded stream that makes one request after another, and parses event streams."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import h2.config
import h2.connection
import h2.events
from botocore.eventstream import EventStreamBuffer

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.emulator.app import TARGET_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.emulator import LocalKinesis


class Http2Client:
    """A connection."""

    def __init__(self, local: LocalKinesis, connected: socket.socket | None = None) -> None:
        self.socket = connected or socket.create_connection(("127.0.0.1", local.port), timeout=SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.http = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.http.initiate_connection()
        self.flush()

    def flush(self) -> None:
        with suppress(ConnectionError):  # what has arrived can still be read
            self.socket.sendall(self.http.data_to_send())

    def request(self, operation: str, **members: Any) -> Response:
        """Send a request."""
        stream_id = self.http.get_next_available_stream_id()
        names = {
            ":method": "POST",
            ":path": "/",
            ":scheme": "http",
            ":authority": "localhost",
            "content-type": "application/x-amz-json-1.1",
            "x-amz-target": f"{TARGET_PREFIX}{operation}",
        }
        self.http.send_headers(stream_id, list(names.items()))
        body = json.dumps(members).encode()
        while body:
            size = min(self.http.local_flow_control_window(stream_id), self.http.max_outbound_frame_size)
            if size:
                self.http.send_data(stream_id, body[:size])
                body = body[size:]
                self.flush()
            else:
                self.receive()
        self.http.end_stream(stream_id)
        self.flush()
        return Response(self, stream_id)

    def receive(self) -> list[h2.events.Event]:
        """Receive what comes next; ConnectionError if that is the end of the connection."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("closed")
        events = self.http.receive_data(data)
        for event in events:
            if isinstance(event, h2.events.DataReceived):
                self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.flush()
        return events

    def close(self) -> None:
        self.socket.close()


class Response:
    """The response to the last request of a connection."""

    def __init__(self, client: Http2Client, stream_id: int) -> None:
        self.client = client
        self.stream_id = stream_id
        self.reset = False
        self._ended = False
        self._parts: list[bytes] = []
        self.headers: dict[str, str] = {}
        while not self.headers:
            self._receive()

    @property
    def status(self) -> int:
        return int(self.headers[":status"])

    def parts(self) -> Iterator[bytes]:
        """Yield the parts of the body as they arrive."""
        while True:
            yield from self._parts
            self._parts.clear()
            if self._ended:
                return
            self._receive()

    def json(self) -> dict[str, Any]:
        members: dict[str, Any] = json.loads(b"".join(self.parts()) or b"{}")
        return members

    def messages(self) -> Iterator[Any]:
        """Yield the messages of an event stream; botocore parses them and verifies their checksums."""
        buffer = EventStreamBuffer()
        for part in self.parts():
            buffer.add_data(part)
            yield from buffer

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the payloads of SubscribeToShardEvent; an exception is its type with the payload."""
        for message in self.messages():
            payload = json.loads(message.payload)
            if message.headers[":message-type"] == "exception":
                yield {message.headers[":exception-type"]: payload}
            elif message.headers[":event-type"] == "SubscribeToShardEvent":
                yield payload

    def _receive(self) -> None:
        for event in self.client.receive():
            if getattr(event, "stream_id", None) != self.stream_id:
                continue
            if isinstance(event, h2.events.ResponseReceived):
                self.headers = dict(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                self._parts.append(event.data)
            elif isinstance(event, h2.events.StreamReset):
                self._ended = self.reset = True
            elif isinstance(event, h2.events.StreamEnded):
                self._ended = True
