"""Reads the files of a table's log: the entries of versions, and checkpoints, which repeat older entries.

Finds restores and overwrites in it: versions that replace a table's rows but not its positions. A RESTORE
reverts files but not transactions, so the positions are ahead of the rows afterwards. Each positions file
names the version that its commit was based on. The log was examined up to that version, and the next run
examines the later entries. If a RESTORE lands between that version and the commit, Delta refuses the commit,
because the RESTORE changes the metadata.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec
import pyarrow.fs
import pyarrow.parquet as pq

from kinesis_assets.errors import TableUnreachable
from kinesis_assets.table.ownership import DERIVED, application
from kinesis_assets.table.store.storage import DAMAGED, is_missing
from kinesis_assets.table.stored_table import LogEntry, Rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kinesis_assets.table.positions.positions import StreamPositions

_LOG = "_delta_log"

_MOST_ENTRIES = 100
"""Maximum number of log entries that are read to find the version of a commit."""


def later_version_of(filesystem: pyarrow.fs.FileSystem, version: int, commit_id: int) -> int | None:
    """Return the first version after another one whose log entry points at a commit id, if any.

    Commit ids are unique among positions and amendments.
    """
    for later in range(version + 1, version + 1 + _MOST_ENTRIES):
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
    """Return whether a table's log has the version after another one; False if that cannot be read."""
    try:
        return bool(files.get_file_info(f"{_LOG}/{version + 1:020}.json").is_file)
    except OSError:
        return False


def newest_version_of(filesystem: pyarrow.fs.FileSystem, version: int, commit_id: int) -> int | None:
    """Return the newest version up to another one whose log entry points at a commit id, if any."""
    with suppress(OSError, *DAMAGED):  # the version is only reported
        for earlier in range(version, max(-1, version - _MOST_ENTRIES), -1):
            entry = read_entry(filesystem, earlier)
            if entry is None:
                return None
            if commit_id in entry.transactions.values():
                return earlier
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
        msgspec.MsgspecError, UnicodeDecodeError: The file is not a log entry.
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
        transactions={action.txn.appId: action.txn.version for action in actions if action.txn is not None},
        changes_rows=any(
            file is not None and file.dataChange for action in actions for file in (action.add, action.remove)
        ),
        changes_table=any(action.metaData is not None or action.protocol is not None for action in actions),
    )


def applications(filesystem: pyarrow.fs.FileSystem) -> frozenset[str]:
    """Return the application ids of all transactions in the newest checkpoint and in later entries.

    The log's files are read, because delta-rs looks up a single application id only.

    Raises:
        OSError: The log cannot be read at the moment.
        msgspec.MsgspecError, UnicodeDecodeError: A file in it is not a log file.
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


_REPLACING = re.compile(r"RESTORE|CLONE|(CREATE OR )?REPLACE TABLE.*", re.IGNORECASE)


class RewriteLog:
    """Finds rewrites in a table's log, up to a version, inclusive.

    Its methods raise `TableUnreachable` if the log cannot be read.
    """

    def __init__(self, uri: str, filesystem: pyarrow.fs.FileSystem) -> None:
        self._uri = uri
        self._filesystem = filesystem
        self._read: dict[int, LogEntry] = {}

    def since(self, positions: StreamPositions, through: int) -> list[Rewrite]:
        """Return the rewrites after the version that positions were based on, newest first.

        Entries that the log's retention has deleted are not examined. Positions in an older format do not
        name a version: for them the log is read back to the entry that points at them.
        """
        first = 0 if positions.examined is None else positions.examined + 1
        name = application(positions.arn)
        found: list[Rewrite] = []
        for entry in self.entries_back(first, through):
            if positions.examined is None and entry.transactions.get(name) == positions.commit_id:
                break
            found += rewrites_of(entry)
        return found

    def deleted_since(self, positions: StreamPositions, through: int) -> int | None:
        """Return the newest version whose log entry was deleted after positions were committed.

        It is None if there is none, or if the positions have an older format.
        """
        if positions.examined is None:
            return None
        newest = through - sum(1 for _ in self.entries_back(positions.examined + 1, through))
        return newest if newest > positions.examined else None

    def between(self, base: int, through: int) -> list[Rewrite] | None:
        """Return the rewrites after one version and up to another; None if an entry of these was deleted."""
        entries = list(self.entries_back(base + 1, through))
        if len(entries) < through - base:
            return None
        return [rewrite for entry in entries for rewrite in rewrites_of(entry)]

    def are_compactions(self, base: int, through: int) -> bool:
        """Return whether the versions after one and up to another only moved rows from files to others."""
        entries = list(self.entries_back(base + 1, through))
        return len(entries) == through - base and not any(
            entry.changes_rows or entry.changes_table for entry in entries
        )

    def entries_back(self, first: int, through: int) -> Iterator[LogEntry]:
        """Yield log entries from the newest back to the first, both inclusive, or to one that was deleted."""
        # Versions never change, so a commit does not read again what its plan has read.
        read = self._read
        self._read = {}
        for version in range(through, first - 1, -1):
            entry = read.get(version) or self._entry(version)
            if entry is None:
                return
            self._read[version] = entry
            yield entry

    def _entry(self, version: int) -> LogEntry | None:
        try:
            return read_entry(self._filesystem, version)
        except (OSError, *DAMAGED) as error:
            raise TableUnreachable(
                self._uri, f"version {version} of its log cannot be read: {error}"
            ) from None


def rewrites_of(entry: LogEntry) -> list[Rewrite]:
    """Return the rewrite that a log entry records, or nothing if it records another operation.

    An overwrite that moves the position of a derived table is a commit of this package.
    """
    overwrites = entry.mode.lower() == "overwrite" and DERIVED not in entry.transactions
    if not entry.changes_rows or not (overwrites or _REPLACING.fullmatch(entry.operation)):
        return []
    operation = f"{entry.operation}, mode Overwrite" if overwrites else entry.operation
    return [Rewrite(entry.version, operation, entry.at)]
