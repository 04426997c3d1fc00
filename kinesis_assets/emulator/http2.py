"""HTTP/2 beside HTTP/1.1 on one port, for uvicorn: it serves an ASGI application to both kinds of clients."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error
from h2.settings import SettingCodes
from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from h2.events import Event
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from kinesis_assets.emulator.asgi import Message, Scope

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of a client that speaks HTTP/2, with or without TLS."""

_WINDOW = 1 << 20
"""How many bytes of a request a client may send before this end has received them."""

_INTERNAL_ERROR = 2

_logger = logging.getLogger("uvicorn.error")


class HttpProtocol(asyncio.Protocol):
    """A connection until its first bytes show whether the client speaks HTTP/1.1 or HTTP/2."""

    transport: asyncio.Transport

    def __init__(self, **parts: Any) -> None:
        self._parts = parts
        self._state: ServerState = parts["server_state"]
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Add the connection to those of the server."""
        self.transport = cast("asyncio.Transport", transport)
        self._state.connections.add(self)  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from those of the server."""
        del exc
        self._state.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        """Collect the first bytes, and then hand over to the protocol that they show."""
        self._received += data
        if len(self._received) < len(_PREFACE) and _PREFACE.startswith(self._received):
            return
        self._state.connections.discard(self)
        kind = _Http2Connection if self._received.startswith(_PREFACE) else AutoHTTPProtocol
        protocol = kind(**self._parts)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        protocol.data_received(self._received)


class _Http2Connection(asyncio.Protocol):
    """A connection with its requests, each of which is a stream in the terms of HTTP/2."""

    transport: asyncio.Transport

    def __init__(self, config: Config, server_state: ServerState, **_: Any) -> None:
        self._app = config.loaded_app
        self._state = server_state
        self._requests: dict[int, _Request] = {}
        self._changed = asyncio.Event()
        self._paused = False
        self.http = H2Connection(H2Configuration(client_side=False, header_encoding=None))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._state.connections.add(self)  # type: ignore[arg-type]
        self.http.initiate_connection()
        self.http.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW})
        self.http.increment_flow_control_window(_WINDOW)
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._state.connections.discard(self)
        self._end_all()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self.http.receive_data(data):
                self._handle(event)
        except H2Error as error:
            _logger.warning("Invalid HTTP/2 request received: %s", error)
            self._close()
        else:
            self.flush()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._wake()

    def flush(self) -> None:
        """Send what the protocol has to send, unless the connection is closed."""
        data = self.http.data_to_send()
        if not self.transport.is_closing():
            self.transport.write(data)

    async def room(self, stream_id: int) -> int:
        """Return how many bytes the client has room for now; if for none, wait for a change and return 0."""
        size = min(self.http.local_flow_control_window(stream_id), self.http.max_outbound_frame_size)
        if self._paused or size <= 0:
            await self._changed.wait()
            return 0
        return size

    def _handle(self, event: Event) -> None:
        match event:
            case RequestReceived(stream_id=int(stream_id), headers=headers):
                named = dict(headers or ())
                self._requests[stream_id] = _Request(self, stream_id, named)
            case DataReceived(stream_id=int(stream_id), data=data):
                self.http.acknowledge_received_data(event.flow_controlled_length or 0, stream_id)
                if stream_id in self._requests:
                    self._requests[stream_id].body += data or b""
            case StreamEnded(stream_id=int(stream_id)) if stream_id in self._requests:
                self._start(stream_id, self._requests[stream_id])
            case StreamReset(stream_id=int(stream_id)):
                self._end(stream_id)
                self._wake()
            case WindowUpdated() | RemoteSettingsChanged():
                self._wake()
            case ConnectionTerminated():
                self._close()

    def _start(self, stream_id: int, request: _Request) -> None:
        task = asyncio.get_running_loop().create_task(request.run(self._app))
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)
        task.add_done_callback(lambda _: self._end(stream_id))

    def _end(self, stream_id: int) -> None:
        request = self._requests.pop(stream_id, None)
        if request is not None:
            request.disconnected.set()

    def _end_all(self) -> None:
        for stream_id in list(self._requests):
            self._end(stream_id)
        self._wake()

    def _close(self) -> None:
        self.flush()
        self._end_all()
        self.transport.close()

    def _wake(self) -> None:
        """Let all responses see whether they can be sent now."""
        self._changed.set()
        self._changed = asyncio.Event()


class _Request:
    def __init__(self, connection: _Http2Connection, stream_id: int, headers: Mapping[bytes, bytes]) -> None:
        self.disconnected = asyncio.Event()
        self.body = bytearray()
        self._connection = connection
        self._stream_id = stream_id
        self._headers = headers
        self._received = False
        self._started = False

    @property
    def scope(self) -> Scope:
        path, _, query = self._headers[b":path"].partition(b"?")
        return {
            "type": "http",
            "http_version": "2",
            "method": self._headers[b":method"].decode(),
            "path": path.decode(),
            "query_string": query,
            "headers": [pair for pair in self._headers.items() if not pair[0].startswith(b":")],
            "client": self._connection.transport.get_extra_info("peername"),
        }

    async def run(self, app: Any) -> None:
        """Let the application respond. If it fails, so does this request."""
        try:
            await app(self.scope, self._receive, self._send)
        except Exception:
            _logger.exception("Exception in ASGI application")
            if not self._started:
                await self._send({"type": "http.response.start", "status": 500, "headers": []})
                await self._send({"type": "http.response.body", "body": b"Internal Server Error"})
            elif not self.disconnected.is_set():
                self._connection.http.reset_stream(self._stream_id, _INTERNAL_ERROR)
                self._connection.flush()

    async def _receive(self) -> Message:
        if self._received:
            await self.disconnected.wait()
            return {"type": "http.disconnect"}
        self._received = True
        return {"type": "http.request", "body": bytes(self.body)}

    async def _send(self, message: Message) -> None:
        if self.disconnected.is_set():
            return
        if message["type"] == "http.response.start":
            self._started = True
            status = (b":status", str(message["status"]).encode())
            self._connection.http.send_headers(self._stream_id, [status, *message["headers"]])
        else:
            await self._send_data(memoryview(message.get("body", b"")))
            if not message.get("more_body", False) and not self.disconnected.is_set():
                self._connection.http.end_stream(self._stream_id)
        self._connection.flush()

    async def _send_data(self, rest: memoryview) -> None:
        while rest and not self.disconnected.is_set():
            size = await self._connection.room(self._stream_id)
            if size:
                self._connection.http.send_data(self._stream_id, bytes(rest[:size]))
                self._connection.flush()
                rest = rest[size:]
