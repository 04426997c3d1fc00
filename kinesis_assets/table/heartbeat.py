"""Heartbeats: a run's process writes a small object into the table's folder from time to time while it lives.

The folder is the one place that a run and the sensor are sure to share. Nothing relies on a heartbeat but the
question whether a run's shards are to be asked for again: where one is missing though the run lives, two runs
read the same shards, and one of them commits.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow.fs

from kinesis_assets.table.refusals import not_writable
from kinesis_assets.table.storage import write_new

if TYPE_CHECKING:
    from kinesis_assets.table.table import PositionedTable

RUNS = "_kinesis/runs"
"""Where heartbeats are, in a table's folder; each is named by its run."""

ENDED = "ended"
"""What a heartbeat is that ended in order, see `heartbeats`: its run can go on with other steps."""

INTERVAL = 30.0
"""Seconds from one heartbeat to the next."""

_SECONDS_TO_END = 5.0
_ENDED_KEPT = 3600 * 10**9

_log = logging.getLogger(__name__)


class Heartbeat:
    """The heartbeat of one run, from a thread of its own.

    Args:
        table: The run's table.
        run_id: The run.
        seconds: It ends by itself after so long, when nothing of the run could be committed any more.
        interval: Seconds from one to the next.
    """

    def __init__(
        self, table: PositionedTable, run_id: str, *, seconds: float, interval: float = INTERVAL
    ) -> None:
        self._table = table
        self._path = f"{RUNS}/{run_id}"
        self._interval = interval
        self._beats_left = seconds / interval
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="heartbeat", daemon=True)

    def begin(self) -> None:
        """Write the first one, and have the others follow.

        Raises:
            TableNotWritable: The table cannot be written to.
        """
        try:
            self._beat()
        except OSError as error:
            if refused := not_writable(self._table.uri, error, "Nothing was committed."):
                raise refused from None
            _log.warning("table %s: a heartbeat cannot be written: %s", self._table.uri, error)
        self._thread.start()

    def end(self) -> None:
        """Write a last one, which says so."""
        self._ended.set()
        self._thread.join(_SECONDS_TO_END)

    def _go_on(self) -> None:
        with suppress(OSError):  # maintenance deletes what is left
            self._delete_ended()
        while self._beats_left > 0 and not self._ended.wait(self._interval):
            self._beats_left -= 1
            self._try_to_write(b"")
        self._try_to_write(ENDED.encode())

    def _try_to_write(self, content: bytes) -> None:
        try:
            self._write(content)
        except OSError as error:
            _log.warning("table %s: a heartbeat cannot be written: %s", self._table.uri, error)

    def _beat(self) -> None:
        self._write(b"")

    def _write(self, content: bytes) -> None:
        with write_new(self._table.files, self._path) as file:
            file.write(content)

    def _delete_ended(self) -> None:
        """Delete those that ended more than an hour ago, so that their number is bounded without maintenance.

        The time is that of the newest object, so that no two clocks are compared.
        """
        infos = _listed(self._table)
        newest = max((info.mtime_ns for info in infos), default=0)
        for info in infos:
            if info.size and info.mtime_ns < newest - _ENDED_KEPT:
                with suppress(FileNotFoundError):  # another run deleted it
                    self._table.files.delete_file(info.path)


def heartbeats(table: PositionedTable) -> dict[str, str]:
    """The last heartbeat of each run that has one, by run id: a text that is another one after the next.

    It is `ENDED` for one that ended in order. Nothing of such a run is committed any more, unless it begins
    again.

    Raises:
        OSError: The folder cannot be listed.
    """
    return {info.base_name: ENDED if info.size else str(info.mtime_ns) for info in _listed(table)}


def _listed(table: PositionedTable) -> list[pyarrow.fs.FileInfo]:
    selector = pyarrow.fs.FileSelector(RUNS, allow_not_found=True)
    infos: list[pyarrow.fs.FileInfo] = table.files.get_file_info(selector)
    return infos
