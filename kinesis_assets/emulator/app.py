"""The service over HTTP/1.1 and HTTP/2: an ASGI application of AWS JSON 1.1 that ignores signatures, and its
server.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from email.utils import formatdate
from typing import TYPE_CHECKING, Self
from uuid import uuid4

import msgspec

from kinesis_assets.emulator import event_stream, requests
from kinesis_assets.emulator.account import ACCOUNT_ID, REGION, Account, Clock
from kinesis_assets.emulator.asgi import read_body, send_parts
from kinesis_assets.emulator.operations import OPERATIONS
from kinesis_assets.emulator.shapes import ResourceNotFoundException, ServiceError, UnknownOperationException

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable
    from types import FrameType, TracebackType

    from kinesis_assets.emulator.asgi import App, Receive, Scope, Send
    from kinesis_assets.emulator.event_stream import Frames
    from kinesis_assets.emulator.shapes import Member

_ACCESS_KEY = re.compile(rb"Credential=([0-9]{12})/")

CONTENT_TYPE = b"application/x-amz-json-1.1"
TARGET_PREFIX = "Kinesis_20131202."


@dataclass
class Response:
    """A response, whose headers do not include the length of its body.

    One that consists of frames has no body, and ends with the last frame.
    """

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    frames: Frames | None = None


class KinesisApp:
    """An ASGI application that serves one account. Its `Date` header follows the account's clock."""

    def __init__(self, account: Account) -> None:
        self.account = account

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        response = self.serve(dict(scope["headers"]), await read_body(receive))
        start = {"type": "http.response.start", "status": response.status}
        if response.frames is None:
            length = (b"content-length", str(len(response.body)).encode())
            await send({**start, "headers": [*response.headers, length]})
            await send({"type": "http.response.body", "body": response.body})
        else:
            await send({**start, "headers": response.headers})
            await send_parts((frame.encode() async for frame in response.frames), receive, send)

    def serve(self, headers: dict[bytes, bytes], body: bytes) -> Response:
        """Carry out a request and return the response."""
        try:
            with self.account.lock:
                output = self._execute(headers, body)
        except ServiceError as error:
            content = msgspec.json.encode({"__type": type(error).__name__, "message": str(error)})
            return Response(400, self.headers(), content)
        if isinstance(output, AsyncGenerator):
            return Response(200, self.headers(event_stream.CONTENT_TYPE), frames=output)
        return Response(200, self.headers(), b"" if output is None else msgspec.json.encode(output))

    def headers(self, content_type: bytes = CONTENT_TYPE) -> list[tuple[bytes, bytes]]:
        """Return the headers of a response that is sent now."""
        with self.account.lock:
            now = self.account.clock.now()
        return [
            (b"x-amzn-requestid", str(uuid4()).encode()),
            (b"content-type", content_type),
            (b"date", formatdate(now / 1000, usegmt=True).encode()),
        ]

    def caller(self, headers: dict[bytes, bytes]) -> Account:
        """Return the calling account: the access key id if it has twelve digits, else the default account."""
        found = _ACCESS_KEY.search(headers.get(b"authorization", b""))
        return self.account.by_id(found[1].decode()) if found else self.account

    def _execute(self, headers: dict[bytes, bytes], body: bytes) -> Member | Frames | None:
        if headers.get(b"content-type", b"").partition(b";")[0].strip() != CONTENT_TYPE:
            raise UnknownOperationException(f"The Content-Type must be {CONTENT_TYPE.decode()}.")
        target = headers.get(b"x-amz-target", b"").decode("latin-1")
        operation = OPERATIONS.get(target.removeprefix(TARGET_PREFIX))
        if operation is None or not target.startswith(TARGET_PREFIX):
            raise UnknownOperationException(
                f"Unknown operation: X-Amz-Target is {target!r}." if target else "X-Amz-Target is missing."
            )
        return requests.decode(body, operation).execute(self.caller(headers))


try:
    import uvicorn

    from kinesis_assets.emulator.http2 import HttpProtocol
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"the embedded stream needs {error.name}: pip install 'kinesis-assets[emulator]'", name=error.name
    ) from error


READ_ACTIONS = (
    "kinesis:DescribeStreamSummary",
    "kinesis:ListShards",
    "kinesis:GetShardIterator",
    "kinesis:GetRecords",
)
"""The actions that a consumer needs."""

