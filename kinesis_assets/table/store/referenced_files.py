"""Files of a table that its log refers to: positions, amendments and the records of derived tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

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
