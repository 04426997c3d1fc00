"""The calls of the package in the middle of which something can happen."""

from __future__ import annotations

import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.table import commit, data_file_writer, positions_chain, table
from kinesis_assets.table.snapshot import TableSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pytest

    from chaos.property.histories import Event


class Killed(BaseException):
    """The process ended here: nobody may catch it and go on."""


class DiskFailed(OSError):
    """A file system refused, or its answer was lost."""


class LogFailed(DeltaError):
    """Delta refused, or its answer was lost."""


SEAMS: dict[str, tuple[Any, str]] = {
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
    "take shards out": (commit, "without_shards"),
    # The table.
    "open table": (DeltaTable, "__init__"),
    "create table": (DeltaTable, "create"),
    "read positions": (TableSnapshot, "positions_at"),
    "open positions file": (positions_chain, "write_new"),
    "write positions": (positions_chain.PositionsChain, "write"),
    "accept null": (table, "accept_null"),
    "commit": (DeltaTable, "create_write_transaction"),
    "read history": (DeltaTable, "history"),
}


class Seams:
    """All of them, watched from now on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._seen: list[int] = []
        self._happen: Callable[[Event], None]
        for seam, (owner, name) in SEAMS.items():
            patch.setattr(owner, name, self._watched(seam, getattr(owner, name)))

    @contextmanager
    def expecting(self, events: Sequence[Event], happen: Callable[[Event], None]) -> Iterator[None]:
        """Let events happen in the middle of what is done within. In the middle of an event none does."""
        if not events:
            yield
            return
        self._events, self._seen, self._happen = list(events), [0] * len(events), happen
        try:
            yield
        finally:
            self._events = []

    def _watched(self, seam: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **named: Any) -> Any:
            self._pass(seam, after=False)
            answer = call(*arguments, **named)
            self._pass(seam, after=True)
            return answer

        def watched_waits(*arguments: Any, **named: Any) -> Any:
            self._pass(seam, after=False)
            answer = yield from call(*arguments, **named)
            self._pass(seam, after=True)
            return answer

        return watched_waits if inspect.isgeneratorfunction(call) else watched

    def _pass(self, seam: str, *, after: bool) -> None:
        with self._lock:
            events, due = self._events, []
            for number, event in enumerate(events):
                if (event.seam, event.after) == (seam, after):
                    if event.nth <= self._seen[number] < event.nth + event.times:
                        due.append(event)
                    self._seen[number] += 1
        for event in due:
            self._events = []
            try:
                # By another process in life: in a thread of its own, so that it lets go of nothing that this
                # one holds.
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(self._happen, event).result()
            finally:
                self._events = events
