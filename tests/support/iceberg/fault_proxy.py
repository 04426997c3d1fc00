"""A proxy before a catalog over HTTP that loses or replaces responses, delays requests or serves old ones."""

from __future__ import annotations

import http.client
import json
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import urlsplit

from benchmarks.harness.waiting import SECONDS
from support.http_service import HttpService, Reply, Request

if TYPE_CHECKING:
    from collections.abc import Iterator


class Fault(NamedTuple):
    """What happens to a commit.

    Attributes:
        status: The status of the response; None if the connection is closed instead.
        lands: Whether the catalog gets the request before.
    """

    status: int | None
    lands: bool = True


LOST_RESPONSE = Fault(None)
LOST_REQUEST = Fault(None, lands=False)
CONFLICT_AFTER_SUCCESS = Fault(409)
ERROR_AFTER_SUCCESS = Fault(500)
UNAVAILABLE = Fault(503, lands=False)


FORWARDED = ("Content-Type", "Authorization", "X-Amz-Date", "X-Amz-Target")


@dataclass
class FaultProxy:
    """The proxy, which runs while it is entered as a context.

    Attributes:
        catalog_url: The URL of the catalog.
        faults: What happens to the next commits, in order. Later ones are forwarded.
        commits: The body of each commit that was received.
        url: The URL of the proxy.
    """

    catalog_url: str
    faults: deque[Fault] = field(default_factory=deque)
    commits: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    _gate: threading.Event = field(default_factory=threading.Event)
    _waiting: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _loaded: dict[str, Reply] = field(default_factory=dict)
    _is_stale: bool = False

    def __enter__(self) -> Self:
        self._gate.set()
        self._service = HttpService.of(self._respond)
        self.url = self._service.url
        return self

    def __exit__(self, *_: object) -> None:
        self._gate.set()
        self._service.stop()

    def _respond(self, request: Request) -> Reply | None:
        headers = {name: request.headers[name] for name in FORWARDED if name in request.headers}
        return self.reply(request._replace(headers=headers))

    @contextmanager
    def delayed(self) -> Iterator[None]:
        """Delay the commits of this block until it ends, see `wait_for_commit`."""
        self._gate.clear()
        try:
            yield
        finally:
            self._gate.set()

    def wait_for_commit(self) -> None:
        """Wait until another delayed commit has been received."""
        assert self._waiting.acquire(timeout=SECONDS)

    @contextmanager
    def stale(self) -> Iterator[None]:
        """Load tables in this block as they were when they were last loaded before it."""
        self._is_stale = True
        try:
            yield
        finally:
            self._is_stale = False

    def reply(self, request: Request) -> Reply | None:
        """Return the response to a request; None if the connection is to be closed."""
        if (loaded := self.loaded(request)) is not None:
            if not (self._is_stale and loaded in self._loaded):
                self._loaded[loaded] = self.forward(request)
            return self._loaded[loaded]
        if not self.is_commit(request):
            return self.forward(request)
        self.commits.append(json.loads(request.body))
        if not self._gate.is_set():
            self._waiting.release()
            self._gate.wait()
        if not self.faults:
            return self.commit(request)
        fault = self.faults.popleft()
        if fault.lands:
            done = self.commit(request)
            assert done.status == HTTPStatus.OK, done.content
        return None if fault.status is None else self.error(fault.status)

    def loaded(self, request: Request) -> str | None:
        """Return what identifies the table that a request loads, if it loads one."""
        return request.path if request.method == "GET" and _is_of_table(request) else None

    def is_commit(self, request: Request) -> bool:
        return request.method == "POST" and _is_of_table(request)

    def commit(self, request: Request) -> Reply:
        """Commit to the catalog."""
        return self.forward(request)

    def error(self, status: int) -> Reply:
        """Return the response that stands for an error of the catalog."""
        error = {"message": "made by the proxy", "type": "FaultProxy", "code": status}
        return Reply(status, json.dumps({"error": error}).encode())

    def forward(self, request: Request) -> Reply:
        """Return the catalog's response to a request."""
        connection = http.client.HTTPConnection(urlsplit(self.catalog_url).netloc, timeout=SECONDS)
        try:
            connection.request(request.method, request.path, request.body, request.headers)
            response = connection.getresponse()
            kind = response.getheader("Content-Type", "application/json")
            return Reply(response.status, response.read(), kind)
        finally:
            connection.close()


def _is_of_table(request: Request) -> bool:
    parts = request.path.partition("?")[0].strip("/").split("/")
    return len(parts) >= 5 and parts[-2] == "tables"
