"""HTTP/1.1 calls over the connection pool of the AWS SDK's session.

The session opens and pools the connections, with its settings for proxies and TLS. This module sends each
request in one piece, waits for the response in asyncio's event loop, and httptools parses its head. In
urllib3 and http.client, the same work takes most of the CPU time of a call that returns little data, as most
calls do (benchmarks, scale). Connections do not belong to an event loop: the next one goes on using them.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from botocore import exceptions as sdk_errors
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from urllib3 import exceptions as urllib3_errors
from urllib3.exceptions import ProtocolError
from urllib3.util import parse_url

from kinesis_assets.kinesis.clock import MACHINE_CLOCK
from kinesis_assets.kinesis.transport.concurrency import end_wait

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from socket import socket

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.transport.sdk_internals import ConnectionPool


_RECEIVE_BYTES = 256 << 10
"""Maximum bytes per receive call while the length of the response is unknown. Most responses are shorter."""

_MAX_HEAD_BYTES = 64 << 10

_MAX_SECONDS = 300.0
"""Total time limit for a head, and again for a body, even if bytes keep arriving."""

_END_OF_HEAD = b"\r\n\r\n"

_VALUE = re.compile(r"[\t -~\x80-\xff]*")
"""The characters of a header's value."""

_T = TypeVar("_T")


class BodyTooLong(ProtocolError):
    """The body exceeds the limit. The rest of it was not received."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An HTTP response.

    Attributes:
        headers: Values by header name in lower case.
        body: Shorter than its Content-Length if the connection was closed early.
        keep_alive: Whether the connection can be used for another request.
    """

    status: int
    headers: dict[str, str]
    body: memoryview
    keep_alive: bool


class _ResponseParts:
    """The callbacks of httptools; they collect a response while it is parsed. Trailers are ignored."""

    def __init__(self) -> None:
        self.responses = 0
        self.headers: dict[str, str] = {}
        self.has_head = False
        self.body = bytearray()
        self.is_complete = False

    def on_message_begin(self) -> None:
        self.responses += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_head:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        self.has_head = True

    def on_body(self, part: bytes) -> None:
        self.body += part

    def on_message_complete(self) -> None:
        self.is_complete = True


async def receive(
    connection: socket,
    seconds: Callable[[], float],
    largest_body: int,
    before_body: Callable[[int], Awaitable[None]],
    clock: Clock = MACHINE_CLOCK,
) -> HttpResponse:
    """Receive the response to a request.

    Args:
        connection: A non-blocking socket to which the request was sent.
        seconds: Returns the maximum time to wait for the next bytes. The head, and also the body, may take
            `_MAX_SECONDS` in total.
        largest_body: Maximum size of the body, in bytes.
        before_body: Called before the body is received, with its length or, if that is unknown, the maximum.

    Raises:
        OSError: The connection failed or was closed before the body; `TimeoutError` if no bytes arrived in
            time.
        BodyTooLong: The body exceeds `largest_body`.
        ProtocolError: The bytes are not an HTTP/1.1 response, or more than one.
    """
    receiver = _Receiver(connection, seconds, clock)
    await receiver.wait()  # a receive call that fails costs more
    status = 0
    received = memoryview(b"")
    while status < HTTPStatus.OK:  # 1xx precedes the final response
        head, received = await _receive_head(receiver, received)
        found = _ResponseParts()
        parser = HttpResponseParser(found)
        _parse(parser, head)
        status = parser.get_status_code()
    length = 0 if found.is_complete else int(found.headers.get("content-length", largest_body))
    if length > largest_body:
        raise BodyTooLong(f"the response has {length} bytes, more than {largest_body}")
    await before_body(length)
    receiver.restart_deadline()
    if "content-length" in found.headers and not found.is_complete:
        body = await _receive_body(receiver, length, received)
        found.is_complete = len(body) == length
    else:
        await _parse_body(receiver, parser, found, received, largest_body)
        body = memoryview(found.body)
    keep_alive = (
        found.is_complete
        and parser.get_http_version() == "1.1"
        and "close" not in found.headers.get("connection", "").lower()
    )
    return HttpResponse(status, found.headers, body, keep_alive)


