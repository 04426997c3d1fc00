"""Bodies of GetRecords answers, none read before there is room for it.

The answer's head tells how long the body is, and what is not read stays with the sender. So the memory of a
task is bounded by what comes and not by a guess. botocore lets a handler of `before-send` send the request;
this one does it through botocore's own session, and reads the body by itself: in one piece, which also spares
the copies that botocore makes.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import urllib3.exceptions
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.kinesis.room import Seat

LARGEST_BODY = 16 << 20
"""No page is longer: 10 MiB as base64, and what is around it."""

COPIES = 2.5
"""Memory that a page takes at most for each byte of its body: the body itself and the records taken out of
it; later these and their Arrow columns."""

_this = threading.local()


@contextmanager
def seated(seat: Seat | None) -> Iterator[None]:
    """Within, bodies that come to this thread take a seat first."""
    _this.seat = seat
    try:
        yield
    finally:
        _this.seat = None


def seat_bodies(client: Any) -> None:
    """Have a botocore client of Kinesis keep to `seated` in GetRecords."""
    session = client._endpoint.http_session  # noqa: SLF001  # there is no other way to it

    def send(request: Any, **_: Any) -> AWSResponse | None:
        seat = getattr(_this, "seat", None)
        if seat is None:
            return None
        request.stream_output = True
        response = session.send(request)
        return AWSResponse(
            response.url, response.status_code, response.headers, _Whole(_body(response, seat))
        )

    client.meta.events.register("before-send.kinesis.GetRecords", send)


class _Whole:
    """A body that has been read, as botocore asks for it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self) -> Iterator[bytes]:
        yield self._body


def _body(response: Any, seat: Seat) -> bytes:
    told = response.headers.get("content-length", "")
    length = int(told) if told.isdecimal() and int(told) <= LARGEST_BODY else None
    seat.take(int(COPIES * (LARGEST_BODY if length is None else length)))
    try:
        # A shorter one was cut on its way: it is no whole page to the parser.
        body: bytes = b"".join(response.raw.stream()) if length is None else response.raw.read(length)
    except urllib3.exceptions.ReadTimeoutError as error:
        raise ReadTimeoutError(endpoint_url=response.url, error=error) from error
    except urllib3.exceptions.HTTPError as error:
        raise ConnectionClosedError(endpoint_url=response.url, error=error) from error
    return body
