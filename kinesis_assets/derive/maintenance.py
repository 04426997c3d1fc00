"""The maintenance of a derived table: it merges small files, and deletes what nothing can need any more.

Every step is a commit of its own, or deletes files that nothing refers to. A process that dies between two
steps leaves the rest to the next maintenance. Positions do not change, and rows only expire, see
`derive.expiry`. So tables that are derived from this one go on exactly where they were, unless they are
further behind than the entries that are kept: these fail with `SourceCommitsMissing`.

delta-rs accepts a compaction although another commit has replaced the same files since, which doubles rows.
And if every other commit refused a compaction, it would never succeed while a table gets rows every few
seconds. So the files are written first, with the same rows and batch ids. They are then committed through a
version that still has all files that they replace, and only if no other commit came after that version.

A consumer of the table reads the entries from the newest one back to the one at its position, a roll-up also
the files with the rows that these commits replaced, and a table of errors those with the records that they
separated. Entries are kept as long as positions of a raw table. The deletions that an upsert remembers are
those that the newest entry names, see `derive.remembered_deletions`.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from kinesis_assets.derive.commit_entry import ENTRIES_FOLDER, NO_DELETIONS, entry_path
from kinesis_assets.derive.data_files import (
    BATCH_COLUMN,
    CHANGES_FOLDER,
    DELETIONS_FOLDER,
    ERRORS_FOLDER,
    GROWTH_FOLDER,
    DerivedFile,
    statistics_of,
)
from kinesis_assets.derive.derived_table import refuse_rewritten
from kinesis_assets.derive.expiry import expire
from kinesis_assets.derive.remembered_deletions import forget
from kinesis_assets.derive.write import rewritten
from kinesis_assets.errors import CommitFailed, PositionsUnreadable, TableUnreachable, TableUnsuitable
from kinesis_assets.table.clocks import AgreedClock, machine_time
from kinesis_assets.table.commit_ids import new_id, time_of_id
from kinesis_assets.table.commits.commit import MAX_ATTEMPT_AGE, check_files
from kinesis_assets.table.commits.commit_loop import commit_until_known
from kinesis_assets.table.data_file import WITHOUT_PARTITIONS, partition_folder
from kinesis_assets.table.maintenance.pruning import (
    CHAIN_NEEDED,
    expired_files,
    files_by_id,
    prune_folder,
    superseded,
)
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS, SMALL_BYTES, State, Step, compact_each
from kinesis_assets.table.run_files.heartbeat import HEARTBEATS_FOLDER
from kinesis_assets.table.store.storage import files_in, write_new
from kinesis_assets.table.store.suitability import require_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from kinesis_assets.derive.derived_table import CommitEntries, DerivedSnapshot, DerivedTable
    from kinesis_assets.derive.policy import Retention
    from kinesis_assets.table.data_file import TableFile
    from kinesis_assets.table.maintenance.steps import MaintenanceLimits


_MOVED_BYTES = 16 << 30
"""Size of the large files of a partition that are moved in one commit, which must not take hours."""

_COPIED_BYTES = 8 << 20


def compact(
    table: DerivedTable, clock: AgreedClock, limits: MaintenanceLimits, *, dry_run: bool
) -> Iterator[Step]:
    """Compact each partition that has enough small files, or files outside of its folder.

    Yields:
        A step for each partition. It is left if another commit replaced one of its files meanwhile. One step
        is left instead of all, if the table has a feature with which its files cannot be replaced.
    """
    snapshot = table.snapshot()
    due = {
        partition: files
        for partition, files in _replaceable_files(snapshot).items()
        if len(files) >= limits.small_files or not all(file.is_in_folder for file in files)
    }
    try:
        snapshot.refuse_irreplaceable()
    except TableUnsuitable as error:
        if due:
            yield Step("compact", WITHOUT_PARTITIONS, State.LEFT, reason=str(error))
        return
    yield from compact_each(due, partial(compact_partition, table), clock, dry_run=dry_run)


def compact_partition(table: DerivedTable, partition: str) -> None:
    """Merge the small files of a partition, and move large ones to its folder, in one commit.

    Args:
        partition: The partition's name, as in `Step.of`.

    Raises:
        CommitFailed: Another commit replaced one of the files; nothing was changed.
        DataFileInvalid: A file does not have the rows that the log names; nothing was changed.
    """
    snapshot, batch_id = table.snapshot(), new_id(table.clock)
    files = _replaceable_files(snapshot).get(partition, [])
    if len(files) > 1 or not all(file.is_in_folder for file in files):
        small = [file for file in files if file.size < SMALL_BYTES]
        large = [file for file in files if file.size >= SMALL_BYTES]
        new = [*rewritten(snapshot, small, batch_id), *_moved(snapshot, large, batch_id)]
        _replace(table, files, new, batch_id)


def _replaceable_files(snapshot: DerivedSnapshot) -> Mapping[str, list[TableFile]]:
    """Return files by the name of their partition: small ones, and large ones outside of its folder.

    Those with the oldest rows come first. What is too much for one commit is left to the next maintenance.
    """
    found: defaultdict[str, list[TableFile]] = defaultdict(list)
    moved: Counter[str] = Counter()
    for file in snapshot.data_files([BATCH_COLUMN]):
        if file.size >= SMALL_BYTES:
            if file.is_in_folder or moved[file.partition_name] >= _MOVED_BYTES:
                continue
            moved[file.partition_name] += file.size
        found[file.partition_name].append(file)
    return {
        partition: sorted(files, key=lambda file: (file.smallest[BATCH_COLUMN] or 0, file.path))
        for partition, files in sorted(found.items())
    }


def _moved(snapshot: DerivedSnapshot, files: Sequence[TableFile], batch_id: int) -> list[DerivedFile]:
    """Copy files to the folder of their partition, without committing them."""
    table, copies = snapshot.table, []
    schema = snapshot.file_schema
    try:
        for file in files:
            codec = file.path.partition(".")[2]
            path = f"{partition_folder(file.partition)}part-{batch_id}-{uuid4().hex}.{codec}"
            with table.files.open_input_file(file.path) as source, write_new(table.files, path) as copy:
                footer = pq.ParquetFile(source).metadata
                source.seek(0)
                shutil.copyfileobj(source, copy, _COPIED_BYTES)
            statistics = statistics_of(schema, footer)
            copies.append(DerivedFile(path, file.size, footer.num_rows, 0, file.partition_texts, statistics))
    except (OSError, pa.ArrowException) as error:
        raise TableUnreachable(table.uri, f"its files cannot be moved to folders: {error}") from None
    return copies


def _replace(
    table: DerivedTable, old: Sequence[TableFile], new: Sequence[DerivedFile], batch_id: int
) -> None:
    """Commit new files in place of old ones, both or neither."""
    removed, added = {file.path for file in old}, {file.path for file in new}

    def replaced(*, may_commit: bool) -> bool | None:
        if may_commit:  # before the table is opened, so that fewer commits come in between
            check_files(table, batch_id, new)
        snapshot = table.snapshot()
        snapshot.refuse_irreplaceable()
        present = {file.path for file in snapshot.data_files()}
        if added <= present and present.isdisjoint(removed):
            return True
        if not removed <= present:
            raise CommitFailed(
                table.uri,
                "another commit has replaced files that were being compacted. Nothing was changed, run "
                "again later",
            )
        if may_commit:
            snapshot.replace(new, old)
        return None

    commit_until_known(table, replaced)


_BATCH = re.compile(r"part-(\d+)-")

_OLDER = 2 * MAX_ATTEMPT_AGE
"""How much older than a commit its files can be: the age of its attempt, and the time of its last checks."""


def prune(
    table: DerivedTable, clock: AgreedClock, limits: MaintenanceLimits, *, dry_run: bool
) -> Iterator[Step]:
    """Delete old heartbeats, records of copies, commit entries, and the files that only these entries name.

    Args:
        limits: From how many entries on they are deleted early.

    Raises:
        PositionsUnreadable: The entry that the log points at is missing or damaged; nothing was deleted.
    """
    newest = table.snapshot().newest
    for folder in (HEARTBEATS_FOLDER, GROWTH_FOLDER):
        expired = expired_files(table.files, folder, clock.now())
        yield from prune_folder(table.files, folder, expired, dry_run=dry_run)
    if newest is None:
        return
    now = clock.now()
    entries = files_by_id(table.files, ENTRIES_FOLDER)
    _, old = superseded(entries, newest.commit_id, partial(_previous_of, table.entries), limits, now)
    # The oldest is deleted first, so that the rest of the chain stays readable if this is interrupted.
    yield from prune_folder(table.files, ENTRIES_FOLDER, map(entry_path, old), dry_run=dry_run)
    kept = min({newest.commit_id, *entries} - {*old})
    attempt = time_of_id(kept) - _OLDER.total_seconds()
    for folder in (CHANGES_FOLDER, ERRORS_FOLDER):
        unnamed = _written_before(table, folder, attempt, clock.now() - CHAIN_NEEDED - _OLDER)
        yield from prune_folder(table.files, folder, unnamed, dry_run=dry_run)
    unnamed = _unnamed_deletions(table, clock.now() - CHAIN_NEEDED - _OLDER)
    yield from prune_folder(table.files, DELETIONS_FOLDER, unnamed, dry_run=dry_run)


def _previous_of(entries: CommitEntries, commit_id: int) -> int | None:
    try:
        return entries.at(commit_id).previous
    except PositionsUnreadable:  # the process that wrote it was killed
        return None


def _unnamed_deletions(table: DerivedTable, old: datetime) -> Iterator[str]:
    """Yield the files that the newest commit does not name, and that no other attempt can still name."""
    newest = table.snapshot().newest
    known = NO_DELETIONS if newest is None else newest.deletions or NO_DELETIONS
    named = {file.path for file in known.files}
    written = _written_before(table, DELETIONS_FOLDER, old.timestamp(), old)
    return (path for path in written if path not in named)


def _written_before(table: DerivedTable, folder: str, attempt: float, old: datetime) -> Iterator[str]:
    """Yield the files of a folder that are old by the clock of their attempt and by that of the store."""
    for info in files_in(table.files, folder):
        found = _BATCH.match(info.base_name)
        if found and time_of_id(int(found[1])) < attempt and info.mtime < old:
            yield info.path


def maintain(
    table: DerivedTable,
    service_time: datetime,
    *,
    retention: Retention | None = None,
    dry_run: bool = False,
    machine: Callable[[], datetime] = machine_time,
    limits: MaintenanceLimits = DEFAULT_LIMITS,
) -> Iterator[Step]:
    """Carry out, or plan, the steps that are due.

    Args:
        service_time: The time of the service of its stream, as just returned.

    Yields:
        Each step after it is done. A step that is not due is not yielded.

    Raises:
        ClocksDisagree: This machine's clock and the service's differ by more than an hour; nothing more was
            deleted.
        TableMissing: The table does not exist yet.
        TableRewritten: The table was restored or overwritten; nothing was done.
        TableUnsuitable: The table is not a derived table, or has deletion vectors or column mapping; nothing
            was done.
        TableNotWritable: Writing to the table is refused; nothing was done.
        TableError: The table cannot be used; the steps that were yielded are done.
    """
    snapshot = table.snapshot()
    snapshot.refuse_unreadable()  # delta-rs would delete the files of deletion vectors
    # Files that may be needed to undo a restore, and its log entry, must not be deleted.
    refuse_rewritten(snapshot)
    clock = AgreedClock(table.uri, service_time, machine)
    clock.now()
    if not dry_run:
        require_writable(table.uri, table.files)
    yield from table.format.steps_before(clock, dry_run=dry_run)
    if retention is not None:
        yield from expire(table, retention, clock, dry_run=dry_run)
    yield from compact(table, clock, limits, dry_run=dry_run)
    yield from forget(table, clock, limits, dry_run=dry_run)
    yield from table.format.steps_after(clock, dry_run=dry_run)
    yield from prune(table, clock, limits, dry_run=dry_run)
