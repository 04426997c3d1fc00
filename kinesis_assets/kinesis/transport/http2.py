"""A response over HTTP/2 that goes on for minutes, on a connection of its own.

A connection is opened as those of `http` are, with the SDK's settings for proxies and TLS, but it is not one
of its pool: it has a single request, whose response takes it up. So responses do not share a flow-control
window, and one that nobody reads does not delay another. Like those of the pool, it does not belong to an
event loop: the next one goes on reading where the previous one stopped.

Bytes are received only when they are requested. Until then they stay with the kernel, and beyond its buffers
and `WINDOW` with the sender.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ReadTimeoutError

from kinesis_assets.kinesis.transport.http import FAILURES, open_connection, sdk_error, until_ready

try:
    from h2.config import H2Configuration
    from h2.connection import H2Connection
    from h2.events import (
        ConnectionTerminated,
        DataReceived,
        InformationalResponseReceived,
        ResponseReceived,
        StreamEnded,
        StreamReset,
    )
    from h2.exceptions import H2Error
    from h2.frame_buffer import FrameBuffer
    from h2.settings import SettingCodes
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "enhanced fan-out needs h2: pip install 'kinesis-assets[fan-out]'", name="h2"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h2.events import Event
    from hyperframe.frame import Frame

    from kinesis_assets.kinesis.transport.sdk_internals import ConnectionPool

WINDOW = 512 << 10
"""The maximum number of bytes that the sender may send before this end receives them."""

_RECEIVE_BYTES = 256 << 10

_NO_DATA = 5.0
"""Seconds after the end of a wait in which frames without data may keep arriving, one right after another."""

_FIRST_WINDOW = 65_535
"""The window of a new connection and of a new stream (RFC 9113, 6.9.2)."""

_PROTOCOL = "h2"
"""The name of HTTP/2 in TLS (RFC 9113, 3.2)."""

_HTTP_1 = b"HTTP/1."

_STATUS = re.compile(r"[1-9][0-9]{2}")

_NO_PROTOCOL = "NO_APPLICATION_PROTOCOL"
"""The alert of a server that speaks nothing that is offered (RFC 7301, 3.2), in an error of OpenSSL."""


class NoHttp2(BotoCoreError):  # type: ignore[misc]  # botocore has no types
    """The endpoint, or a proxy in front of it, does not speak HTTP/2."""

    fmt = "no HTTP/2, which enhanced fan-out needs: {reason}"


class InvalidHttp2(BotoCoreError):  # type: ignore[misc]  # botocore has no types
    """What was received is not HTTP/2, or its parser takes it for that."""

    fmt = "the response is not HTTP/2: {reason}"


class _TlsContext(ssl.SSLContext):
    """A context that offers HTTP/2 alone. The SDK's HTTP library would offer HTTP/1.1."""

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Offer HTTP/2, whatever is given."""
        del alpn_protocols
        super().set_alpn_protocols([_PROTOCOL])


class _Frames(FrameBuffer):
    """The frames that were received. For its log, h2 asks each for its text, even if there is no log.

    That of a frame with data would be made of all of them, which takes as long as parsing them.
    """

    def __next__(self) -> Frame:
        """Return the next frame, whose text is short."""
        frame = super().__next__()
        frame.serialize_body = bytes  # type: ignore[method-assign]
        return frame


class Http2Response:
    """The response to one POST request.

    Create it with `post`. It must be closed.

    Attributes:
        status: The HTTP status.
        headers: Values by header name in lower case.
        ended: Whether the sender has ended the response, and all of it was received.
    """

    def __init__(self, connection: Any, pool: ConnectionPool, url: str) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.ended = False
        self._connection = connection
        self._pool = pool
        self._url = url
        self._http = H2Connection(H2Configuration(header_encoding="latin-1"))
        self._http.incoming_buffer = _Frames(server=False)
        self._stream_id = 1
        self._received: list[bytes] = []
        self._unsent = b""

    @classmethod
    async def post(
        cls, pool: ConnectionPool, url: str, headers: Iterable[tuple[str, str]], body: bytes, seconds: float
    ) -> Http2Response:
        """Send a request over a new connection, and wait for the head of the response.

        Args:
            headers: The headers of the request, including Host.
            seconds: The maximum time for the connection and the head together, whatever else arrives.

        Raises:
            BotoCoreError: No response was received.
        """
        deadline = asyncio.get_running_loop().time() + seconds
        connection = pool.new()
        response = cls(connection, pool, url)
        try:
            await response._send(headers, body, deadline)
            await response._receive_head(deadline)
        except (*FAILURES, pool.certificate_error, H2Error) as error:
            failure = response._failure(error)  # a closed connection has not connected to a proxy
            response.close()
            raise failure from error
        except BaseException:
            response.close()
            raise
        return response

    async def receive(self, seconds: float) -> bytes:
        """Return the bytes that have arrived, after waiting for the first ones.

        None are returned at the end of the response, or if none arrive in some seconds. At 0 seconds, only
        what has arrived already is returned.

        Raises:
            BotoCoreError: The connection failed, or the sender has canceled the response.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + seconds
        try:
            while not (self._received or self.ended):
                if clock() > deadline + _NO_DATA:
                    raise ConnectionAbortedError("the server sends frames without data again and again")
                self._handle(await self._receive(deadline))
        except TimeoutError:
            return b""
        except (*FAILURES, H2Error) as error:
            raise self._failure(error) from error
        found, self._received = b"".join(self._received), []
        return found

    async def receive_all(self, largest: int, seconds: float) -> bytes:
        """Return what arrives in some seconds of a response that ends, as that of an error does.

        It is not much more than `largest` bytes.

        Raises what `receive` raises.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + seconds
        body = b""
        while len(body) < largest and (found := await self.receive(max(0.0, deadline - clock()))):
            body += found
        return body

    def close(self) -> None:
        """Close the connection, without a word to the sender if that would block."""
        if self._connection.sock is not None:
            with suppress(OSError, H2Error):
                if not self.ended:
                    self._http.reset_stream(self._stream_id)
                self._flush()
        self._connection.close()

    @property
    def _socket(self) -> socket.socket:
        found: socket.socket = self._connection.sock
        return found

    async def _send(self, headers: Iterable[tuple[str, str]], body: bytes, deadline: float) -> None:
        parts = urlsplit(self._url)
        if parts.scheme == "https":
            self._connection.ssl_context = _TlsContext(ssl.PROTOCOL_TLS_CLIENT)
        proxy = self._pool.pool.proxy
        if proxy is not None and not (self._pool.uses_tunnel and proxy.scheme == "http"):
            # Through TLS to a proxy, the HTTP library cannot send without blocking.
            reason = "only a proxy of http:// for an endpoint of https:// lets it through"
            raise NoHttp2(reason=reason)
        await _opened(self._pool, self._connection, deadline)
        if parts.scheme == "https" and self._connection.sock.selected_alpn_protocol() != _PROTOCOL:
            raise NoHttp2(reason="the server, or a proxy before it, does not offer it")
        self._socket.setblocking(False)
        named = {name.lower(): value for name, value in headers}
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        first = {":method": "POST", ":scheme": parts.scheme, ":authority": named.pop("host"), ":path": path}
        self._http.initiate_connection()
        # Each frame costs CPU, and by default they have 16 KB at most.
        self._http.update_settings({SettingCodes.MAX_FRAME_SIZE: WINDOW})
        # h2 would refuse a longer frame that is received together with the acknowledgment of this setting.
        self._http.max_inbound_frame_size = WINDOW
        self._http.increment_flow_control_window(WINDOW - _FIRST_WINDOW)
        self._stream_id = self._http.get_next_available_stream_id()
        self._http.send_headers(self._stream_id, [*first.items(), *named.items()])
        self._http.increment_flow_control_window(WINDOW - _FIRST_WINDOW, self._stream_id)
        self._http.send_data(self._stream_id, body, end_stream=True)
        self._flush()

    async def _receive_head(self, deadline: float) -> None:
        clock = asyncio.get_running_loop().time
        while not self.status:
            if clock() > deadline:
                raise TimeoutError("the head of the response did not arrive in time")
            self._handle(await self._receive(deadline))

    async def _receive(self, deadline: float) -> list[Event]:
        """Return the next events. Raises `TimeoutError` if none arrive before a time of the event loop."""
        clock = asyncio.get_running_loop().time
        while True:
            to_send = not self._flush()
            try:
                found = self._socket.recv(_RECEIVE_BYTES)
                break
            except (BlockingIOError, ssl.SSLWantReadError):
                pass
            except ssl.SSLWantWriteError:
                to_send = True
            await until_ready(self._socket, deadline - clock(), to_send=to_send)
        if not found:
            raise ConnectionResetError("the connection was closed before the end of the response")
        if not self.status and found.startswith(_HTTP_1):
            raise NoHttp2(reason="the server responds with HTTP/1")  # the parser would wait for more
        return self._http.receive_data(found)

    def _handle(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case ResponseReceived(headers=headers):
                    self.headers = {str(name): str(value) for name, value in headers or ()}
                    status = self.headers[":status"]
                    if not _STATUS.fullmatch(status):
                        raise HTTPException(f"the response has the status {status[:80]!r}")
                    self.status = int(status)
                case InformationalResponseReceived():
                    pass
                case DataReceived(data=data):
                    self._http.acknowledge_received_data(event.flow_controlled_length or 0, self._stream_id)
                    if data:
                        self._received.append(data)
                case StreamEnded():
                    self.ended = True
                    return
                case StreamReset(error_code=code):
                    raise ConnectionResetError(f"the server has reset the stream with the error code {code}")
                case ConnectionTerminated(error_code=code):
                    # Data of the stream may still follow, but HTTP/2's state machine accepts none.
                    raise ConnectionResetError(
                        f"the server closes the connection, with the error code {code}"
                    )
        self._flush()

    def _flush(self) -> bool:
        """Send what the protocol has to send, as far as that does not block. Return whether all was sent."""
        self._unsent += self._http.data_to_send()
        with suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        return not self._unsent

    def _failure(self, error: Exception) -> BotoCoreError:
        if isinstance(error, ssl.SSLError) and _NO_PROTOCOL in str(error):
            return NoHttp2(reason="the server, or a proxy before it, does not offer it")
        if isinstance(error, H2Error):
            return InvalidHttp2(reason=str(error))
        if isinstance(error, TimeoutError):  # a thread that opens the connection may close it just now
            return ReadTimeoutError(endpoint_url=self._url, error=error)
        return sdk_error(error.with_traceback(None), self._connection, self._pool, self._url)


async def _opened(pool: ConnectionPool, connection: Any, deadline: float) -> None:
    """Open a connection in a thread of its own.

    Nobody waits for the thread after a time of the event loop, because nothing interrupts the resolution of a
    name, or an attempt to connect to each address of a host. It then closes the connection itself.

    Raises:
        TimeoutError: The connection is not open by then.
    """
    opening = Future[None]()

    def opens() -> None:
        try:
            try:
                open_connection(pool, connection)
            except BaseException as error:  # noqa: BLE001  # raised by the coroutine
                opening.set_exception(error)
            else:
                opening.set_result(None)
        except InvalidStateError:  # nobody waits for it
            connection.close()

    threading.Thread(target=opens, name="connection over HTTP/2", daemon=True).start()
    try:
        async with asyncio.timeout_at(deadline):
            await asyncio.wrap_future(opening)
    except TimeoutError as error:
        raise TimeoutError("the connection was not established in time") from error
    finally:
        if opening.cancel() and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)  # ends a wait for a proxy
