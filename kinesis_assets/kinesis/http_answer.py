"""An answer of HTTP/1.1, taken off a connection."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from urllib3.exceptions import ProtocolError

from kinesis_assets.kinesis.work_lock import let_go

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

LARGEST_BODY = 16 << 20
"""Bytes of a body at most. None of the service's is longer: 10 MiB as base64, and what is around it."""

_PIECE = 64 << 10
"""Bytes that are received at once, at most, before it is known how many come."""

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
    body: bytes | bytearray
    keeps: bool


class _Found:
    """What httptools finds in an answer, as it comes."""

    def __init__(self) -> None:
        self.answers = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.is_whole = False

    def on_message_begin(self) -> None:
        self.answers += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_body(self, part: bytes) -> None:
        self.body += part

    def on_message_complete(self) -> None:
        self.is_whole = True


def receive(connection: socket, before_body: Callable[[int], None]) -> HttpAnswer:
    """The answer to a request that was sent; others work while it comes.

    Args:
        connection: With a time limit.
        before_body: Called before the body is received, with the bytes that it has at most.

    Raises:
        OSError: The connection broke or ended before the body; `TimeoutError` if nothing came in time.
        ProtocolError: That is no answer, more than one, or longer than any of the service's.
    """
    status = 0
    came = b""
    while status < HTTPStatus.OK:  # those say that one will come
        head, came = _head(connection, came)
        found = _Found()
        parser = HttpResponseParser(found)
        _parse(parser, head)
        status = parser.get_status_code()
    length = int(found.headers.get("content-length", LARGEST_BODY))
    _check(length)
    before_body(length)
    body: bytes | bytearray = found.body
    if "content-length" in found.headers and not found.is_whole:
        body = _body(connection, length, came)
        found.is_whole = len(body) == length
    else:
        _parse(parser, came)
        while not found.is_whole and (came := _piece(connection)):
            _parse(parser, came)
            _check(len(found.body))
        if found.answers > 1:
            raise ProtocolError("another answer follows")
    keeps = (
        found.is_whole
        and parser.get_http_version() == "1.1"
        and "close" not in found.headers.get("connection", "").lower()
    )
    return HttpAnswer(status, found.headers, body, keeps)


def _head(connection: socket, came: bytes) -> tuple[bytes, bytes]:
    """The head of an answer, a part of which came already, and what came after it."""
    while _END_OF_HEAD not in came:
        if len(came) >= _LONGEST_HEAD:
            raise ProtocolError(f"the answer has a head of more than {_LONGEST_HEAD} bytes")
        piece = _piece(connection)
        if not piece:
            raise ConnectionResetError(f"the connection ended after {len(came)} bytes of an answer's head")
        came += piece
    head, end, rest = came.partition(_END_OF_HEAD)
    return head + end, rest


def _body(connection: socket, length: int, came: bytes) -> bytes | bytearray:
    """So many bytes, or what there is; some came already."""
    got = len(came)
    if got > length:
        raise ProtocolError("the answer has more bytes than it says")
    if got == length:
        return came
    body = bytearray(length)
    body[:got] = came
    with let_go(), memoryview(body) as view:
        while got < length and (more := connection.recv_into(view[got:])):
            got += more
    del body[got:]
    return body


def _piece(connection: socket) -> bytes:
    with let_go():
        return connection.recv(_PIECE)


def _parse(parser: HttpResponseParser, piece: bytes) -> None:
    try:
        parser.feed_data(piece)
    except (HttpParserError, HttpParserUpgrade) as error:
        raise ProtocolError(f"the answer is not HTTP/1.1: {error}") from None


def _check(length: int) -> None:
    if length > LARGEST_BODY:
        raise ProtocolError(f"the answer has more than {LARGEST_BODY} bytes; none of the service's has")
