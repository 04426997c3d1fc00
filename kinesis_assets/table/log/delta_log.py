"""Finds commits and data files in a table's log, and data files in its folder."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec
import pyarrow.fs
import pyarrow.parquet as pq

from kinesis_assets.table.log.log_entries import log_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG = "_delta_log"

_SEARCHED_ENTRIES = 100
"""Maximum number of log entries that are searched for a commit."""


class FolderFile(msgspec.Struct, frozen=True):
    """A file in the table's folder.

    Attributes:
        path: Path relative to the folder.
        size: Size in bytes.
        modified: When the file was written.
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


def points_at(entry: bytes, commit_id: int) -> bool:
    """Return whether a log entry points at the positions or the amendment with a commit id.

    Args:
        entry: The whole file of one version.
        commit_id: A commit id, which is unique among positions and amendments.

    Raises:
        msgspec.MsgspecError: The file is not a log entry.
    """
    actions = (msgspec.json.decode(line, type=_Action) for line in entry.splitlines() if line.strip())
    return any(action.txn is not None and action.txn.version == commit_id for action in actions)


def later_version_of(filesystem: pyarrow.fs.FileSystem, version: int, commit_id: int) -> int | None:
    """Return the first version after another one whose log entry points at a commit id, if any.

    Args:
        filesystem: The table's folder.
        version: The version before the first that is searched.
        commit_id: A commit id of positions or of an amendment.
    """
    for later in range(version + 1, version + 1 + _SEARCHED_ENTRIES):
        try:
            with filesystem.open_input_file(f"{_LOG}/{later:020}.json") as source:
                content = source.read()
        except OSError:  # it does not exist, or cannot be read at the moment
            return None
        if points_at(content, commit_id):
            return later
    return None


def newest_version_of(filesystem: pyarrow.fs.FileSystem, version: int, commit_id: int) -> int | None:
    """Return the newest version up to another one whose log entry points at a commit id, if any.

    Args:
        filesystem: The table's folder.
        version: The first version that is searched.
        commit_id: A commit id of positions or of an amendment.
    """
    with suppress(OSError, msgspec.MsgspecError):  # the version is only reported
        for entry in islice(log_entries(filesystem, version), _SEARCHED_ENTRIES):
            if commit_id in entry.transactions.values():
                return entry.version
    return None


def named_files(filesystem: pyarrow.fs.FileSystem) -> set[str]:
    """Return the paths of data files that any version in the log adds or removes, relative to the folder.

    Args:
        filesystem: The table's folder.
    """
    found: set[str] = set()
    for path in _log(filesystem):
        try:
            found.update(_named_in(filesystem, path))
        except FileNotFoundError:
            continue  # deleted in the meantime: a checkpoint has its content
    return found


def folder_files(filesystem: pyarrow.fs.FileSystem) -> Iterator[FolderFile]:
    """Yield the data files in the folder, whether or not the log names them."""
    for info in filesystem.get_file_info(pyarrow.fs.FileSelector("", recursive=True)):
        if info.type == pyarrow.fs.FileType.File and not info.path.startswith("_"):
            yield FolderFile(info.path, info.size, info.mtime)


def _log(filesystem: pyarrow.fs.FileSystem) -> list[str]:
    """Return the paths of commits, then of checkpoints, which cover commits that are deleted meanwhile."""
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
