"""Counts the requests to an emulated bucket, from the log that the server writes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qs, urlsplit

if TYPE_CHECKING:
    from pathlib import Path

_REQUEST = re.compile(r"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/")

PUT_DOLLARS, GET_DOLLARS = 0.005, 0.0004
"""The price of 1,000 PUT, POST or LIST, and that of 1,000 GET or HEAD (S3 Standard in us-east-1)."""

_DOLLARS = {"PUT": PUT_DOLLARS, "LIST": PUT_DOLLARS, "GET": GET_DOLLARS, "HEAD": GET_DOLLARS}
"""The price of 1,000 requests, without those that are free."""


@dataclass(frozen=True)
class Requests:
    """Numbers of requests by kind, as they are charged. POST counts as PUT, unless it deletes.

    Attributes:
        get: Number of GET requests of objects.
        head: Number of HEAD requests.
        list: Number of GET requests that list a bucket.
        put: Number of PUT requests.
        delete: Number of requests that delete, which are free.
    """

    get: float = 0
    head: float = 0
    list: float = 0
    put: float = 0
    delete: float = 0

    def __add__(self, other: Requests) -> Requests:
        return Requests(
            self.get + other.get,
            self.head + other.head,
            self.list + other.list,
            self.put + other.put,
            self.delete + other.delete,
        )

    def __mul__(self, times: float) -> Requests:
        return Requests(
            self.get * times, self.head * times, self.list * times, self.put * times, self.delete * times
        )

    @property
    def charged(self) -> float:
        """The number of those that are not free."""
        return self.get + self.head + self.list + self.put

    @property
    def dollars(self) -> float:
        """What they cost."""
        return sum(price / 1000 * float(getattr(self, kind.lower())) for kind, price in _DOLLARS.items())


class RequestLog:
    """The log of an emulated bucket, see `bucket.bucket`.

    Args:
        path: The file that the server writes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._taken = 0

    def take(self) -> Requests:
        """Return the requests since the last call of this method."""
        with self._path.open() as log:
            log.seek(self._taken)
            content = log.read()
            self._taken = log.tell()
        kinds = Counter(_kind(method, urlsplit(url)) for method, url in _REQUEST.findall(content))
        return Requests(**{kind.lower(): count for kind, count in kinds.items()})


def _kind(method: str, url: SplitResult) -> str:
    query = parse_qs(url.query, keep_blank_values=True)
    if method == "GET" and "list-type" in query:
        return "LIST"
    if method == "POST":
        return "DELETE" if "delete" in query else "PUT"
    return method
