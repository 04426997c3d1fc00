"""Receiving an HTTP/1.1 response from a connection."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

import numpy as np
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from urllib3.exceptions import ProtocolError

from kinesis_assets.kinesis.clock import MACHINE_CLOCK
from kinesis_assets.kinesis.transport.waits import call_when_ready, wait_for_socket

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.transport.waits import NonBlocking

_RECEIVE_BYTES = 256 << 10
"""Maximum bytes per receive call while the length of the response is unknown. Most responses are shorter."""

_MAX_HEAD_BYTES = 64 << 10

_MAX_SECONDS = 300.0
"""Total time limit for a head, and again for a body, even if bytes keep arriving."""

_END_OF_HEAD = b"\r\n\r\n"


class BodyTooLong(ProtocolError):
    """The body exceeds the limit. The rest of it was not received."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An HTTP response.

    Attributes:
        status: HTTP status code.
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


def receive(
    connection: socket,
    seconds: float,
    largest_body: int,
    before_body: Callable[[int], NonBlocking[None]],
    clock: Clock = MACHINE_CLOCK,
) -> NonBlocking[HttpResponse]:
    """Receive the response to a request.

    Args:
        connection: A non-blocking socket to which the request was sent.
        seconds: Maximum time to wait for the next bytes. The head, and also the body, may take five minutes
            in total.
        largest_body: Maximum size of the body, in bytes.
        before_body: Called before the body is received, with its length or, if that is unknown, the maximum.
        clock: Measures the total time.

    Raises:
        OSError: The connection failed or was closed before the body; `TimeoutError` if no bytes arrived in
            time.
        BodyTooLong: The body exceeds `largest_body`.
        ProtocolError: The bytes are not an HTTP/1.1 response, or more than one.
    """
    yield from wait_for_socket(connection, seconds)  # a receive call that fails costs more
    receiver = _Receiver(connection, seconds, clock)
    status = 0
    received = memoryview(b"")
    while status < HTTPStatus.OK:  # 1xx precedes the final response
        head, received = yield from _receive_head(receiver, received)
        found = _ResponseParts()
        parser = HttpResponseParser(found)
        _parse(parser, head)
        status = parser.get_status_code()
    length = 0 if found.is_complete else int(found.headers.get("content-length", largest_body))
    if length > largest_body:
        raise BodyTooLong(f"the response has {length} bytes, more than {largest_body}")
    yield from before_body(length)
    receiver.restart_deadline()
    if "content-length" in found.headers and not found.is_complete:
        body = yield from _receive_body(receiver, length, received)
        found.is_complete = len(body) == length
    else:
        yield from _parse_body(receiver, parser, found, received, largest_body)
        body = memoryview(found.body)
    keep_alive = (
        found.is_complete
        and parser.get_http_version() == "1.1"
        and "close" not in found.headers.get("connection", "").lower()
    )
    return HttpResponse(status, found.headers, body, keep_alive)


class _Receiver:
    """Receives from a connection until a deadline, which is `_MAX_SECONDS` away."""

    def __init__(self, connection: socket, seconds: float, clock: Clock) -> None:
        self._connection = connection
        self._seconds = seconds
        self._clock = clock
        self.restart_deadline()

    def restart_deadline(self) -> None:
        """Set the deadline to `_MAX_SECONDS` from now."""
        self._deadline = self._clock.monotonic() + _MAX_SECONDS

    def receive(self) -> NonBlocking[bytes]:
        """Receive some bytes; empty if the connection was closed."""
        self._check_deadline()
        return call_when_ready(lambda: self._connection.recv(_RECEIVE_BYTES), self._connection, self._seconds)

    def receive_into(self, buffer: memoryview) -> NonBlocking[int]:
        """Receive bytes into a buffer, and return how many; 0 if the connection was closed."""
        self._check_deadline()
        return call_when_ready(lambda: self._connection.recv_into(buffer), self._connection, self._seconds)

    def _check_deadline(self) -> None:
        if self._clock.monotonic() > self._deadline:
            raise TimeoutError(f"the response was not complete after {_MAX_SECONDS:.0f} s")


def _receive_head(receiver: _Receiver, received: memoryview) -> NonBlocking[tuple[memoryview, memoryview]]:
    """Receive the head of a response.

    Args:
        receiver: The connection.
        received: Bytes that were received already.

    Returns:
        The head, and the bytes that were received after it.
    """
    data = bytes(received)
    while (end := data.find(_END_OF_HEAD)) < 0:
        if len(data) >= _MAX_HEAD_BYTES:
            raise ProtocolError(f"the response has a head of more than {_MAX_HEAD_BYTES} bytes")
        piece = yield from receiver.receive()
        if not piece:
            raise ConnectionResetError(f"the connection was closed after {len(data)} bytes of the head")
        data += piece
    view, end = memoryview(data), end + len(_END_OF_HEAD)
    return view[:end], view[end:]


def _receive_body(receiver: _Receiver, length: int, received: memoryview) -> NonBlocking[memoryview]:
    """Receive a body of `length` bytes, or less if the connection is closed early."""
    count = len(received)
    if count < length:
        # The buffer is not zeroed. It has one extra byte: otherwise TLS might keep surplus bytes for the next
        # response.
        body = np.empty(length + 1, np.uint8).data
        body[:count] = received
        while count < length and (more := (yield from receiver.receive_into(body[count:]))):
            count += more
        received = body[:count]
    if count > length:
        raise ProtocolError("the response has more bytes than its Content-Length")
    return received


def _parse_body(
    receiver: _Receiver, parser: HttpResponseParser, found: _ResponseParts, received: memoryview, largest: int
) -> NonBlocking[None]:
    """Receive and parse a body that marks its own end or ends with the connection."""
    count = len(received)
    _parse(parser, received)
    while not found.is_complete and (piece := (yield from receiver.receive())):
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
