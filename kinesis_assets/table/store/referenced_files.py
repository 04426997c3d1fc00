"""Files of a table that its log refers to, such as positions and amendments, with a cache of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kinesis_assets.errors import PositionsUnreadable, TableUnreachable
from kinesis_assets.table.store.storage import is_missing, write_new

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow.fs


RESTORE_ORIGINAL = "Restore the original file; no other file can replace it"

_Decoded = TypeVar("_Decoded")


def write_file(files: pyarrow.fs.FileSystem, path: str, content: bytes) -> None:
    """Write a file to which the table's log or a positions file will refer.

    Raises:
        OSError: It cannot be written.
    """
    with write_new(files, path) as sink:
        sink.write(content)


def read_file(
    table: str,
    files: pyarrow.fs.FileSystem,
    path: str,
    size: int | None = None,
    *,
    way_out: str = RESTORE_ORIGINAL,
) -> bytes:
    """Read a file to which the table's log or a positions file refers.

    Args:
        table: The table's URI, for errors.
        files: The table's folder.
        path: Path in it.
        size: Number of leading bytes to read; None for all.
        way_out: What to do if the file is missing.

    Raises:
        PositionsUnreadable: The file is missing, by two requests.
        TableUnreachable: The file cannot be read at present.
    """
    try:
        try:
            with files.open_input_file(path) as source:
                content: bytes = source.read(size)
        except FileNotFoundError as error:
            if not is_missing(files, path):
                raise
            raise PositionsUnreadable(table, f"the file {path} is missing. {way_out}") from error
    except OSError as error:
        raise TableUnreachable(table, f"{path} cannot be read: {error}") from None
    return content


def decoded(
    table: str,
    path: str,
    decode: Callable[[bytes], _Decoded],
    content: bytes,
    *,
    way_out: str = RESTORE_ORIGINAL,
) -> _Decoded:
    """Decode the content of a file.

    Args:
        table: The table's URI, for errors.
        path: The file's path in the table's folder, likewise.
        decode: Decodes the content.
        content: The content.
        way_out: What to do if it is damaged.

    Raises:
        PositionsUnreadable: The content is damaged, or a newer release wrote it.
    """
    try:
        return decode(content)
    except msgspec.MsgspecError as error:
        raise PositionsUnreadable(
            table,
            f"{path} cannot be decoded: {error}. Upgrade if a newer release wrote it. {way_out}",
        ) from error


MAX_BYTES = 64 << 20
"""Default size of a cache: approximate bytes of memory."""


class FileCache:
    """The decoded content of files that never change. It evicts the least recently used, and is thread-safe.

    Args:
        max_bytes: Maximum bytes of memory.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._files: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> Any:
        """Return the content of a file; None if it is not in the cache."""
        with self._lock:
            found = self._files.get(path)
            if found is None:
                return None
            self._files.move_to_end(path)
            return found[0]

    def put(self, path: str, value: Any, size: int) -> None:
        """Add the content of a file.

        Args:
            path: The file's path.
            value: The decoded content, which must be immutable.
            size: Bytes of memory that it occupies.
        """
        with self._lock:
            self._bytes += size - self._files.pop(path, (None, 0))[1]
            self._files[path] = (value, size)
            while self._bytes > self._max_bytes:
                _, (_, freed) = self._files.popitem(last=False)
                self._bytes -= freed
