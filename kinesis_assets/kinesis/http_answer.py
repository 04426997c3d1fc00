"""An answer of HTTP/1.1, taken off a connection."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

import numpy as np
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from urllib3.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

_PIECE = 256 << 10
"""Bytes that are received at once, at most, before it is known how many come: most answers are shorter."""

_LONGEST_HEAD = 64 << 10

_END_OF_HEAD = b"\r\n\r\n"


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


def receive(connection: socket, largest_body: int, before_body: Callable[[int], None]) -> HttpAnswer:
    """The answer to a request that was sent.

    Args:
        connection: With a time limit.
        largest_body: Bytes of a body at most.
        before_body: Called before the body is received, with the bytes that it has at most.

    Raises:
        OSError: The connection broke or ended before the body; `TimeoutError` if nothing came in time.
        ProtocolError: That is no answer, more than one, or a longer one.
    """
    status = 0
    came = memoryview(b"")
    while status < HTTPStatus.OK:  # 1xx announces the answer
        head, came = _head(connection, came)
        found = _Found()
        parser = HttpResponseParser(found)
        _parse(parser, head)
        status = parser.get_status_code()
    length = 0 if found.is_whole else int(found.headers.get("content-length", largest_body))
    if length > largest_body:
        raise ProtocolError(f"the answer has {length} bytes, more than {largest_body}")
    before_body(length)
    if "content-length" in found.headers and not found.is_whole:
        body = _body(connection, length, came)
        found.is_whole = len(body) == length
    else:
        _parse_body(connection, parser, found, came, largest_body)
        body = memoryview(found.body)
    keeps = (
        found.is_whole
        and parser.get_http_version() == "1.1"
        and "close" not in found.headers.get("connection", "").lower()
    )
    return HttpAnswer(status, found.headers, body, keeps)


def _head(connection: socket, rest: memoryview) -> tuple[memoryview, memoryview]:
    """The head of an answer, a part of which came already, and what came after it."""
    came = bytes(rest)
    while (end := came.find(_END_OF_HEAD)) < 0:
        if len(came) >= _LONGEST_HEAD:
            raise ProtocolError(f"the answer has a head of more than {_LONGEST_HEAD} bytes")
        piece = connection.recv(_PIECE)
        if not piece:
            raise ConnectionResetError(f"the connection ended after {len(came)} bytes of an answer's head")
        came += piece
    view, end = memoryview(came), end + len(_END_OF_HEAD)
    return view[:end], view[end:]


def _body(connection: socket, length: int, came: memoryview) -> memoryview:
    """So many bytes, or what there is; some came already."""
    got = len(came)
    if got < length:
        # Not zeroed before. One byte more, or TLS might keep what is too much for the next answer.
        body = np.empty(length + 1, np.uint8).data
        body[:got] = came
        while got < length and (more := connection.recv_into(body[got:])):
            got += more
        came = body[:got]
    if got > length:
        raise ProtocolError("the answer has more bytes than it says")
    return came


def _parse_body(
    connection: socket, parser: HttpResponseParser, found: _Found, rest: memoryview, largest: int
) -> None:
    """Parse a body that ends by itself, or with the connection; some came already."""
    received = len(rest)
    _parse(parser, rest)
    while not found.is_whole and (came := connection.recv(_PIECE)):
        received += len(came)
        if received > largest:
            raise ProtocolError(f"the answer has more than {largest} bytes")
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