class _Receiver:
    """Receives from a connection until a deadline, which is `_MAX_SECONDS` away."""

    def __init__(self, connection: socket, seconds: Callable[[], float], clock: Clock) -> None:
        self._connection = connection
        self._seconds = seconds
        self._clock = clock
        self.restart_deadline()

    def restart_deadline(self) -> None:
        """Set the deadline to `_MAX_SECONDS` from now."""
        self._deadline = self._clock.monotonic() + _MAX_SECONDS

    def receive(self) -> Awaitable[bytes]:
        """Receive some bytes; empty if the connection was closed."""
        return self._when_ready(lambda: self._connection.recv(_RECEIVE_BYTES))

    def receive_into(self, buffer: memoryview) -> Awaitable[int]:
        """Receive bytes into a buffer, and return how many; 0 if the connection was closed."""
        return self._when_ready(lambda: self._connection.recv_into(buffer))

    async def _when_ready(self, receive: Callable[[], _T]) -> _T:
        if self._clock.monotonic() > self._deadline:
            raise TimeoutError(f"the response was not complete after {_MAX_SECONDS:.0f} s")
        while True:
            try:
                return receive()
            except (BlockingIOError, ssl.SSLWantReadError):
                to_send = False
            except ssl.SSLWantWriteError:
                to_send = True
            # Not in the except block: the error would keep its frames alive, and with them a part of a body.
            await self.wait(to_send=to_send)

    async def wait(self, *, to_send: bool = False) -> None:
        """Wait until bytes can be received, or sent. Raises `TimeoutError` if that takes too long."""
        await until_ready(self._connection, self._seconds(), to_send=to_send)


async def until_ready(connection: socket, seconds: float, *, to_send: bool = False) -> None:
    """Wait until a non-blocking socket can receive, or send. Raises `TimeoutError` after some seconds."""
    if seconds <= 0:
        raise TimeoutError("the deadline has passed")
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    start, end = loop.add_reader, loop.remove_reader
    if to_send:
        start, end = loop.add_writer, loop.remove_writer
    descriptor = connection.fileno()
    start(descriptor, end_wait, ready)
    # Bytes that arrive during a long step of another task are in time: the loop looks for them first.
    timer = loop.call_later(seconds, end_wait, ready, TimeoutError("timed out"))
    try:
        await ready
    finally:
        timer.cancel()
        end(descriptor)


async def _receive_head(receiver: _Receiver, received: memoryview) -> tuple[memoryview, memoryview]:
    """Return the head of a response that begins with bytes, and the bytes that were received after it."""
    data = bytes(received)
    while (end := data.find(_END_OF_HEAD)) < 0:
        if len(data) >= _MAX_HEAD_BYTES:
            raise ProtocolError(f"the response has a head of more than {_MAX_HEAD_BYTES} bytes")
        piece = await receiver.receive()
        if not piece:
            raise ConnectionResetError(f"the connection was closed after {len(data)} bytes of the head")
        data += piece
    view, end = memoryview(data), end + len(_END_OF_HEAD)
    return view[:end], view[end:]


async def _receive_body(receiver: _Receiver, length: int, received: memoryview) -> memoryview:
    """Receive a body of `length` bytes, or less if the connection is closed early."""
    count = len(received)
    if count < length:
        # The buffer is not zeroed. It has one extra byte: otherwise TLS might keep surplus bytes for the next
        # response.
        body = np.empty(length + 1, np.uint8).data
        body[:count] = received
        while count < length and (more := await receiver.receive_into(body[count:])):
            count += more
        received = body[:count]
    if count > length:
        raise ProtocolError("the response has more bytes than its Content-Length")
    return received


async def _parse_body(
    receiver: _Receiver, parser: HttpResponseParser, found: _ResponseParts, received: memoryview, largest: int
) -> None:
    """Receive and parse a body that marks its own end or ends with the connection."""
    count = len(received)
    _parse(parser, received)
    while not found.is_complete and (piece := await receiver.receive()):
        count += len(piece)
        if count > largest:
            raise BodyTooLong(f"the response has more than {largest} bytes")
        _parse(parser, piece)
    if found.responses > 1:
        raise ProtocolError("the response is followed by another one")


def _parse(parser: HttpResponseParser, piece: bytes | memoryview) -> None:
    reason = None
    try:
        parser.feed_data(piece)
    except (HttpParserError, HttpParserUpgrade) as error:
        reason = str(error)
    if reason is not None:  # outside of the except block: that error keeps the parser and all collected data
        raise ProtocolError(f"the response is not HTTP/1.1: {reason}")


class ResponseTooLong(sdk_errors.HTTPClientError):  # type: ignore[misc]  # botocore has no types
    """The response exceeds the maximum size. A request for fewer records returns a smaller one."""

    fmt = "{error}"


_SDK_ERRORS = (
    (BodyTooLong, ResponseTooLong),
    ((ssl.SSLEOFError, ssl.SSLZeroReturnError), sdk_errors.ConnectionClosedError),
    ((urllib3_errors.SSLError, ssl.SSLError), sdk_errors.SSLError),
    (urllib3_errors.NewConnectionError, sdk_errors.EndpointConnectionError),
    (urllib3_errors.ConnectTimeoutError, sdk_errors.ConnectTimeoutError),
    (TimeoutError, sdk_errors.ReadTimeoutError),
    ((OSError, HTTPException), sdk_errors.ConnectionClosedError),
)
"""The SDK's error for each error: the first entry that matches; otherwise `HTTPClientError`."""


