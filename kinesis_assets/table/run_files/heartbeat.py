"""Heartbeats: small objects that a run writes into the table's folder at an interval while it is alive.

The folder is the only place that a run and the sensor are sure to share. Heartbeats decide only whether the
sensor requests a run's shards again, or ends a run over derived tables: if the heartbeat of a live run is
missing, two runs read the same rows, and one of them commits.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from kinesis_assets.table.store.storage import files_in, not_writable, write_new

if TYPE_CHECKING:
    from kinesis_assets.table.stored_table import StoredTable

HEARTBEATS_FOLDER = "_kinesis/runs"
"""The folder of heartbeats in a table's folder; each is named by its run's id."""

ENDED = "ended"
"""The content of a heartbeat that was ended in an orderly way, see `heartbeats`. Its run may execute other
steps."""

INTERVAL = 30.0
"""Seconds between two heartbeats."""

_SECONDS_TO_END = 5.0
_ENDED_KEPT = 3600 * 10**9

_log = logging.getLogger(__name__)


class Heartbeat:
    """The heartbeat of one run, written by a separate thread. As a context it ends with the block.

    Args:
        seconds: Seconds after which the heartbeat ends by itself, because the run can no longer commit.
    """

    def __init__(
        self, table: StoredTable, run_id: str, *, seconds: float, interval: float = INTERVAL
    ) -> None:
        self._table = table
        self._path = f"{HEARTBEATS_FOLDER}/{run_id}"
        self._interval = interval
        self._beats_left = seconds / interval
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_writing, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self) -> None:
        """Write the first heartbeat, and start the thread that writes the others.

        Raises:
            TableNotWritable: Writing to the table is refused.
        """
        try:
            self._beat()
        except OSError as error:
            if refused := not_writable(self._table.uri, error, "Nothing was committed."):
                raise refused from None
            _log.warning("table %s: a heartbeat cannot be written: %s", self._table.uri, error)
        self._thread.start()

    def end(self) -> None:
        """Write the last heartbeat, with the content `ENDED`."""
        self._ended.set()
        self._thread.join(_SECONDS_TO_END)

    def _keep_writing(self) -> None:
        with suppress(OSError):  # maintenance deletes the rest
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
        """Delete heartbeats that ended more than an hour ago, to limit their number without maintenance.

        The age is relative to the newest object, so that clocks are not compared.
        """
        infos = files_in(self._table.files, HEARTBEATS_FOLDER)
        newest = max((info.mtime_ns for info in infos), default=0)
        for info in infos:
            if info.size and info.mtime_ns < newest - _ENDED_KEPT:
                with suppress(FileNotFoundError):  # another run deleted it
                    self._table.files.delete_file(info.path)


def heartbeats(table: StoredTable) -> dict[str, str]:
    """Return the last heartbeat of each run that has one, by run id.

    A heartbeat is a text that changes with each write, or `ENDED` if the run ended it in an orderly way. Such
    a run commits nothing more, unless it starts another heartbeat.

    Raises:
        OSError: The folder cannot be listed.
    """
    infos = files_in(table.files, HEARTBEATS_FOLDER)
    return {info.base_name: ENDED if info.size else str(info.mtime_ns) for info in infos}
