"""What happens in the middle of a run: at some call of one of its seams, before or after the call."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.table import commit, delta, files
from kinesis_assets.table import positions as positions_file
from kinesis_assets.table.delta import TableSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest


class Killed(BaseException):
    """The process ended here: nothing may catch it and go on."""


class DiskFailed(OSError):
    """A file system refused, or its answer was lost."""


class LogFailed(DeltaError):
    """Delta refused, or its answer was lost."""


INJECTED = (Killed, DiskFailed, LogFailed)

SEAMS: dict[str, tuple[Any, str]] = {
    # Calls to the stream.
    "describe": (StreamClient, "describe"),
    "list shards": (StreamClient, "list_shards"),
    "shard iterator": (StreamClient, "shard_iterator"),
    "page": (StreamClient, "get_records"),
    # Data files.
    "open data file": (files, "write_new"),
    "write data": (pq.ParquetWriter, "write_table"),
    "write footer": (pq.ParquetWriter, "close"),
    "close data file": (files._OpenFile, "close"),
    "verify data file": (commit, "verify"),
    "take shards out": (commit, "without_shards"),
    # The table.
    "open table": (DeltaTable, "__init__"),
    "create table": (DeltaTable, "create"),
    "read positions": (TableSnapshot, "positions_at"),
    "open positions file": (delta, "write_new"),
    "write positions": (positions_file, "encode"),
    "commit": (DeltaTable, "create_write_transaction"),
    "read history": (DeltaTable, "history"),
}


@dataclass(frozen=True)
class Moment:
    """When something happens.

    Attributes:
        seam: The call.
        nth: Which of its calls in the run, from 0.
        after: After the call was carried out, so that its answer is lost if it raises; else instead of it.
        times: At so many calls one after another.
    """

    seam: str
    nth: int = 0
    after: bool = False
    times: int = 1


class Seams:
    """The package's seams, watched: what is due at a moment is done there."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._lock = threading.Lock()
        self._moment: Moment | None = None
        self._do: Callable[[], object] = list
        self._seen = 0
        for name, (owner, attribute) in SEAMS.items():
            patch.setattr(owner, attribute, self._watched(name, getattr(owner, attribute)))

    @contextmanager
    def at(self, moment: Moment | None, do: Callable[[], object]) -> Iterator[None]:
        """Do something at a moment of what is done within."""
        if moment is None:
            yield
            return
        self._moment, self._do, self._seen = moment, do, 0
        try:
            yield
        finally:
            self._moment = None

    def _watched(self, seam: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **named: Any) -> Any:
            self._pass(seam, after=False)
            answer = call(*arguments, **named)
            self._pass(seam, after=True)
            return answer

        return watched

    def _pass(self, seam: str, *, after: bool) -> None:
        with self._lock:
            moment = self._moment
            if moment is None or (moment.seam, moment.after) != (seam, after):
                return
            due = moment.nth <= self._seen < moment.nth + moment.times
            self._seen += 1
        if due:
            self._do()
