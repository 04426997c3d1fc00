"""Calls of boto3's clients to emulators in this process, without HTTP."""

from __future__ import annotations

import time
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
from botocore.awsrequest import AWSResponse

from kinesis_assets.emulator.app import CONTENT_TYPE, TARGET_PREFIX
from kinesis_assets.testing import LocalKinesis

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from botocore.awsrequest import AWSPreparedRequest

    from kinesis_assets.emulator.app import KinesisApp
    from kinesis_assets.emulator.asgi import App, Message
    from kinesis_assets.testing import Faults

PLAIN_OPERATIONS = frozenset(
    {
        "CreateStream",
        "DeleteStream",
        "IncreaseStreamRetentionPeriod",
        "ListShards",
        "MergeShards",
        "PutRecord",
        "PutRecords",
        "SplitShard",
    }
)
"""The operations whose responses have only text and numbers."""

_OPEN = SimpleNamespace(is_closing=lambda: False)
"""The transport of a connection that stays open."""


_HEADERS = [(b"content-type", CONTENT_TYPE)]


class DirectCalls:
    """Lets boto3's clients call emulators in this process without HTTP, which takes most of a call's time.

    The calls pass through the faults, which also record them. While there are faults or limits, calls use
    HTTP, because faults may delay a response or reset its connection. So does a subscription, whose response
    does not end by itself.

    Args:
        faults: The faults between the clients and the emulators, if any.
    """

    def __init__(self, faults: Faults | None = None) -> None:
        self._faults = faults
        self._apps: dict[str, App] = {}

    @contextmanager
    def serve(self, now: Callable[[], float] = time.time) -> Iterator[LocalKinesis]:
        """Run an emulator, which other clients call over HTTP."""
        apps: list[App] = []

        def around(app: KinesisApp) -> App:
            apps.append(app if self._faults is None else self._faults.around(app))
            return apps[0]

        with LocalKinesis(now=now, wrap=around) as local:
            url = f"{local.endpoint_url}/"
            self._apps[url] = apps[0]
            yield local
            del self._apps[url]

    def connect(self, client: Any) -> Any:
        """Let a client call these emulators directly from now on, and return it."""
        client.meta.events.register("before-send.kinesis", self._respond)
        return client

    def connect_plainly(self, client: Any) -> Any:
        """Do as `connect`, and do without the SDK too for operations that need no conversion of responses.

        A call that fails is repeated by the SDK, which raises its error.
        """
        url = f"{client.meta.endpoint_url}/"
        by_sdk = client._make_api_call

        def call(operation: str, parameters: dict[str, Any]) -> Any:
            app = self._app(url)
            if app is None or operation not in PLAIN_OPERATIONS or "Timestamp" in str(parameters):
                return by_sdk(operation, parameters)
            headers = [*_HEADERS, (b"x-amz-target", f"{TARGET_PREFIX}{operation}".encode())]
            start, content = _exchange(app, headers, msgspec.json.encode(parameters))
            if start["status"] != 200:
                return by_sdk(operation, parameters)
            return msgspec.json.decode(content["body"] or b"{}")

        client._make_api_call = call
        return self.connect(client)

    def _app(self, url: str) -> App | None:
        """Return the emulator at an endpoint; None if it is called over HTTP."""
        faults = self._faults
        return None if faults is not None and (faults._faults or faults._limits) else self._apps.get(url)

    def _respond(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
        app = self._app(request.url)
        if app is None or "SubscribeToShard" in str(request.headers["X-Amz-Target"]):
            return None
        headers = [(name.lower().encode(), _bytes(value)) for name, value in request.headers.items()]
        start, content = _exchange(app, headers, request.body)
        named = {name.decode(): value.decode() for name, value in start["headers"]}
        return AWSResponse(request.url, start["status"], named, _Body(content["body"]))


class _Body:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self) -> list[bytes]:
        return [self._content]


def _exchange(app: App, headers: list[tuple[bytes, bytes]], body: Any) -> list[Message]:
    """Send a request to an application, and return the start and the body of its response."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    async def send(message: Message) -> None:
        sent.append(message)

    _run(app({"type": "http", "headers": headers, "transport": _OPEN}, receive, send))
    return sent


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _run(response: Awaitable[None]) -> None:
    """Run an application that never waits."""
    for _ in response.__await__():
        raise AssertionError("the emulator waited for something")
