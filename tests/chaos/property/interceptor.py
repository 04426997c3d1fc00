"""Calls of the package that a history can interrupt."""

from __future__ import annotations

import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.table import data_file_writer
from kinesis_assets.table.commits import commit
from kinesis_assets.table.delta import raw_table
from kinesis_assets.table.positions import positions_chain
from kinesis_assets.table.snapshot import TableSnapshot
from kinesis_assets.table.store import chain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pytest

    from chaos.property.histories import Event


class Killed(BaseException):
    """The process was killed here. The package must not catch this."""


class DiskFailed(OSError):
    """A file system refused a call, or its response was lost."""


class LogFailed(DeltaError):
    """Delta refused a call, or its response was lost."""


INTERCEPTED_CALLS: dict[str, tuple[Any, str]] = {
    # The stream.
    "describe": (StreamClient, "describe"),
    "list shards": (StreamClient, "_listed"),
    "shard iterator": (StreamClient, "getting_iterator"),
    "page": (StreamClient, "getting_records"),
    # Data files.
    "open data file": (data_file_writer, "write_new"),
    "write data": (data_file_writer._OpenFile, "_write_row_group"),
    "close data file": (data_file_writer._OpenFile, "_end"),
    "verify data file": (commit, "verify"),
    "remove shards": (commit, "without_shards"),
    # The table.
    "open table": (DeltaTable, "__init__"),
    "create table": (DeltaTable, "create"),
    "read positions": (TableSnapshot, "positions_at"),
    "open positions file": (chain, "write_new"),
    "write positions": (positions_chain.PositionsChain, "write"),
    "accept null": (raw_table, "accept_null"),
    "commit": (DeltaTable, "create_write_transaction"),
    "read history": (DeltaTable, "history"),
}


class Interceptor:
    """Intercepts all these calls."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._seen: list[int] = []
        self._happen: Callable[[Event], None]
        for name, (owner, attribute) in INTERCEPTED_CALLS.items():
            patch.setattr(owner, attribute, self._intercepted(name, getattr(owner, attribute)))

    @contextmanager
    def expecting(self, events: Sequence[Event], happen: Callable[[Event], None]) -> Iterator[None]:
        """Make events happen during the calls of the context. None happens during an event."""
        if not events:
            yield
            return
        self._events, self._seen, self._happen = list(events), [0] * len(events), happen
        try:
            yield
        finally:
            self._events = []

    def _intercepted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def intercepted(*arguments: Any, **named: Any) -> Any:
            self._pass(name, after=False)
            result = call(*arguments, **named)
            self._pass(name, after=True)
            return result

        async def intercepted_coroutine(*arguments: Any, **named: Any) -> Any:
            self._pass(name, after=False)
            result = await call(*arguments, **named)
            self._pass(name, after=True)
            return result

        return intercepted_coroutine if inspect.iscoroutinefunction(call) else intercepted

    def _pass(self, name: str, *, after: bool) -> None:
        with self._lock:
            events, due = self._events, []
            for number, event in enumerate(events):
                if (event.call, event.after) == (name, after):
                    if event.nth <= self._seen[number] < event.nth + event.times:
                        due.append(event)
                    self._seen[number] += 1
        for event in due:
            self._events = []
            try:
                # In a thread of its own, because another process would not release what this one has locked.
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(self._happen, event).result()
            finally:
                self._events = events
