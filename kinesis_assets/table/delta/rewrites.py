"""Finds restores and overwrites: versions that replace a table's rows but not its positions.

A RESTORE reverts files but not transactions, so the positions are ahead of the rows afterwards. Each
positions file names the version that its commit was based on. The log was examined up to that version, and
the next run examines the later entries. If a RESTORE lands between that version and the commit, Delta refuses
the commit, because the RESTORE changes the metadata.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import TableUnreachable
from kinesis_assets.table.delta.log import read_entry
from kinesis_assets.table.log.entries import Rewrite
from kinesis_assets.table.ownership import DERIVED, application

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.fs

    from kinesis_assets.table.log.entries import LogEntry
    from kinesis_assets.table.positions.positions import StreamPositions

_REPLACING = re.compile(r"RESTORE|CLONE|(CREATE OR )?REPLACE TABLE.*", re.IGNORECASE)
_OVERWRITE = "overwrite"


class RewriteLog:
    """Finds rewrites in a table's log."""

    def __init__(self, uri: str, filesystem: pyarrow.fs.FileSystem) -> None:
        self._uri = uri
        self._filesystem = filesystem
        self._read: dict[int, LogEntry] = {}

    def since(self, positions: StreamPositions, through: int) -> list[Rewrite]:
        """Return the rewrites after the version that positions were based on, newest first.

        Entries that the log's retention has deleted are not examined. Positions in an older format do not
        name a version: for them the log is read back to the entry that points at them.

        Args:
            positions: From the table at version `through`.
            through: The last version that is examined.

        Raises:
            TableUnreachable: The log cannot be read.
        """
        first = 0 if positions.examined is None else positions.examined + 1
        name = application(positions.identity)
        found: list[Rewrite] = []
        for entry in self.entries_back(first, through):
            if positions.examined is None and entry.transactions.get(name) == positions.commit_id:
                break
            found += rewrites_of(entry)
        return found

    def deleted_since(self, positions: StreamPositions, through: int) -> int | None:
        """Return the newest version whose log entry was deleted after positions were committed.

        Args:
            positions: From the table at version `through`.
            through: The last version that is examined.

        Returns:
            None if there is none, or if the positions have an older format.

        Raises:
            TableUnreachable: The log cannot be read.
        """
        if positions.examined is None:
            return None
        newest = through - sum(1 for _ in self.entries_back(positions.examined + 1, through))
        return newest if newest > positions.examined else None

    def between(self, base: int, through: int) -> list[Rewrite] | None:
        """Return the rewrites after one version and up to another; None if a log entry of these was deleted.

        Raises:
            TableUnreachable: The log cannot be read.
        """
        entries = list(self.entries_back(base + 1, through))
        if len(entries) < through - base:
            return None
        return [rewrite for entry in entries for rewrite in rewrites_of(entry)]

    def are_compactions(self, base: int, through: int) -> bool:
        """Return whether the versions after one and up to another only moved rows from files to others.

        Raises:
            TableUnreachable: The log cannot be read.
        """
        entries = list(self.entries_back(base + 1, through))
        return len(entries) == through - base and not any(
            entry.changes_rows or entry.changes_table for entry in entries
        )

    def entries_back(self, first: int, through: int) -> Iterator[LogEntry]:
        """Yield log entries from the newest back to the first, or to one that was deleted.

        Args:
            first: The oldest version, inclusive.
            through: The newest version, inclusive.

        Raises:
            TableUnreachable: The log cannot be read.
        """
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
        except (OSError, msgspec.MsgspecError) as error:
            raise TableUnreachable(
                self._uri, f"version {version} of its log cannot be read: {error}"
            ) from None


def rewrites_of(entry: LogEntry) -> list[Rewrite]:
    """Return the rewrite that a log entry records, or nothing if it records another operation.

    An overwrite that moves the position of a derived table is a commit of this package.
    """
    overwrites = entry.mode.lower() == _OVERWRITE and DERIVED not in entry.transactions
    if not entry.changes_rows or not (overwrites or _REPLACING.fullmatch(entry.operation)):
        return []
    operation = f"{entry.operation}, mode Overwrite" if overwrites else entry.operation
    return [Rewrite(entry.version, operation, entry.at)]
