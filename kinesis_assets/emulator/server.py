"""The service on a port of this machine."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, Self

import uvicorn

from kinesis_assets.emulator.account import ACCOUNT_ID, REGION, Account
from kinesis_assets.emulator.app import App, KinesisApp, Receive, Scope, Send
from kinesis_assets.emulator.errors import ResourceNotFoundException

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

READ_ACTIONS = (
    "kinesis:DescribeStreamSummary",
    "kinesis:ListShards",
    "kinesis:GetShardIterator",
    "kinesis:GetRecords",
)
"""What a consumer calls."""

LOOPBACK = "127.0.0.1"
"""The only address there is: whoever reaches the endpoint may do everything, as nothing is signed."""


class LocalKinesis:
    """A Kinesis endpoint with an account of its own, up between enter and exit.

        with LocalKinesis() as local:
            boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region, ...)

    Args:
        port: The port on 127.0.0.1; 0 takes a free one.
        now: The service's clock, in seconds since the epoch.
        wrap: Puts a middleware around the ASGI application, which has the account. The scope of a request
            has the `transport` of its connection (`asyncio.Transport`, None where the client has gone).
    """

    region = REGION

    def __init__(
        self,
        port: int = 0,
        *,
        now: Callable[[], float] = time.time,
        wrap: Callable[[KinesisApp], App] = lambda app: app,
    ) -> None:
        self.port = port
        self._account = Account(now)
        self._server = _Server(wrap(KinesisApp(self._account)))

    @property
    def endpoint_url(self) -> str:
        """Where the endpoint is."""
        return f"http://{LOOPBACK}:{self.port}"

    def share(
        self, stream_arn: str, actions: Iterable[str] = READ_ACTIONS, *, account_id: str = ACCOUNT_ID
    ) -> None:
        """Let an account call operations on a stream of another one, as the stream's resource policy does.

        The caller's account is the access key id, if that is twelve digits, else `ACCOUNT_ID`.

        Args:
            stream_arn: The stream's ARN.
            actions: As in a policy, `kinesis:GetRecords`: all that it may do from now on.
            account_id: Who may.

        Raises:
            ResourceNotFoundException: There is no such stream.
        """
        with self._account.lock:
            owner = self._account.by_id(stream_arn.split(":")[4])
            stream = owner.own_stream(stream_arn)
            if stream is None:
                raise ResourceNotFoundException(f"Stream {stream_arn} not found.")
            stream.shared[account_id] = frozenset(action.rpartition(":")[2] for action in actions)

    def __enter__(self) -> Self:
        listener = _listen(self.port)
        self.port = listener.getsockname()[1]
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="local-kinesis", daemon=True
        )
        self._thread.start()
        self._server.ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()


def serve(port: int, announce: Callable[[str], None] = print) -> None:
    """Run the service on a port until the process is told to stop; 0 takes a free one.

    `announce` is called with the endpoint's URL as soon as it takes requests.
    """
    listener = _listen(port)
    announce(f"http://{LOOPBACK}:{listener.getsockname()[1]}")
    _Server(KinesisApp(Account(time.time))).run([listener])


class _Server(uvicorn.Server):
    """uvicorn, telling when it is ready and silent but for warnings."""

    def __init__(self, app: App) -> None:
        config = uvicorn.Config(
            self._with_transport(app),
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # At once, though an answer may be held back.
        for connection in self.server_state.connections:
            connection.transport.close()
        await super().shutdown(sockets)

    def _with_transport(self, app: App) -> App:
        async def with_transport(scope: Scope, receive: Receive, send: Send) -> None:
            transports = [connection.transport for connection in self.server_state.connections]
            of_client = (each for each in transports if each.get_extra_info("peername") == scope["client"])
            scope["transport"] = next(of_client, None)
            await app(scope, receive, send)

        return with_transport


def _listen(port: int) -> socket.socket:
    """A listening socket: clients queue up in it from now on."""
    return socket.create_server((LOOPBACK, port))
