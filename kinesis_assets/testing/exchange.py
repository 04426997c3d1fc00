"""One HTTP request and its response, which faults can delay, truncate or replace by a connection reset."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from email.utils import formatdate, parsedate_to_datetime
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from kinesis_assets.emulator.app import read_body
from kinesis_assets.testing.messages import Answer

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kinesis_assets.emulator.app import KinesisApp, Message, Receive, Scope, Send
    from kinesis_assets.testing.messages import Call

_NO_LINGER = struct.pack("ii", 1, 0)
"""A value of SO_LINGER with which closing a connection resets it."""


class Exchange:
    """A request and its response, between the server and the application.

    Attributes:
        operation: The operation, such as `GetRecords`; empty if the request names none.
        arguments: The members of the body; empty if the body is not a JSON object.
    """

    def __init__(self, app: KinesisApp, scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
        target: bytes = dict(scope["headers"]).get(b"x-amz-target", b"")
        self.operation = target.decode("latin-1").rpartition(".")[2]
        self.arguments: dict[str, Any] = {}
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            self.arguments = msgspec.json.decode(body, type=dict[str, Any])
        self._app = app
        self._scope = scope
        self._receive = receive
        self._send = send
        self._body = body
        self._headers: list[tuple[bytes, bytes]] | None = None

    @classmethod
    async def receive_request(cls, app: KinesisApp, scope: Scope, receive: Receive, send: Send) -> Exchange:
        """Read the whole request."""
        return cls(app, scope, receive, send, await read_body(receive))

    async def serve(self, call: Call) -> Answer:
        """Let the application serve the request with the call's arguments, and return its response."""
        body = self._body if call.arguments is self.arguments else msgspec.json.encode(call.arguments)
        sent: list[Message] = []

        async def request() -> Message:
            return {"type": "http.request", "body": body}

        async def keep(message: Message) -> None:
            sent.append(message)

        await self._app(self._scope, request, keep)
        start, content = sent
        self._headers = start["headers"]
        return Answer(start["status"], content["body"])

    async def respond(self, answer: Answer, delayed: DelayedResponses, generation: int) -> None:
        """Send a response as its attributes specify.

        Args:
            answer: The response.
            delayed: The delayed responses.
            generation: `delayed.generation` at the arrival of the call.
        """
        if answer.delay:
            await delayed.wait(answer.delay, self._wait_for_disconnect(), generation)
        transport: asyncio.Transport | None = self._scope["transport"]
        if transport is None or transport.is_closing():
            await self._wait_for_disconnect()
            return
        if answer.reset:
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            transport.abort()
            await self._wait_for_disconnect()
            return
        part = answer.body[: int(len(answer.body) * answer.kept)]
        cut_on_wire = answer.on_wire and len(part) < len(answer.body)
        length = len(answer.body if cut_on_wire else part)
        original = self._headers or self._app.headers(length)
        headers = [_skewed(header, answer.skew) for header in original if header[0] != b"content-length"]
        headers.append((b"content-length", str(length).encode()))
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": part, "more_body": cut_on_wire})
        if cut_on_wire:
            transport.close()
            await self._wait_for_disconnect()

    async def _wait_for_disconnect(self) -> None:
        """Wait until the client has disconnected."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _skewed(header: tuple[bytes, bytes], seconds: float) -> tuple[bytes, bytes]:
    """Return a header. If it is `Date`, add the seconds to it."""
    name, value = header
    if name != b"date" or not seconds:
        return header
    skewed = parsedate_to_datetime(value.decode()).timestamp() + seconds
    return name, formatdate(skewed, usegmt=True).encode()


class DelayedResponses:
    """The delayed responses. Each waits for the end of its delay, a release or the client's disconnection.

    Attributes:
        generation: The number of releases so far.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    async def wait(self, seconds: float, disconnected: Awaitable[None], generation: int) -> None:
        """Wait before a response is sent.

        Args:
            seconds: The delay; `inf` waits until a release.
            disconnected: Completes when the client has disconnected, which ends the wait too.
            generation: `self.generation` at the arrival of the call. A later release ends the wait.
        """
        released = asyncio.Event()
        self._waiting[released] = asyncio.get_running_loop()
        if self.generation > generation:
            released.set()
        ends = [asyncio.ensure_future(each) for each in (released.wait(), disconnected)]
        try:
            timeout = None if seconds == inf else seconds
            await asyncio.wait(ends, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._waiting[released]
            for each in ends:
                each.cancel()

    def release(self) -> None:
        """End the delay of all responses to calls that have arrived so far. Any thread can call this."""
        self.generation += 1
        for event, loop in list(self._waiting.items()):
            loop.call_soon_threadsafe(event.set)
