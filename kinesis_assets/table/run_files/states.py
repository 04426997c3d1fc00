"""What runs and ticks record about services beside a table: small files in the table's folder.

They are about a lease table that mirrors the positions, about the entry of a table in the AWS Glue Data
Catalog, and about a consumer. No commit depends on them, and a mirror is never the truth. A file says what
the other side has, as far as known, so that nobody has to read it there, also when no run is in progress.
One that is damaged, or is about another lease table, entry or consumer, counts as none. The functions that
read and write it raise OSError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeVar

import msgspec

from kinesis_assets.retry import Backoff
from kinesis_assets.table.store.storage import DAMAGED, replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow.fs

    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.stored_table import StoredTable

MIRROR_FILE = "_kinesis/mirror.json"
CATALOG_FILE = "_kinesis/catalog.json"
CONSUMER_FILE = "_kinesis/consumer.json"
"""The paths of the files in a table's folder."""

_MAX_REASON = 2000
_MAX_BYTES = 1 << 22


class Attempts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the last attempts to write to a service have achieved.

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
            error=error[:_MAX_REASON],
            failing_since=began if self.failing_since is None else self.failing_since,
        )


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


class Fallback(msgspec.Struct, frozen=True):
    """Why a shard is read with GetRecords.

    Attributes:
        since: Since when, in seconds since the epoch.
        reason: The last known reason.
    """

    since: float
    reason: str


class ConsumerState(msgspec.Struct, frozen=True):
    """The shards that runs read with GetRecords although the stream has a consumer.

    Attributes:
        consumer: The name or ARN of the consumer.
        shards: Why, by shard id.
    """

    consumer: str
    shards: dict[str, Fallback]

    def after(self, reasons: Mapping[str, str | None], now: float) -> ConsumerState:
        """Return the state after some shards were read.

        Args:
            reasons: Why they were read with GetRecords, by shard id; None if they were read by the consumer.
            now: The time, in seconds since the epoch.
        """
        shards = {shard_id: each for shard_id, each in self.shards.items() if shard_id not in reasons}
        for shard_id, reason in reasons.items():
            if reason is not None:
                before = self.shards.get(shard_id)
                since = now if before is None else before.since
                shards[shard_id] = Fallback(since, reason[:_MAX_REASON])
        return ConsumerState(self.consumer, shards)


def read_mirror_state(table: PositionedTable, lease_table: str) -> MirrorState:
    """Return the state of the mirror in a lease table."""
    found = _read(table.files, MIRROR_FILE, MirrorState)
    if found is None or found.lease_table != lease_table:
        return MirrorState(lease_table=lease_table)
    return found


def write_mirror_state(table: PositionedTable, state: MirrorState) -> None:
    """Replace the state of the mirror."""
    replace_file(table.files, MIRROR_FILE, msgspec.json.encode(state))


def read_catalog_state(table: StoredTable, entry: str) -> CatalogState:
    """Return the state of an entry in the Data Catalog."""
    found = _read(table.files, CATALOG_FILE, CatalogState)
    return CatalogState(entry=entry) if found is None or found.entry != entry else found


def write_catalog_state(table: StoredTable, state: CatalogState) -> None:
    """Replace the state of the entry."""
    replace_file(table.files, CATALOG_FILE, msgspec.json.encode(state))


def read_consumer_state(table: PositionedTable, consumer: str) -> ConsumerState:
    """Return the state of a consumer."""
    found = _read(table.files, CONSUMER_FILE, ConsumerState)
    return ConsumerState(consumer, {}) if found is None or found.consumer != consumer else found


def write_consumer_state(table: PositionedTable, state: ConsumerState) -> None:
    """Replace the state of the consumer."""
    replace_file(table.files, CONSUMER_FILE, msgspec.json.encode(state))


_State = TypeVar("_State", bound=msgspec.Struct)


def _read(files: pyarrow.fs.FileSystem, path: str, kind: type[_State]) -> _State | None:
    """Return the state in a file; None if there is none, or if it is damaged."""
    try:
        with files.open_input_file(path) as source:
            return msgspec.json.decode(source.read(_MAX_BYTES), type=kind)
    except (FileNotFoundError, NotADirectoryError, *DAMAGED):
        return None
