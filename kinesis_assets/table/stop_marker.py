"""How a run tells its tasks, wherever they are, to end with what they have."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.fs

from kinesis_assets.table.storage import TableFolder, write_new

STOPS = "_kinesis/stops"
"""Where stop objects are, in a table's folder."""


@dataclass(frozen=True, slots=True)
class StopObject:
    """An empty file in the table's folder, which stands there once an attempt is told to stop.

    Attributes:
        folder: The table's folder: the one place that driver and executors are sure to share.
        batch_id: Whose.
    """

    folder: TableFolder
    batch_id: int

    def set(self) -> None:
        """Tell the attempt's tasks to stop.

        Raises:
            OSError: The folder cannot be written to.
        """
        write_new(self.folder.open(), self._path).close()

    def is_set(self) -> bool:
        """Whether they are told.

        Raises:
            OSError: The folder cannot be looked at.
        """
        return self.folder.open().get_file_info(self._path).type is not pyarrow.fs.FileType.NotFound

    @property
    def _path(self) -> str:
        return f"{STOPS}/{self.batch_id}"
