"""The middleware that passes each request through the faults to the embedded stream."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from kinesis_assets.errors import StreamNotFound
from kinesis_assets.testing.exchange import DelayedResponses, Exchange
from kinesis_assets.testing.fault_chain import Downstream, Fault
from kinesis_assets.testing.messages import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.emulator.account import Account
    from kinesis_assets.emulator.app import App, KinesisApp, Receive, Scope, Send


class Interceptor:
    """The active faults and the calls that have arrived, for one or more embedded streams.

    Attributes:
        calls: All calls since the start or the last `clear`, in order of arrival.
        faults: The faults in the order in which they were added.
        limits: The limits of shards, which apply after all faults.
        delayed: The delayed responses.
        accounts: The accounts of the embedded streams.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.limits: tuple[Fault, ...] = ()
        self.delayed = DelayedResponses()
        self.accounts: WeakSet[Account] = WeakSet()

    def around(self, app: KinesisApp) -> App:
        """Wrap an application in the faults."""
        self.accounts.add(app.account)

        async def faulty(scope: Scope, receive: Receive, send: Send) -> None:
            generation = self.delayed.generation
            exchange = await Exchange.receive_request(app, scope, receive, send)
            account = app.caller(dict(scope["headers"]))
            call = Call.now(exchange.operation, exchange.arguments, account)
            self.calls.append(call)
            faults = sorted(self.faults, key=lambda fault: fault.exclusive)
            downstream = Downstream((*faults, *self.limits), account, exchange.serve)
            await exchange.respond(await downstream(call), self.delayed, generation)

        return faulty

    def clear(self) -> None:
        """Remove all faults and limits, send all delayed responses and forget the calls."""
        self.faults.clear()
        self.limits = ()
        self.delayed.release()
        self.calls.clear()

    def change_stream(self, stream: str, change: Callable[[Account], None]) -> None:
        """Change a stream in every account that has a stream of this name.

        Raises:
            StreamNotFound: No account has one.
        """
        found = False
        for account in [each for one in self.accounts for each in list(one.accounts.values())]:
            with account.lock:
                if stream in account.stream_names:
                    change(account)
                    found = True
        if not found:
            raise StreamNotFound(stream, "not found in the embedded stream; create it first")
