"""Reads and writes the amendment files of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.table.positions import amendments
from kinesis_assets.table.store.file_cache import FileCache
from kinesis_assets.table.store.referenced_files import RESTORE_ORIGINAL, decoded, read_file, write_file

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow.fs

    from kinesis_assets.table.positions.amendments import Amendment

AMENDMENTS_FOLDER = "_kinesis/past"

_MEMORY_A_BYTE = 8
"""Approximate memory in bytes of a decoded amendment file, per byte of the file."""


class AmendmentFiles:
    """The amendment files of one table, with a cache of those that were read.

    Args:
        table: The table's URI, for errors.
        files: Returns the table's folder.
    """

    def __init__(self, table: str, files: Callable[[], pyarrow.fs.FileSystem]) -> None:
        self._table = table
        self._files = files
        self._cache = FileCache()

    def at(self, commit_id: int) -> Amendment:
        """Read the amendment file with a commit id.

        Raises:
            PositionsUnreadable: The file is missing, invalid, or another amendment's.
            TableUnreachable: The file cannot be read at the moment.
        """
        path = amendment_path(commit_id)
        found: Amendment | None = self._cache.get(path)
        if found is None:
            content = read_file(self._table, self._files(), path)
            found = decoded(self._table, path, amendments.decode, content)
            if found.commit_id != commit_id:
                raise PositionsUnreadable(
                    self._table,
                    f"{path} has the content of {found.commit_id}.json. {RESTORE_ORIGINAL}",
                )
            self._cache.put(path, found, _MEMORY_A_BYTE * len(content))
        return found

    def write(self, amendment: Amendment) -> None:
        """Write the file of a new amendment, before the commit that points at it.

        Raises:
            OSError: The file cannot be written.
        """
        write_file(self._files(), amendment_path(amendment.commit_id), amendments.encode(amendment))


def amendment_path(commit_id: int) -> str:
    """Return the path of an amendment file in the table's folder."""
    return f"{AMENDMENTS_FOLDER}/{commit_id}.json"
