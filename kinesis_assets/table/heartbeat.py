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
    from kinesis_assets.table.delta import PositionedTable

RUNS = "_kinesis/runs"
"""Where heartbeats are, in a table's folder; each is named by its run."""

INTERVAL = 30.0
"""Seconds from one heartbeat to the next."""

_SECONDS_TO_END = 5.0

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
        """Write no more, and delete it."""
        self._ended.set()
        self._thread.join(_SECONDS_TO_END)
        with suppress(OSError):  # maintenance deletes what is left
            self._table.files.delete_file(self._path)

    def _go_on(self) -> None:
        while self._beats_left > 0 and not self._ended.wait(self._interval):
            self._beats_left -= 1
            try:
                self._beat()
            except OSError as error:
                _log.warning("table %s: a heartbeat cannot be written: %s", self._table.uri, error)

    def _beat(self) -> None:
        write_new(self._table.files, self._path).close()


def heartbeats(table: PositionedTable) -> dict[str, str]:
    """The last heartbeat of each run that has one, by run id: a text that is another one after the next.

    Raises:
        OSError: The folder cannot be listed.
    """
    selector = pyarrow.fs.FileSelector(RUNS, allow_not_found=True)
    return {info.base_name: str(info.mtime_ns) for info in table.files.get_file_info(selector)}