class HttpEndpoint:
    """A URL that requests are posted to, for responses of at most `largest_body` bytes. Thread-safe."""

    def __init__(self, connections: ConnectionPool, url: str, largest_body: int) -> None:
        self._url = url
        self._largest_body = largest_body
        self._connections = connections
        pool = self._pool = connections.pool
        parts = parse_url(url)
        if pool.proxy and not connections.uses_tunnel:
            target, proxy_headers = parts._replace(fragment=None).url, pool.proxy_headers
        else:
            target, proxy_headers = parts.request_uri, {}
        request_line = f"POST {target} HTTP/1.1\r\nAccept-Encoding: identity\r\n".encode("ascii")
        self._start = request_line + _lines(proxy_headers.items())

    async def post(
        self,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        before_body: Callable[[int], Awaitable[None]],
        seconds_left: Callable[[], float] | None = None,
    ) -> HttpResponse:
        """Send one request, without retries, and return the response.

        Args:
            headers: Headers of the request, including Host and excluding Content-Length and Accept-Encoding.
            before_body: See `receive`.
            seconds_left: Returns the maximum time to wait for the next bytes of the response, if that can be
                less than the read timeout.

        Raises:
            BotoCoreError: No response was received.
        """
        length = b"Content-Length: %d\r\n\r\n" % len(body)
        request = b"".join([self._start, _lines(headers), length, body])
        connection = self._connections.get()
        seconds = self._pool.timeout.read_timeout
        reusable = False
        try:
            if connection.is_closed:
                await _opened(self._connections, connection)
            connection.sock.sendall(request)  # fits in the send buffer
            connection.sock.settimeout(0)
            response = await receive(
                connection.sock,
                lambda: seconds if seconds_left is None else min(seconds, seconds_left()),
                self._largest_body,
                before_body,
            )
            connection.sock.settimeout(seconds)  # as the SDK expects
            reusable = response.keep_alive
        except (*FAILURES, self._connections.certificate_error) as error:
            # The traceback would keep its frames alive, and with them a part of a body.
            raise sdk_error(error.with_traceback(None), connection, self._connections, self._url) from error
        finally:
            if not reusable:
                connection.close()
            self._connections.put(connection)
        return response


async def _opened(connections: ConnectionPool, connection: Any) -> None:
    """Open a connection in a thread, and wait for the thread even if the call is canceled."""
    opening = asyncio.get_running_loop().run_in_executor(None, open_connection, connections, connection)
    canceled = False
    while not opening.done():
        try:
            await asyncio.wait([opening])  # the connect timeout ends it
        except asyncio.CancelledError:
            canceled = True
    error = opening.exception()
    if canceled:
        raise asyncio.CancelledError
    if error is not None:
        raise error


def open_connection(connections: ConnectionPool, connection: Any) -> None:
    """Open a connection. Each step, such as the TLS handshake, may take the connect timeout."""
    timeout = connections.pool.timeout
    connection.timeout = timeout.connect_timeout  # the SDK leaves the read timeout there
    if connections.uses_tunnel:
        connections.prepare_proxy(connection)
    else:
        connection.connect()
    connection.sock.settimeout(timeout.read_timeout)


FAILURES = (OSError, HTTPException, urllib3_errors.HTTPError)
"""The errors of a connection, besides `ConnectionPool.certificate_error`."""


def sdk_error(
    error: Exception, connection: Any, connections: ConnectionPool, url: str
) -> sdk_errors.BotoCoreError:
    """Return the SDK's error for an error of a connection to a URL."""
    if connection.proxy and not connection.has_connected_to_proxy:
        return sdk_errors.ProxyConnectionError(proxy_url=connections.masked_proxy_url, error=error)
    if isinstance(error, connections.certificate_error):
        return sdk_errors.SSLError(endpoint_url=url, error=error)
    for types, of_sdk in _SDK_ERRORS:
        if isinstance(error, types):
            return of_sdk(endpoint_url=url, error=error)
    return sdk_errors.HTTPClientError(error=error)


def _lines(headers: Iterable[tuple[str, str]]) -> bytes:
    lines = []
    for name, value in headers:
        if not _VALUE.fullmatch(value):
            report = f"the value of header {name} has an invalid character"
            raise sdk_errors.ParamValidationError(report=report)
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("latin-1")
