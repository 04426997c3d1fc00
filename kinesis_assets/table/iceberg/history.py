"""The versions of an Iceberg table, as its metadata shows them: commits, rollbacks and overwrites."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from pyiceberg.table.metadata import TableMetadataV1
from pyiceberg.table.snapshots import (
    ADDED_DATA_FILES,
    ADDED_RECORDS,
    DELETED_DATA_FILES,
    DELETED_RECORDS,
    TOTAL_DATA_FILES,
    Operation,
    Snapshot,
    ancestors_of,
)

from kinesis_assets.table.ownership import is_application
from kinesis_assets.table.stored_table import LogEntry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table.metadata import TableMetadata


class State(NamedTuple):
    """A change of the table's newest snapshot: a rollback if that does not follow the one before."""

    version: int
    snapshot: Snapshot
    at: datetime
    is_rollback: bool


def states(metadata: TableMetadata) -> list[State]:
    """Return the changes of a table's newest snapshot that its metadata still shows, oldest first."""
    found: list[State] = []
    for entry in metadata.snapshot_log:
        snapshot = metadata.snapshot_by_id(entry.snapshot_id)
        if snapshot is None:  # it is expired
            continue
        before = found[-1] if found else None
        newest = 0 if before is None else before.version
        is_rollback = before is not None and not _follows(snapshot, before.snapshot, metadata)
        version = max(number_of(snapshot), newest + 1)
        found.append(
            State(version, snapshot, datetime.fromtimestamp(entry.timestamp_ms / 1000, UTC), is_rollback)
        )
    return found


def _follows(snapshot: Snapshot, before: Snapshot, metadata: TableMetadata) -> bool:
    """Return whether a snapshot is based on another one, as far as that can be known."""
    for each in ancestors_of(snapshot, metadata):
        if number_of(each) <= number_of(before):
            return each.snapshot_id == before.snapshot_id and snapshot.snapshot_id != before.snapshot_id
    return True  # those between are expired


def last_number(metadata: TableMetadata) -> int:
    """Return the sequence number of the last snapshot that was ever committed; 0 before the first."""
    return 0 if isinstance(metadata, TableMetadataV1) else metadata.last_sequence_number


def number_of(snapshot: Snapshot) -> int:
    """Return the sequence number of a snapshot."""
    return snapshot.sequence_number or 0


def time_of(snapshot: Snapshot) -> datetime:
    """Return when a snapshot was committed, by the clock of its writer."""
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)


def _summary_of(snapshot: Snapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def entry_of(snapshot: Snapshot) -> LogEntry:
    """Return what a snapshot says about its version."""
    operation = "" if snapshot.summary is None else snapshot.summary.operation.value
    pointers = {name: int(value) for name, value in _summary_of(snapshot).items() if is_application(name)}
    return LogEntry(
        version=number_of(snapshot),
        operation=operation,
        mode="",
        at=time_of(snapshot),
        transactions=pointers,
        changes_rows=operation != Operation.REPLACE.value,
        changes_table=False,
    )


def replaced_all(snapshot: Snapshot, before: Snapshot | None) -> bool:
    """Return whether a commit of another program overwrote the table, and left none of its files.

    An overwrite of pyiceberg makes two snapshots: one that deletes all files, and one that appends others.

    Args:
        before: The snapshot on which it is based; None if there is none, or if it is expired.
    """
    summary = _summary_of(snapshot)
    if snapshot.summary is None or any(map(is_application, summary)):
        return False
    if snapshot.summary.operation is Operation.APPEND:
        return before is not None and _deleted_all(before)
    if snapshot.summary.operation is not Operation.OVERWRITE or not _count(summary, DELETED_DATA_FILES):
        return False
    if summary.get("replace-partitions") == "true":
        return True
    # A deletion, which is no overwrite, writes the other rows of its files again.
    is_deletion = _count(summary, ADDED_RECORDS) < _count(summary, DELETED_RECORDS)
    return not is_deletion and _count(summary, TOTAL_DATA_FILES) == _count(summary, ADDED_DATA_FILES)


def _deleted_all(snapshot: Snapshot) -> bool:
    """Return whether a commit of another program deleted files and left none."""
    summary = _summary_of(snapshot)
    is_foreign = not any(map(is_application, summary))
    is_deletion = snapshot.summary is not None and snapshot.summary.operation is Operation.DELETE
    return (
        is_foreign
        and is_deletion
        and bool(_count(summary, DELETED_DATA_FILES))
        and summary.get(TOTAL_DATA_FILES) == "0"
    )


def _count(summary: Mapping[str, str], name: str) -> int:
    return int(summary.get(name, 0))
