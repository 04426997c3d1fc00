"""Reads the files of a table's log: the entries of versions, and checkpoints, which repeat older entries."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec
import pyarrow.fs
import pyarrow.parquet as pq

from kinesis_assets.table.log.entries import LogEntry
from kinesis_assets.table.store.storage import is_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_LOG = "_delta_log"

_SEARCHED_ENTRIES = 100
"""Maximum number of log entries that are searched for a commit."""


def later_version_of(filesystem: pyarrow.fs.FileSystem, version: int, commit_id: int) -> int | None:
    """Return the first version after another one whose log entry points at a commit id, if any.

    Args:
        version: The version before the first that is searched.
        commit_id: A commit id, which is unique among positions and amendments.
    """
    for later in range(version + 1, version + 1 + _SEARCHED_ENTRIES):
        try:
            entry = read_entry(filesystem, later)
        except OSError:  # it cannot be read at the moment
            return None
        if entry is None:
            return None
        if commit_id in entry.transactions.values():
            return later
    return None


def has_later_version(files: pyarrow.fs.FileSystem, version: int) -> bool:
    """Return whether a table's log has the version after another one; False if that cannot be read.

    Args:
        files: The table's folder.
        version: The number of the other version.
    """
    try:
        return bool(files.get_file_info(f"{_LOG}/{version + 1:020}.json").is_file)
    except OSError:
        return False


def newest_version_of(filesystem: pyarrow.fs.FileSystem, version: int, commit_id: int) -> int | None:
    """Return the newest version up to another one whose log entry points at a commit id, if any.

    Args:
        version: The first version that is searched.
        commit_id: A commit id of positions or of an amendment.
    """
    with suppress(OSError, msgspec.MsgspecError):  # the version is only reported
        for entry in islice(log_entries(filesystem, version), _SEARCHED_ENTRIES):
            if commit_id in entry.transactions.values():
                return entry.version
    return None


def named_files(filesystem: pyarrow.fs.FileSystem) -> set[str]:
    """Return the paths of data files that any version in the log adds or removes, relative to the folder."""
    found: set[str] = set()
    paths = [info.path for info in log_files(filesystem)]
    commits = [path for path in paths if path.endswith(".json") and ".checkpoint." not in path]
    # A commit that is deleted before it is read is part of a checkpoint, which is read later.
    for path in commits + [path for path in paths if path.endswith(".parquet")]:
        try:
            found.update(map(unquote, _values_in(filesystem, path, ("add", "path"), ("remove", "path"))))
        except FileNotFoundError:
            continue
    return found


def log_files(filesystem: pyarrow.fs.FileSystem) -> list[pyarrow.fs.FileInfo]:
    """Return the files of the log, in the order of their names.

    Raises:
        OSError: The log cannot be read at the moment.
    """
    infos = filesystem.get_file_info(pyarrow.fs.FileSelector(_LOG))
    files = (info for info in infos if info.type == pyarrow.fs.FileType.File)
    return sorted(files, key=lambda info: info.path)


def _values_in(filesystem: pyarrow.fs.FileSystem, path: str, *columns: tuple[str, str]) -> Iterator[str]:
    """Yield texts from a file of the log: an entry, or a checkpoint in JSON or Parquet.

    Args:
        columns: The actions that have the texts, each with the name of its field.
    """
    with filesystem.open_input_file(path) as source:
        if path.endswith(".parquet"):
            for batch in pq.ParquetFile(source).iter_batches(columns=list(map(".".join, columns))):
                for row in batch.to_pylist():
                    found = ((row.get(action) or {}).get(field) for action, field in columns)
                    yield from (value for value in found if value is not None)
            return
        content = source.read()
    for row in _actions(content):
        found = (getattr(getattr(row, action), field, None) for action, field in columns)
        yield from (value for value in found if value is not None)


_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)")


class _File(msgspec.Struct):
    path: str | None = None
    dataChange: bool = True  # noqa: N815  # the protocol's name


class _Transaction(msgspec.Struct):
    appId: str  # noqa: N815  # likewise
    version: int


class _Action(msgspec.Struct):
    # Writers may store any JSON here (https://github.com/delta-io/delta/blob/master/PROTOCOL.md).
    commitInfo: object = None  # noqa: N815  # likewise
    add: _File | None = None
    remove: _File | None = None
    txn: _Transaction | None = None
    metaData: object = None  # noqa: N815  # likewise
    protocol: object = None


def read_entry(filesystem: pyarrow.fs.FileSystem, version: int) -> LogEntry | None:
    """Read the log entry of a version. Returns None if it was deleted because a checkpoint covers it.

    Raises:
        OSError: The entry cannot be read at the moment.
        msgspec.MsgspecError: The file is not a log entry.
    """
    path = f"{_LOG}/{version:020}.json"
    try:
        with filesystem.open_input_file(path) as source:
            content = source.read()
    except FileNotFoundError:
        if not is_missing(filesystem, path):
            raise
        return None
    actions = _actions(content)
    info = next((found for action in actions if isinstance(found := action.commitInfo, dict)), {})
    parameters = info.get("operationParameters")
    return LogEntry(
        version=version,
        operation=str(info.get("operation") or ""),
        mode=str(parameters.get("mode") or "") if isinstance(parameters, dict) else "",
        at=_time(info.get("timestamp")),
        transactions=_transactions(actions),
        changes_rows=any(
            file is not None and file.dataChange for action in actions for file in (action.add, action.remove)
        ),
        changes_table=any(action.metaData is not None or action.protocol is not None for action in actions),
    )


def log_entries(filesystem: pyarrow.fs.FileSystem, through: int) -> Iterator[LogEntry]:
    """Yield log entries from a version back to the oldest one in the log. Raises as `read_entry`.

    Args:
        through: The newest version, inclusive.
    """
    for version in range(through, -1, -1):
        entry = read_entry(filesystem, version)
        if entry is None:
            return
        yield entry


def applications(filesystem: pyarrow.fs.FileSystem) -> frozenset[str]:
    """Return the application ids of all transactions in the newest checkpoint and in later entries.

    The log's files are read, because delta-rs looks up a single application id only.

    Raises:
        OSError: The log cannot be read at the moment.
        msgspec.MsgspecError: A file in it is not a log file.
    """
    names = [info.base_name for info in log_files(filesystem)]
    newest, checkpoint = _newest_checkpoint(names)
    later = [name for name in names if (commit := _COMMIT.fullmatch(name)) and int(commit[1]) > newest]
    return frozenset(
        application
        for name in checkpoint + later
        for application in _values_in(filesystem, f"{_LOG}/{name}", ("txn", "appId"))
    )


def _newest_checkpoint(names: Iterable[str]) -> tuple[int, list[str]]:
    """Return the version of the newest complete checkpoint and its files; -1 and no files without one."""
    parts: dict[tuple[int, int], list[str]] = {}
    for name in names:
        found = _CHECKPOINT.fullmatch(name)
        if found is not None:
            parts.setdefault((int(found[1]), int(found[3] or 1)), []).append(name)
    complete = [(version, files) for (version, count), files in parts.items() if len(files) >= count]
    return max(complete, default=(-1, []))


def _time(milliseconds: object) -> datetime | None:
    """Return a stored time in milliseconds since the epoch; None if the value is not a time."""
    if not isinstance(milliseconds, int | float):
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _actions(content: bytes) -> list[_Action]:
    return [msgspec.json.decode(line, type=_Action) for line in content.splitlines() if line.strip()]


def _transactions(actions: Iterable[_Action]) -> dict[str, int]:
    return {action.txn.appId: action.txn.version for action in actions if action.txn is not None}
