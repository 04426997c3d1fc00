"""Calls of the package that a history can interrupt."""

from __future__ import annotations

import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.table import data_file_writer
from kinesis_assets.table.commits import commit
from kinesis_assets.table.delta import raw_table
from kinesis_assets.table.iceberg.manifests import NewManifests
from kinesis_assets.table.positions import positions_chain
from kinesis_assets.table.snapshot import TableSnapshot
from kinesis_assets.table.store import chain
from support.formats import FORMAT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pytest

    from chaos.property.histories import Event


class Killed(BaseException):
    """The process was killed here. The package must not catch this."""


class DiskFailed(OSError):
    """A file system refused a call, or its response was lost."""


class LogFailed(DeltaError, CommitStateUnknownException):
    """Delta or the catalog refused a call, or its response was lost."""


class SeemedOvertaken(CommitFailedException):
    """The catalog said that another commit was first, which may be the commit whose response was lost."""


ERRORS = (DiskFailed, LogFailed, SeemedOvertaken)
"""What may be raised in place of a call's result."""

FAILURES: list[type[BaseException]] = [Killed, DiskFailed, LogFailed]
"""What a history raises, with tables in the format of the tests."""

_Calls = dict[str, tuple[Any, str]]

_OPENING: dict[str, _Calls] = {
    "delta": {"open table": (DeltaTable, "__init__"), "create table": (DeltaTable, "create")},
    "iceberg": {"open table": (SqlCatalog, "load_table"), "create table": (SqlCatalog, "create_table")},
}
_COMMITTING: dict[str, _Calls] = {
    "delta": {
        "accept null": (raw_table, "accept_null"),
        "commit": (DeltaTable, "create_write_transaction"),
        "read history": (DeltaTable, "history"),
    },
    "iceberg": {
        "write manifests": (NewManifests, "following"),
        "commit": (SqlCatalog, "commit_table"),
        "write manifest list": (NewManifests, "list_of"),
    },
}
if FORMAT == "iceberg":
    FAILURES.append(SeemedOvertaken)

INTERCEPTED_CALLS: _Calls = {
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
    **_OPENING[FORMAT],
    "read positions": (TableSnapshot, "positions_of"),
    "open positions file": (chain, "write_new"),
    "write positions": (positions_chain.PositionsChain, "write"),
    **_COMMITTING[FORMAT],
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
