"""Small files in a table's folder by which tasks report how far they are, and are asked to stop.

The folder is the only place that driver and executors are sure to share. A marker asks tasks on any
machine to stop and to return what they have read. Apart from it, only the log of a run depends on these
files. All methods that use them raise OSError if the folder cannot be read or written.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.table.store.storage import DAMAGED, files_in, write_new

if TYPE_CHECKING:
    import pyarrow.fs

    from kinesis_assets.table.store.storage import TableFolder


PROGRESS_FOLDER = "_kinesis/progress"
"""The folder of these files in a table's folder."""


class Progress(msgspec.Struct, frozen=True):
    """How far some shards are read.

    Attributes:
        bytes: Their payload bytes.
        lag_ms: Milliseconds to the tip, as the sum over the shards.
        first_lag_ms: The largest lag of each shard so far, as their sum.
    """

    records: int = 0
    bytes: int = 0
    lag_ms: int = 0
    first_lag_ms: int = 0

    def __add__(self, other: Progress) -> Progress:
        return Progress(
            self.records + other.records,
            self.bytes + other.bytes,
            self.lag_ms + other.lag_ms,
            self.first_lag_ms + other.first_lag_ms,
        )

    @property
    def percent(self) -> float:
        """How much of the lag was read, in percent; 100 if there was none."""
        return 100.0 * (1 - self.lag_ms / self.first_lag_ms) if self.first_lag_ms else 100.0


@dataclass(frozen=True, slots=True)
class ProgressFiles:
    """The files of one attempt."""

    folder: TableFolder
    batch_id: int

    def write(self, task: str, progress: Progress) -> None:
        """Write how far a task is, over what it wrote before."""
        with write_new(self.folder.open(), f"{PROGRESS_FOLDER}/{self.batch_id}-{task}") as file:
            file.write(msgspec.json.encode(progress))

    def read(self) -> Progress:
        """Return how far all tasks are that have written a file."""
        files = self.folder.open()
        total = Progress()
        for info in self._files(files):
            # The task may be writing the file.
            with files.open_input_file(info.path) as file, suppress(*DAMAGED):
                total += msgspec.json.decode(file.read(), type=Progress)
        return total

    def delete(self) -> None:
        """Delete the files. Those that cannot be deleted are left to maintenance."""
        files = self.folder.open()
        for info in self._files(files):
            files.delete_file(info.path)

    def _files(self, files: pyarrow.fs.FileSystem) -> list[pyarrow.fs.FileInfo]:
        prefix = f"{self.batch_id}-"
        return [info for info in files_in(files, PROGRESS_FOLDER) if info.base_name.startswith(prefix)]


STOP_MARKERS_FOLDER = "_kinesis/stops"
"""The folder of stop markers in a table's folder."""


@dataclass(frozen=True, slots=True)
class StopMarker:
    """An empty file in the table's folder that exists once an attempt has to stop."""

    folder: TableFolder
    batch_id: int

    def set(self) -> None:
        """Ask the attempt's tasks to stop."""
        write_new(self.folder.open(), self._path).close()

    def is_set(self) -> bool:
        """Return whether the attempt's tasks have to stop."""
        try:
            # One request to S3. Arrow's `get_file_info` also lists the folder if the file does not exist.
            self.folder.open().open_input_file(self._path).close()
        except FileNotFoundError:
            return False
        return True

    @property
    def _path(self) -> str:
        return f"{STOP_MARKERS_FOLDER}/{self.batch_id}"
