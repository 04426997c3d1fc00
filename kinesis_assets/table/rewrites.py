"""Restores and overwrites: versions that replace a table's rows and leave its positions as they are.

Delta sets files back, but no transaction, so after a RESTORE the positions are ahead of the rows. Each
positions file names the version that its commit was based on, up to which the log was examined; who goes on
from it examines what followed. A RESTORE that comes between that version and the commit itself changes the
metadata, so that Delta refuses the commit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import TableUnreachable
from kinesis_assets.table.log_entries import read_entry
from kinesis_assets.table.ownership import application

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import pyarrow.fs

    from kinesis_assets.table.log_entries import LogEntry
    from kinesis_assets.table.positions import StreamPositions

_REPLACING = re.compile(r"RESTORE|CLONE|(CREATE OR )?REPLACE TABLE.*", re.IGNORECASE)
_OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A version that replaced rows of the table.

    Attributes:
        version: Its number.
        operation: What its writer called it.
        at: When it was written (the writer's clock); None if the writer did not say.
    """

    version: int
    operation: str
    at: datetime | None

    def __str__(self) -> str:
        at = "" if self.at is None else f", {self.at:%Y-%m-%dT%H:%M:%SZ}"
        return f"version {self.version} ({self.operation}{at})"


class RewriteLog:
    """Finds rewrites in a table's log.

    Args:
        uri: The table's, for errors.
        filesystem: Its folder.
    """

    def __init__(self, uri: str, filesystem: pyarrow.fs.FileSystem) -> None:
        self._uri = uri
        self._filesystem = filesystem
        self._read: dict[int, LogEntry] = {}

    def since(self, positions: StreamPositions, through: int) -> list[Rewrite]:
        """The rewrites after the version that positions were based on, newest first.

        Entries that the log's retention has deleted are not examined. Positions of an older format do not
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
        for entry in self._back(first, through):
            if positions.examined is None and entry.transactions.get(name) == positions.token:
                break
            found += rewrites_of(entry)
        return found

    def deleted_since(self, positions: StreamPositions, through: int) -> int | None:
        """The newest version after those that positions were based on whose entry was deleted from the log.

        Args:
            positions: From the table at version `through`.
            through: The last version that is examined.

        Returns:
            None if there is none, or if the positions are of an older format.

        Raises:
            TableUnreachable: The log cannot be read.
        """
        if positions.examined is None:
            return None
        newest = through - sum(1 for _ in self._back(positions.examined + 1, through))
        return newest if newest > positions.examined else None

    def between(self, base: int, through: int) -> list[Rewrite] | None:
        """The rewrites after one version and up to another; None if an entry of them was deleted.

        Raises:
            TableUnreachable: The log cannot be read.
        """
        entries = list(self._back(base + 1, through))
        if len(entries) < through - base:
            return None
        return [rewrite for entry in entries for rewrite in rewrites_of(entry)]

    def _back(self, first: int, through: int) -> Iterator[LogEntry]:
        """The log's entries from the newest back to the first, or to one that was deleted."""
        # Versions never change: what a plan has read, its commit does not read again.
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
    """The rewrite that a version of the table is, if it is one."""
    overwrites = entry.mode.lower() == _OVERWRITE
    if not entry.changes_rows or not (overwrites or _REPLACING.fullmatch(entry.operation)):
        return []
    operation = f"{entry.operation}, mode Overwrite" if overwrites else entry.operation
    return [Rewrite(entry.version, operation, entry.at)]
