"""The steps that merge the small files of a day."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from kinesis_assets.table.data_file import FILE_BYTES
from kinesis_assets.table.maintenance.steps import State, Step, done_or_left, totals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date

    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.file_stats import ActiveFile
    from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
    from kinesis_assets.table.maintenance.limits import MaintenanceLimits
    from kinesis_assets.table.table import PositionedTable

SMALL_BYTES = FILE_BYTES // 4
"""A smaller file is compacted: scanning a file of this size takes longer than opening it."""

_COMPACTIONS = 3


def compact(
    table: PositionedTable,
    operations: DeltaOperations,
    since: date | None,
    clock: AgreedClock,
    limits: MaintenanceLimits,
    *,
    dry_run: bool,
) -> Iterator[Step]:
    """Compact each day that has enough small files.

    Args:
        table: The table.
        operations: Its operations of Delta Lake.
        since: Days before this arrival date expire, and are not compacted; None if no day expires.
        clock: The clock that is checked before each compaction.
        limits: How many small files are enough.
        dry_run: Change nothing.

    Yields:
        A step for each day.

    Raises:
        ClocksDisagree: The clocks differ.
    """
    today = clock.now().date().isoformat()
    for day, small in _due(table.snapshot().active_files(), since, today, limits).items():
        rows, files, size = totals(small)
        step = Step("compact", day, State.PLANNED, 0, files, size)
        if dry_run:
            yield step
            continue
        for _ in range(_COMPACTIONS):
            clock.now()  # each compaction deletes log entries by this machine's clock
            done = done_or_left(step, partial(operations.compact, day, size // max(1, rows)))
            if done.state is State.DONE:
                break
        yield done


def _due(
    files: list[ActiveFile], since: date | None, today: str, limits: MaintenanceLimits
) -> Mapping[str, list[ActiveFile]]:
    """Return the small files of each day that does not expire and has enough of them, oldest day first."""
    first = "" if since is None else since.isoformat()
    small: defaultdict[str, list[ActiveFile]] = defaultdict(list)
    for file in files:
        if file.size < SMALL_BYTES and first <= file.arrival_date:
            small[file.arrival_date].append(file)
    return {
        day: files
        for day, files in sorted(small.items())
        if len(files) >= (limits.small_files if day < today else limits.small_files_today)
    }
