"""An answer of HTTP/1.1, taken off a connection."""

from __future__ import annotations

import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

import numpy as np
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from urllib3.exceptions import ProtocolError

from kinesis_assets.kinesis.transport.awaitables import until_it_can, when_it_can

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from kinesis_assets.kinesis.transport.awaitables import Waits

_PIECE = 256 << 10
"""Bytes that are received at once, at most, before it is known how many come: most answers are shorter."""

_LONGEST_HEAD = 64 << 10

_LONGEST_SECONDS = 300.0
"""For a head, and again for a body, however often a few bytes of it come."""

_END_OF_HEAD = b"\r\n\r\n"


class BodyTooLong(ProtocolError):
    """The body is longer than it may be; what was not received stays with the sender."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer.

    Attributes:
        status: As 200.
        headers: By their names in lower case.
        body: Shorter than the headers say if the connection ended before.
        keeps: The connection is good for another request.
    """

    status: int
    headers: dict[str, str]
    body: memoryview
    keeps: bool


class _Found:
    """What httptools finds in an answer, as it comes; without trailers."""

    def __init__(self) -> None:
        self.answers = 0
        self.headers: dict[str, str] = {}
        self.has_head = False
        self.body = bytearray()
        self.is_whole = False

    def on_message_begin(self) -> None:
        self.answers += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_head:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        self.has_head = True

    def on_body(self, part: bytes) -> None:
        self.body += part

    def on_message_complete(self) -> None:
        self.is_whole = True


def receive(
    connection: socket, seconds: float, largest_body: int, before_body: Callable[[int], Waits[None]]
) -> Waits[HttpAnswer]:
    """The answer to a request that was sent.

    Args:
        connection: One that does not block.
        seconds: How long it may take until more comes. A head may take five minutes in all, a body likewise.
        largest_body: Bytes of a body at most.
        before_body: Done before the body is received, with the bytes that it has at most.

    Raises:
        OSError: The connection broke or ended before the body; `TimeoutError` if nothing came in time.
        BodyTooLong: The body is longer.
        ProtocolError: That is no answer, or more than one.
    """
    yield from until_it_can(connection, seconds)  # to try before costs more
    coming = _Coming(connection, seconds)
    status = 0
    came = memoryview(b"")
    while status < HTTPStatus.OK:  # 1xx announces the answer
        head, came = yield from _head(coming, came)
        found = _Found()
        parser = HttpResponseParser(found)
        _parse(parser, head)
        status = parser.get_status_code()
    length = 0 if found.is_whole else int(found.headers.get("content-length", largest_body))
    if length > largest_body:
        raise BodyTooLong(f"the response has {length} bytes, more than {largest_body}")
    yield from before_body(length)
    coming.count_anew()
    if "content-length" in found.headers and not found.is_whole:
        body = yield from _body(coming, length, came)
        found.is_whole = len(body) == length
    else:
        yield from _parse_body(coming, parser, found, came, largest_body)
        body = memoryview(found.body)
    keeps = (
        found.is_whole
        and parser.get_http_version() == "1.1"
        and "close" not in found.headers.get("connection", "").lower()
    )
    return HttpAnswer(status, found.headers, body, keeps)


class _Coming:
    """What comes over a connection, for `_LONGEST_SECONDS`."""

    def __init__(self, connection: socket, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds
        self.count_anew()

    def count_anew(self) -> None:
        """Let its time begin now."""
        self._until = time.monotonic() + _LONGEST_SECONDS

    def piece(self) -> Waits[bytes]:
        """Some bytes; none at the connection's end."""
        self._see_time()
        return when_it_can(lambda: self._connection.recv(_PIECE), self._connection, self._seconds)

    def into(self, place: memoryview) -> Waits[int]:
        """How many bytes came into a place; none at the connection's end."""
        self._see_time()
        return when_it_can(lambda: self._connection.recv_into(place), self._connection, self._seconds)

    def _see_time(self) -> None:
        if time.monotonic() > self._until:
            raise TimeoutError(f"the answer took more than {_LONGEST_SECONDS:.0f} s, and was not over")


def _head(coming: _Coming, rest: memoryview) -> Waits[tuple[memoryview, memoryview]]:
    """The head of an answer, a part of which came already, and what came after it."""
    came = bytes(rest)
    while (end := came.find(_END_OF_HEAD)) < 0:
        if len(came) >= _LONGEST_HEAD:
            raise ProtocolError(f"the answer has a head of more than {_LONGEST_HEAD} bytes")
        piece = yield from coming.piece()
        if not piece:
            raise ConnectionResetError(f"the connection ended after {len(came)} bytes of an answer's head")
        came += piece
    view, end = memoryview(came), end + len(_END_OF_HEAD)
    return view[:end], view[end:]


def _body(coming: _Coming, length: int, came: memoryview) -> Waits[memoryview]:
    """So many bytes, or what there is; some came already."""
    got = len(came)
    if got < length:
        # Not zeroed before. One byte more, or TLS might keep what is too much for the next answer.
        body = np.empty(length + 1, np.uint8).data
        body[:got] = came
        while got < length and (more := (yield from coming.into(body[got:]))):
            got += more
        came = body[:got]
    if got > length:
        raise ProtocolError("the answer has more bytes than it says")
    return came


def _parse_body(
    coming: _Coming, parser: HttpResponseParser, found: _Found, rest: memoryview, largest: int
) -> Waits[None]:
    """Parse a body that ends by itself, or with the connection; some came already."""
    received = len(rest)
    _parse(parser, rest)
    while not found.is_whole and (came := (yield from coming.piece())):
        received += len(came)
        if received > largest:
            raise BodyTooLong(f"the response has more than {largest} bytes")
        _parse(parser, came)
    if found.answers > 1:
        raise ProtocolError("the answer is followed by another")


def _parse(parser: HttpResponseParser, piece: bytes | memoryview) -> None:
    wrong = None
    try:
        parser.feed_data(piece)
    except (HttpParserError, HttpParserUpgrade) as error:
        wrong = str(error)
    if wrong is not None:  # raised apart from that error, which keeps the parser and all that it found
        raise ProtocolError(f"the answer is not HTTP/1.1: {wrong}")
