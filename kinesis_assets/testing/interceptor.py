"""The way of each request through the faults to the embedded stream."""

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
    """Faults around applications of the embedded stream, and the calls that came to them.

    Attributes:
        calls: Every call since the beginning or the last `clear`, in the order in which they came.
        faults: The faults, in the order in which they were added.
        limits: The limits of shards, behind all faults.
        held: The answers that are held back.
        accounts: Those of the applications.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.limits: tuple[Fault, ...] = ()
        self.delayed = DelayedResponses()
        self.accounts: WeakSet[Account] = WeakSet()

    def around(self, app: KinesisApp) -> App:
        """The application with the faults around it."""
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
        """End all faults and limits, let go every answer that is held back, and forget the calls."""
        self.faults.clear()
        self.limits = ()
        self.delayed.release()
        self.calls.clear()

    def change_stream(self, stream: str, change: Callable[[Account], None]) -> None:
        """Change a stream in every account that has one of that name.

        Raises:
            StreamNotFound: None has.
        """
        found = False
        for account in [each for one in self.accounts for each in list(one.accounts.values())]:
            with account.lock:
                if stream in account.stream_names:
                    change(account)
                    found = True
        if not found:
            raise StreamNotFound(stream, "not found in the embedded stream; create it first")
