"""The stop marker: how a run asks its tasks, on any machine, to stop and return what they have read."""

from __future__ import annotations

from dataclasses import dataclass

from kinesis_assets.table.store.storage import TableFolder, write_new

STOP_MARKERS_FOLDER = "_kinesis/stops"
"""The folder of stop markers in a table's folder."""


@dataclass(frozen=True, slots=True)
class StopMarker:
    """An empty file in the table's folder that exists once an attempt has to stop.

    Attributes:
        folder: The table's folder, which is the only place that driver and executors are sure to share.
        batch_id: The attempt's batch id.
    """

    folder: TableFolder
    batch_id: int

    def set(self) -> None:
        """Ask the attempt's tasks to stop.

        Raises:
            OSError: The folder cannot be written to.
        """
        write_new(self.folder.open(), self._path).close()

    def is_set(self) -> bool:
        """Return whether the attempt's tasks have to stop.

        Raises:
            OSError: The folder cannot be read.
        """
        try:
            # One request to S3. Arrow's `get_file_info` also lists the folder if the file does not exist.
            self.folder.open().open_input_file(self._path).close()
        except FileNotFoundError:
            return False
        return True

    @property
    def _path(self) -> str:
        return f"{STOP_MARKERS_FOLDER}/{self.batch_id}"
