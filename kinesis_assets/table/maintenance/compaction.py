"""The steps that merge small files: those of a day, or of any partition."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from kinesis_assets.table.data_file import FILE_BYTES
from kinesis_assets.table.maintenance.steps import State, Step, done_or_left, totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import date

    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.data_file import TableFile, WrittenFile
    from kinesis_assets.table.maintenance.steps import MaintenanceLimits
    from kinesis_assets.table.raw_table import PositionedTable

SMALL_BYTES = FILE_BYTES // 4
"""A smaller file is compacted: scanning a file of this size takes longer than opening it."""

_COMPACTIONS = 3


def compact_each(
    due: Mapping[str, Sequence[WrittenFile]],
    compact_one: Callable[[str], object],
    clock: AgreedClock,
    *,
    dry_run: bool,
) -> Iterator[Step]:
    """Compact each part of a table that is due, and try again if another commit conflicted.

    Args:
        due: The small files by the name of their part.
        clock: The clock that is checked before each compaction: by this machine's clock delta-rs deletes log
            entries, and replaced files are later deleted.

    Raises:
        ClocksDisagree: The clocks differ.
    """
    for part, small in due.items():
        _, files, size = totals(small)
        step = Step("compact", part, State.PLANNED, 0, files, size)
        if dry_run:
            yield step
            continue
        for _ in range(_COMPACTIONS):
            clock.now()
            done = done_or_left(step, partial(compact_one, part))
            if done.state is State.DONE:
                break
        yield done


def due_days(
    table: PositionedTable, since: date | None, clock: AgreedClock, limits: MaintenanceLimits
) -> Mapping[str, list[TableFile]]:
    """Return the small files of each day of a raw table that has enough of them, oldest day first.

    Args:
        since: Days before this arrival date expire, and are not compacted; None if no day expires.

    Raises:
        ClocksDisagree: The clocks differ.
    """
    today = clock.now().date().isoformat()
    small: defaultdict[str, list[TableFile]] = defaultdict(list)
    for file in table.snapshot().data_files():
        day = file.partition["arrival_date"]
        if file.size < SMALL_BYTES and (since is None or since <= day):
            small[day.isoformat()].append(file)
    return {
        day: files
        for day, files in sorted(small.items())
        if len(files) >= (limits.small_files if day < today else limits.small_files_today)
    }
