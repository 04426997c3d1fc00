"""The way of an HTTP request through the faults to the embedded stream, and of its response back.

Each fault is a layer around the next one, and the service is the innermost layer.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import socket
import struct
import termios
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.utils import formatdate, parsedate_to_datetime
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from kinesis_assets.emulator import iterators
from kinesis_assets.emulator.asgi import send_parts, wait_for_disconnect
from kinesis_assets.emulator.operations import OPERATIONS
from kinesis_assets.emulator.operations.writing import PutRecord, PutRecords
from kinesis_assets.emulator.shapes import InvalidArgumentException, ServiceError
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account
    from kinesis_assets.emulator.app import KinesisApp
    from kinesis_assets.emulator.asgi import Receive, Scope, Send
    from kinesis_assets.emulator.event_stream import Frames


NOT_THE_SERVICE = "not the service: a fault of kinesis_assets.testing"
"""The message of errors that a fault returns."""

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

    async def serve(self, call: Call) -> Answer:
        """Let the application serve the request with the call's arguments, and return its response."""
        body = self._body if call.arguments is self.arguments else msgspec.json.encode(call.arguments)
        response = self._app.serve(dict(self._scope["headers"]), body)
        self._headers = response.headers
        return Answer(response.status, response.body, response.frames)

    async def respond(self, answer: Answer, delayed: DelayedResponses, generation: int) -> None:
        """Send a response as its attributes specify.

        Args:
            generation: `delayed.generation` at the arrival of the call.
        """
        if answer.delay:
            await delayed.wait(answer.delay, self._wait_for_disconnect(), generation)
        transport: asyncio.Transport | None = self._scope["transport"]
        if transport is None or transport.is_closing():
            await self._wait_for_disconnect()
            return
        if answer.reset:
            await self._reset(transport)
            return
        if answer.frames is not None:
            await self._start(answer)
            try:
                await send_parts((frame.encode() async for frame in answer.frames), self._receive, self._send)
            except ConnectionReset:
                await _wait_until_received(transport)
                await self._reset(transport)
            return
        part = answer.body[: int(len(answer.body) * answer.kept)]
        cut_on_wire = answer.on_wire and len(part) < len(answer.body)
        length = len(answer.body if cut_on_wire else part)
        await self._start(answer, (b"content-length", str(length).encode()))
        await self._send({"type": "http.response.body", "body": part, "more_body": cut_on_wire})
        if cut_on_wire:
            transport.close()
            await self._wait_for_disconnect()

    async def _wait_for_disconnect(self) -> None:
        await wait_for_disconnect(self._receive)

    async def _start(self, answer: Answer, *length: tuple[bytes, bytes]) -> None:
        headers = [_skewed(header, answer.skew) for header in self._headers or self._app.headers()]
        headers += length
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})

    async def _reset(self, transport: asyncio.Transport) -> None:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        transport.abort()
        await self._wait_for_disconnect()


class ConnectionReset(Exception):
    """The frames of a response end with a reset of the connection."""


async def _wait_until_received(transport: asyncio.Transport) -> None:
    """Wait until the client's machine has received everything, which a reset would discard otherwise."""
    connection = transport.get_extra_info("socket").fileno()
    while not transport.is_closing() and (  # noqa: ASYNC110  # the kernel has no event for it
        transport.get_write_buffer_size() or any(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))
    ):
        await asyncio.sleep(0.005)


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


@dataclass(frozen=True)
class Call:
    """A call that reached the endpoint.

    Attributes:
        operation: The operation, such as `GetRecords`.
        arguments: The members of the request as they are on the wire: data is base64 text.
        stream: The name of the stream, which may be derived from an iterator or a token; None if the call is
            not for a stream.
        shard_id: The shard, which may be derived from an iterator or a record's hash key; None if the call is
            not for a single shard.
        at: The time of arrival, in seconds of `time.monotonic()`.
    """

    operation: str
    arguments: dict[str, Any]
    stream: str | None
    shard_id: str | None
    at: float

    @classmethod
    def now(cls, operation: str, arguments: dict[str, Any], account: Account) -> Call:
        """Create a call that arrives now."""
        stream = arguments.get("StreamName") or _named_arn(arguments).rpartition("/")[2]
        shard_id = arguments.get("ShardId")
        if "ShardIterator" in arguments:
            position = _decoded(arguments["ShardIterator"], iterators.ShardPosition)
            if position is not None:
                stream, shard_id = position.stream_name, position.shard_id
        elif operation == "ListShards" and "NextToken" in arguments:
            listing = _decoded(arguments["NextToken"], iterators.ShardListing)
            stream = stream if listing is None else listing.stream_name
        elif operation == "PutRecord":
            shard_id = next(iter(shards_of(operation, arguments, account)), None)
        return cls(operation, arguments, stream or None, shard_id, time.monotonic())

    def arn_in(self, account: Account) -> str:
        """Return the ARN of the stream, which is one of the calling account unless the call names another."""
        token = None
        if self.operation == "ListShards" and "NextToken" in self.arguments:
            token = _decoded(self.arguments["NextToken"], iterators.ShardListing)
        named = _named_arn(self.arguments) if token is None else token.stream_arn
        return named or account.arn_of(str(self.stream))


