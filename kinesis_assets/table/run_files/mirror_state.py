"""The state of a mirror of a table outside of it: a file in the table's folder, written after each attempt.

A mirror is never the truth, and no commit depends on it. There are two: the lease table that has the
positions of a raw table, and the entry of a table in the AWS Glue Data Catalog. Their files say what the
mirror has, as far as known, so that nobody has to read the mirror itself to know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeVar

import msgspec

from kinesis_assets.retry import Backoff
from kinesis_assets.table.store.storage import replace_file

if TYPE_CHECKING:
    import pyarrow.fs

    from kinesis_assets.table.stored_table import StoredTable
    from kinesis_assets.table.table import PositionedTable

MIRROR_FILE = "_kinesis/mirror.json"
CATALOG_FILE = "_kinesis/catalog.json"
"""The paths of the files in a table's folder."""

_MAX_ERROR = 2000
_MAX_BYTES = 1 << 16


class Attempts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the last attempts to write a mirror have achieved.

    Attributes:
        failed: How many attempts have failed since one succeeded.
        error: Why the last attempt failed; None if it succeeded.
        failing_since: When the first of the failed attempts began, in seconds since the epoch.
    """

    failed: int = 0
    error: str | None = None
    failing_since: float | None = None

    def after_failure(self, error: str, began: float) -> Self:
        """Return the state after an attempt that has failed.

        Args:
            began: When the attempt began, in seconds since the epoch.
        """
        return msgspec.structs.replace(
            self,
            failed=self.failed + 1,
            error=error[:_MAX_ERROR],
            failing_since=began if self.failing_since is None else self.failing_since,
        )


_State = TypeVar("_State", bound=Attempts)


class MirrorState(Attempts, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the mirror of a table's positions.

    Attributes:
        lease_table: Name or ARN of the lease table.
        commit_id: The newest commit whose positions it has; None before the first.
    """

    lease_table: str
    commit_id: int | None = None

    def has(self, commit_id: int) -> bool:
        """Return whether the lease table has the positions of a commit, or of a later one."""
        return self.commit_id is not None and self.commit_id >= commit_id

    def after_success(self, commit_id: int) -> MirrorState:
        """Return the state after an attempt that has written the positions of a commit."""
        newest = max(commit_id, self.commit_id or 0)  # the mirror of another run may be ahead
        return MirrorState(lease_table=self.lease_table, commit_id=newest)


_RETRIES = Backoff(30.0, 600.0)
"""The waits after failed registrations: the next tick of the sensor tries again, and then fewer do."""

_COMPARED_EVERY = 600.0
"""Seconds after which an entry is compared with the table again, because somebody may have changed it."""


class CatalogState(Attempts, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a table's entry in the Data Catalog.

    Attributes:
        entry: The database and the name of the entry.
        content: What the entry has, see `Entry.content`; None before the first registration.
        at: When the last attempt began, in seconds since the epoch; None before the first.
    """

    entry: str
    content: str | None = None
    at: float | None = None

    def is_due(self, content: str | None, now: float) -> bool:
        """Return whether the entry is to be compared with the table now.

        Args:
            content: What the entry should have; None if it cannot have it.
        """
        if self.at is None:
            return True
        if not self.failed and self.content != content:
            return True
        wait = _RETRIES.wait(self.failed) if self.failed else _COMPARED_EVERY
        return not 0 <= now - self.at < wait

    def registered_at(self, now: float, content: str) -> CatalogState:
        """Return the state after an attempt after which the entry has what it should have."""
        return CatalogState(entry=self.entry, content=content, at=now)

    def failed_at(self, now: float, error: Exception) -> CatalogState:
        """Return the state after an attempt that has failed."""
        return msgspec.structs.replace(self.after_failure(str(error), now), at=now)


def read_mirror_state(table: PositionedTable, lease_table: str) -> MirrorState:
    """Return the state of a mirror. A file that is damaged, or of another lease table, counts as none.

    Raises:
        OSError: The file cannot be read.
    """
    state = _read(table.files, MIRROR_FILE, MirrorState)
    if state is None or state.lease_table != lease_table:
        return MirrorState(lease_table=lease_table)
    return state


def write_mirror_state(table: PositionedTable, state: MirrorState) -> None:
    """Replace the state of a mirror.

    Raises:
        OSError: The file cannot be written.
    """
    replace_file(table.files, MIRROR_FILE, msgspec.json.encode(state))


def read_catalog_state(table: StoredTable, entry: str) -> CatalogState:
    """Return the state of an entry. A file that is damaged, or of another entry, counts as none.

    Raises:
        OSError: The file cannot be read.
    """
    state = _read(table.files, CATALOG_FILE, CatalogState)
    return CatalogState(entry=entry) if state is None or state.entry != entry else state


def write_catalog_state(table: StoredTable, state: CatalogState) -> None:
    """Replace the state of an entry.

    Raises:
        OSError: The file cannot be written.
    """
    replace_file(table.files, CATALOG_FILE, msgspec.json.encode(state))


def _read(files: pyarrow.fs.FileSystem, path: str, kind: type[_State]) -> _State | None:
    """Return the state in a file; None if there is none, or if it is damaged. Raises `OSError`."""
    try:
        with files.open_input_file(path) as source:
            return msgspec.json.decode(source.read(_MAX_BYTES), type=kind)
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