LOOPBACK = "127.0.0.1"
"""The only address that is bound: signatures are not checked, so every client has full access."""


class LocalKinesis:
    """A Kinesis endpoint with its own account, which runs while the context is entered.

        with LocalKinesis() as local:
            boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region, ...)

    It can be entered again, and then has the same streams at the same port.

    Args:
        port: The port on 127.0.0.1; 0 selects a free port.
        now: Returns the service's time in seconds since the epoch.
        wrap: Wraps the ASGI application in a middleware. The scope of a request has the `transport` of its
            connection (`asyncio.Transport`, or None if the client has disconnected).
        tls: The context of a server, with a certificate for 127.0.0.1. As with AWS, clients then negotiate
            HTTP/1.1 or HTTP/2 by ALPN. Without TLS, a client has to know that the endpoint speaks HTTP/2.
    """

    region = REGION

    def __init__(
        self,
        port: int = 0,
        *,
        now: Callable[[], float] = time.time,
        wrap: Callable[[KinesisApp], App] = lambda app: app,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.port = port
        self._account = Account(Clock(now))
        self._scheme = "http" if tls is None else "https"
        self._app = wrap(KinesisApp(self._account))
        self._tls = tls

    @property
    def endpoint_url(self) -> str:
        """The URL of the endpoint."""
        return f"{self._scheme}://{LOOPBACK}:{self.port}"

    def share(
        self, stream_arn: str, actions: Iterable[str] = READ_ACTIONS, *, account_id: str = ACCOUNT_ID
    ) -> None:
        """Allow an account to call operations on another account's stream, like a resource policy.

        The caller's account is the access key id if it has twelve digits, else `ACCOUNT_ID`.

        Args:
            actions: The allowed actions as in a policy, such as `kinesis:GetRecords`. They replace
                those of an earlier call.
            account_id: The account that is allowed to call them.

        Raises:
            ResourceNotFoundException: The stream does not exist.
        """
        with self._account.lock:
            stream = self._account.stream_by_arn(stream_arn)
            if stream is None:
                raise ResourceNotFoundException(f"Stream {stream_arn} not found.")
            stream.shared[account_id] = frozenset(action.rpartition(":")[2] for action in actions)

    def __enter__(self) -> Self:
        listener = _listen(self.port)
        self.port = listener.getsockname()[1]
        self._server = _Server(self._app, self._tls)
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="local-kinesis", daemon=True
        )
        self._thread.start()
        self._server.ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()
        self._thread.join()


def serve(port: int, announce: Callable[[str], None]) -> None:
    """Serve until the process receives SIGINT or SIGTERM.

    Args:
        port: The port on 127.0.0.1; 0 selects a free port.
        announce: Called with the endpoint's URL as soon as the endpoint accepts connections.
    """
    listener = _listen(port)
    announce(f"http://{LOOPBACK}:{listener.getsockname()[1]}")
    _Server(KinesisApp(Account(Clock(time.time)))).run([listener])


class _Server(uvicorn.Server):
    """A uvicorn server that signals when it is ready, stops at once, and logs only warnings."""

    def __init__(self, app: App, tls: ssl.SSLContext | None = None) -> None:
        config = uvicorn.Config(
            self._with_transport(app),
            http=HttpProtocol,
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
        )
        super().__init__(config)
        if tls is not None:
            tls.set_alpn_protocols(["h2", "http/1.1"])
            config.load()
            config.ssl = tls
        self.ready = threading.Event()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.stop()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        # uvicorn's own loop notices a stop up to 0.1 seconds late, which is longer than most tests take.
        await self.on_tick(0)
        await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        for connection in list(self.server_state.connections):
            # A delayed response, or one that its client does not read, must not delay the shutdown.
            transport = connection.transport
            if transport.get_write_buffer_size():
                transport.abort()
            transport.close()
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=1)

    def _with_transport(self, app: App) -> App:
        async def with_transport(scope: Scope, receive: Receive, send: Send) -> None:
            transports = [connection.transport for connection in self.server_state.connections]
            of_client = (each for each in transports if each.get_extra_info("peername") == scope["client"])
            scope["transport"] = next(of_client, None)
            await app(scope, receive, send)

        return with_transport


def _listen(port: int) -> socket.socket:
    """Return a listening socket. From now on connections are queued."""
    return socket.create_server((LOOPBACK, port))
