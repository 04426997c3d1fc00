"""Deletes records of commits, the files that they name, and heartbeats that nothing can need any more.

A consumer of the table reads the records from the newest one back to the one at its position, a roll-up also
the files with the rows that these commits replaced, and a table of errors those with the records that they
set apart. Records are kept as long as positions of a raw
table. A consumer that is further behind misses one of them, and fails with `SourceCommitsMissing`.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from kinesis_assets.derive.data_files import CHANGES_FOLDER, ERRORS_FOLDER
from kinesis_assets.derive.records import RECORDS_FOLDER, record_path
from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.commits.commit import MAX_ATTEMPT_AGE
from kinesis_assets.table.maintenance.pruning import (
    CHAIN_NEEDED,
    expired_files,
    files_by_id,
    prune_folder,
    superseded,
)
from kinesis_assets.table.run_files.heartbeat import HEARTBEATS_FOLDER
from kinesis_assets.table.store.storage import files_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from kinesis_assets.derive.derived_table import DerivedTable
    from kinesis_assets.derive.records import RecordFiles
    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.maintenance.steps import MaintenanceLimits, Step

_BATCH = re.compile(r"part-(\d+)-")
"""The batch id in the name of a data file."""

_OLDER = 2 * MAX_ATTEMPT_AGE
"""How much older than a commit its files can be: the age of its attempt, and the time of its last checks."""


def prune(
    table: DerivedTable, clock: AgreedClock, limits: MaintenanceLimits, *, dry_run: bool
) -> Iterator[Step]:
    """Delete old heartbeats and records, and then the files that only these records name.

    Args:
        table: The table.
        clock: The clock that is checked before each folder.
        limits: From how many records on they are deleted early.
        dry_run: Change nothing.

    Yields:
        A step for each folder with such files.

    Raises:
        ClocksDisagree: The clocks differ.
        PositionsUnreadable: The record that the log points at is missing or damaged; nothing was deleted.
    """
    newest = table.snapshot().newest
    expired = expired_files(table.files, HEARTBEATS_FOLDER, clock.now())
    yield from prune_folder(table.files, HEARTBEATS_FOLDER, expired, dry_run=dry_run)
    if newest is None:
        return
    now = clock.now()
    records = files_by_id(table.files, RECORDS_FOLDER)
    _, old = superseded(records, newest.commit_id, partial(_previous_of, table.records), limits, now)
    # The oldest is deleted first, so that the rest of the chain stays readable if this is interrupted.
    yield from prune_folder(table.files, RECORDS_FOLDER, map(record_path, old), dry_run=dry_run)
    kept = min({newest.commit_id, *records} - {*old})
    for folder in (CHANGES_FOLDER, ERRORS_FOLDER):
        unnamed = _written_before(table, folder, kept, clock.now())
        yield from prune_folder(table.files, folder, unnamed, dry_run=dry_run)


def _previous_of(records: RecordFiles, commit_id: int) -> int | None:
    try:
        return records.at(commit_id).previous
    except PositionsUnreadable:  # the process that wrote it was killed
        return None


def _written_before(table: DerivedTable, folder: str, commit_id: int, now: datetime) -> Iterator[str]:
    """Yield the files of a folder that are too old to be named by a commit or a later one."""
    before = time_of_id(commit_id) - _OLDER.total_seconds()
    for info in files_in(table.files, folder):
        found = _BATCH.match(info.base_name)
        if found and time_of_id(int(found[1])) < before and info.mtime < now - CHAIN_NEEDED - _OLDER:
            yield info.path
