"""Which data files a table's log names, and which stand in its folder."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec
import pyarrow.fs
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG = "_delta_log"


class FolderFile(msgspec.Struct, frozen=True):
    """A file that stands in the table's folder.

    Attributes:
        path: Relative to the folder.
        size: Bytes.
        modified: When it was written.
    """

    path: str
    size: int
    modified: datetime


class _File(msgspec.Struct):
    path: str | None = None


class _Transaction(msgspec.Struct):
    version: int


class _Action(msgspec.Struct):
    add: _File | None = None
    remove: _File | None = None
    txn: _Transaction | None = None


def points_at(entry: bytes, token: int) -> bool:
    """Whether an entry of the log points at the positions, or the past, of a token.

    Args:
        entry: The whole file of one version.
        token: As it was drawn; no two are the same.

    Raises:
        msgspec.MsgspecError: It is no entry of a log.
    """
    actions = (msgspec.json.decode(line, type=_Action) for line in entry.splitlines() if line.strip())
    return any(action.txn is not None and action.txn.version == token for action in actions)


def named_files(filesystem: pyarrow.fs.FileSystem) -> set[str]:
    """The data files that any version in the log adds or takes out, relative to the folder.

    Args:
        filesystem: The table's folder.
    """
    found: set[str] = set()
    for path in _log(filesystem):
        try:
            found.update(_named_in(filesystem, path))
        except FileNotFoundError:
            continue  # summed up and deleted meanwhile: a checkpoint has it
    return found


def folder_files(filesystem: pyarrow.fs.FileSystem) -> Iterator[FolderFile]:
    """The data files in the folder, whether the log names them or not."""
    for info in filesystem.get_file_info(pyarrow.fs.FileSelector("", recursive=True)):
        if info.type == pyarrow.fs.FileType.File and not info.path.startswith("_"):
            yield FolderFile(info.path, info.size, info.mtime)


def _log(filesystem: pyarrow.fs.FileSystem) -> list[str]:
    """Checkpoints last: what is deleted while this reads is in one of them."""
    infos = filesystem.get_file_info(pyarrow.fs.FileSelector(_LOG, allow_not_found=True))
    paths = [info.path for info in infos if info.type == pyarrow.fs.FileType.File]
    commits = [path for path in paths if path.endswith(".json") and ".checkpoint." not in path]
    checkpoints = [path for path in paths if path.endswith(".parquet")]
    return [*sorted(commits), *sorted(checkpoints)]


def _named_in(filesystem: pyarrow.fs.FileSystem, path: str) -> Iterator[str]:
    with filesystem.open_input_file(path) as source:
        if path.endswith(".parquet"):
            yield from _named_in_checkpoint(pq.ParquetFile(source))
            return
        content = source.read()
    for line in filter(bytes.strip, content.splitlines()):
        action = msgspec.json.decode(line, type=_Action)
        for file in (action.add, action.remove):
            if file is not None and file.path is not None:
                yield unquote(file.path)


def _named_in_checkpoint(parquet: pq.ParquetFile) -> Iterator[str]:
    for batch in parquet.iter_batches(columns=["add.path", "remove.path"]):
        for column in batch.columns:
            for file in column.to_pylist():
                if file is not None and file["path"] is not None:
                    yield unquote(file["path"])
