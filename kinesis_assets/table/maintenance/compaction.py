"""The steps that compact, vacuum and checkpoint a table through delta-rs."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from kinesis_assets.table.data_file import FILE_BYTES
from kinesis_assets.table.maintenance.steps import State, Step, done_or_left, totals
from kinesis_assets.table.storage import files_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date

    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.file_stats import ActiveFile
    from kinesis_assets.table.table import PositionedTable
    from kinesis_assets.table.upkeep import Upkeep

SMALL_BYTES = FILE_BYTES // 4
"""A smaller file is compacted: scanning a file of this size takes longer than opening it."""

SMALL_FILES = 4
"""A day with fewer small files is not compacted, so that a few late files do not rewrite it every night."""

SMALL_FILES_TODAY = 500
"""Likewise for the current day, which is compacted once more after it has ended."""

_COMPACTIONS = 3


def compact(
    table: PositionedTable, upkeep: Upkeep, since: date | None, clock: AgreedClock, *, dry_run: bool
) -> Iterator[Step]:
    """Compact each day that has enough small files.

    Args:
        table: The table.
        upkeep: Its operations.
        since: Days before this arrival date expire, and are not compacted; None if no day expires.
        clock: The clock that is checked before each compaction.
        dry_run: Change nothing.

    Yields:
        A step for each day.

    Raises:
        ClocksDisagree: The clocks differ.
    """
    today = clock.now().date().isoformat()
    for day, small in _due(table.snapshot().active_files(), since, today).items():
        rows, files, size = totals(small)
        step = Step("compact", day, State.PLANNED, 0, files, size)
        if dry_run:
            yield step
            continue
        for _ in range(_COMPACTIONS):
            clock.now()  # each compaction deletes log entries by this machine's clock
            done = done_or_left(step, partial(upkeep.compact, day, size // max(1, rows)))
            if done.state is State.DONE:
                break
        yield done


def _due(files: list[ActiveFile], since: date | None, today: str) -> Mapping[str, list[ActiveFile]]:
    """Return the small files of each day that does not expire and has enough of them, oldest day first."""
    first = "" if since is None else since.isoformat()
    small: defaultdict[str, list[ActiveFile]] = defaultdict(list)
    for file in files:
        if file.size < SMALL_BYTES and first <= file.arrival_date:
            small[file.arrival_date].append(file)
    return {
        day: files
        for day, files in sorted(small.items())
        if len(files) >= (SMALL_FILES if day < today else SMALL_FILES_TODAY)
    }


def vacuum(table: PositionedTable, upkeep: Upkeep, clock: AgreedClock, *, dry_run: bool) -> Iterator[Step]:
    """Delete data files that no recent version of the table names. Raises as `compact`."""
    paths = upkeep.vacuum(dry_run=True)
    if not paths:
        return
    size = sum(info.size or 0 for info in table.files.get_file_info(paths))
    step = Step("vacuum", "data files", State.PLANNED, 0, len(paths), size)
    clock.now()  # delta-rs compares the ages of files with this machine's clock
    yield step if dry_run else done_or_left(step, partial(upkeep.vacuum, dry_run=False))


def checkpoint(table: PositionedTable, upkeep: Upkeep, clock: AgreedClock) -> Iterator[Step]:
    """Write a checkpoint of the log, and delete expired entries. Raises as `compact`."""
    before = files_in(table.files, "_delta_log")
    clock.now()
    upkeep.checkpoint()
    left = {info.path for info in files_in(table.files, "_delta_log")}
    deleted = [info for info in before if info.path not in left]
    yield Step("checkpoint", "_delta_log", State.DONE, 0, len(deleted), sum(info.size for info in deleted))