@dataclass(frozen=True)
class Answer:
    """A response, and how it is sent.

    Attributes:
        body: The body, which is JSON unless a test sets another one.
        frames: The frames of an event stream, instead of a body.
        delay: Seconds until the response is sent; `inf` delays it until `Faults.clear`.
        kept: The part of the body that is sent, from 0 to 1.
        on_wire: If only a part of the body is sent: True closes the connection after it, although
            Content-Length is that of the whole body. False sends the part as a complete HTTP response.
        reset: Reset the connection instead of sending the response.
        skew: Seconds to add to the `Date` header.
    """

    status: int
    body: bytes
    frames: Frames | None = None
    delay: float = 0.0
    kept: float = 1.0
    on_wire: bool = False
    reset: bool = False
    skew: float = 0.0

    @classmethod
    def error(cls, code: str, status: int = 400) -> Answer:
        """Create an error response. Its message says that it does not come from the service."""
        return cls(status, json.dumps({"__type": code, "message": NOT_THE_SERVICE}).encode())

    @property
    def members(self) -> dict[str, Any]:
        """The members of the JSON body."""
        members: dict[str, Any] = json.loads(self.body)
        return members

    def with_body(self, body: bytes) -> Answer:
        """Return this response with another body."""
        return replace(self, body=body)

    def but(self, **members: Any) -> Answer:
        """Return this response with some members of its JSON body replaced."""
        return self.with_body(json.dumps(self.members | members).encode())


def _named_arn(arguments: dict[str, Any]) -> str:
    """Return the ARN of the stream that the members of a request name; empty if they name none."""
    names = ("ConsumerARN", "StreamARN", "ResourceARN")
    arn = next(filter(None, map(arguments.get, names)), "")
    return str(arn).partition("/consumer/")[0]


def _decoded(text: Any, kind: type[iterators.T]) -> iterators.T | None:
    """Decode a token, even if it has expired. Returns None if it is not a token of that kind."""
    try:
        return iterators.decode(str(text), kind, now=0)
    except InvalidArgumentException:
        return None


class CallFilter(TypedDict, total=False):
    """The calls of an operation to which a fault applies.

    Attributes:
        stream: Only calls on this stream.
        shard_id: Only calls on this shard.
        after: The number of calls to let through first; 0 by default.
        times: The maximum number of calls to which the fault applies; no maximum by default.
    """

    stream: str
    shard_id: str
    after: int
    times: int


@dataclass(frozen=True)
class Downstream:
    """The inner layers of a fault: other faults, then the service.

    Attributes:
        faults: The faults of the inner layers, the outermost first.
        serve: Sends a call to the service and returns the response.
    """

    faults: Sequence[Fault]
    account: Account
    serve: Callable[[Call], Awaitable[Answer]]

    async def __call__(self, call: Call) -> Answer:
        """Send a call through the inner layers and return the response."""
        for number, fault in enumerate(self.faults, 1):
            if fault.matches(call):
                inner = self.faults[number:]
                if fault.exclusive:
                    inner = [each for each in inner if not each.exclusive]
                return await fault.layer(call, replace(self, faults=inner))
        return await self.serve(call)


Layer = Callable[[Call, Downstream], Awaitable[Answer]]


@dataclass
class Fault:
    """A layer and the calls to which it applies; see `CallFilter`.

    Attributes:
        exclusive: If the fault applies to a call, later exclusive faults neither apply to it nor count it.

    Raises:
        InvalidInput: The operation is unknown, or `after` or `times` is out of range.
    """

    operation: str
    layer: Layer
    stream: str | None = None
    shard_id: str | None = None
    after: int = 0
    times: int | None = None
    exclusive: bool = False
    _numbers: Iterator[int] = field(default_factory=lambda: count(1), init=False, repr=False)

    def __post_init__(self) -> None:
        check_operation(self.operation)
        if self.after < 0 or (self.times is not None and self.times < 1):
            raise InvalidInput(
                f"after must be at least 0 and times at least 1, not {self.after} and {self.times}"
            )

    def matches(self, call: Call) -> bool:
        """Count a call and return whether the fault applies to it."""
        if (
            call.operation != self.operation
            or self.stream not in (None, call.stream)
            or self.shard_id not in (None, call.shard_id)
        ):
            return False
        number = next(self._numbers)
        return number > self.after and (self.times is None or number <= self.after + self.times)


def check_operation(operation: str) -> None:
    """Check the name of an operation.

    Raises:
        InvalidInput: The embedded stream does not have this operation.
    """
    if operation not in OPERATIONS:
        raise InvalidInput(f"unknown operation {operation!r}; use one of {', '.join(sorted(OPERATIONS))}")


def shards_of(operation: str, arguments: dict[str, Any], account: Account) -> list[str]:
    """Return the shard id of each record of a PutRecord or PutRecords call, in order.

    The list is empty if the service will refuse the call.
    """
    kind: type[PutRecord | PutRecords] = PutRecord if operation == "PutRecord" else PutRecords
    try:
        request = msgspec.convert(arguments, kind)
        with account.lock:
            stream = request.stream(account)
            keys = [key for _, key in request.checked(stream)]
            if stream.distribution == "AUTO":
                return [shard.shard_id for shard in stream.next_shards(len(keys))]
            return [stream.shard_for(key).shard_id for key in keys if key is not None]
    except (msgspec.ValidationError, ServiceError):
        return []
