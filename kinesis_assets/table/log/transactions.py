"""Finds the transaction entries of a table's log with few requests."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.table.log.log_entries import read_entry
from kinesis_assets.table.opening import delta_errors

if TYPE_CHECKING:
    import pyarrow.fs
    from deltalake import DeltaTable


class Transactions:
    """The transactions of one version of a table.

    delta-rs reads the log again for each transaction. Most commits set the one that is wanted, so the newest
    log entry is read first, and each transaction is looked up once.

    Args:
        uri: The table's path or URI, for errors.
        delta: The version, opened by delta-rs.
        filesystem: The table's folder.
    """

    def __init__(self, uri: str, delta: DeltaTable, filesystem: pyarrow.fs.FileSystem) -> None:
        self._uri = uri
        self._delta = delta
        self._filesystem = filesystem
        self._newest: dict[str, int] | None = None
        self._found: dict[str, int | None] = {}

    def commit_id_of(self, application: str) -> int | None:
        """Return the commit id of an application: the version of its newest transaction, if there is one.

        Raises:
            TableUnreachable: The log cannot be read at present.
        """
        if self._newest is None:
            self._newest = {}
            with suppress(OSError, msgspec.MsgspecError):  # delta-rs reads it, or raises
                entry = read_entry(self._filesystem, self._delta.version())
                self._newest = {} if entry is None else dict(entry.transactions)
        if application in self._newest:
            return self._newest[application]
        if application not in self._found:
            with delta_errors(self._uri, "opened"):
                self._found[application] = self._delta.transaction_version(application)
        return self._found[application]
