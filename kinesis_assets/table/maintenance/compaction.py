"""The steps that rewrite, delete or sum up the files of Delta Lake."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from kinesis_assets.table.data_file import FILE_BYTES
from kinesis_assets.table.maintenance.steps import State, Step, done_or_left, sizes
from kinesis_assets.table.storage import files_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date

    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.file_stats import StandingFile
    from kinesis_assets.table.table import PositionedTable
    from kinesis_assets.table.upkeep import Upkeep

SMALL_BYTES = FILE_BYTES // 4
"""A file under this size is small: a scan of so much takes longer than opening it."""

SMALL_FILES = 4
"""A day with fewer small files is left alone, so that a straggler or two do not rewrite it every night."""

SMALL_FILES_TODAY = 500
"""Likewise a day that is not over: its rows are gathered once more when it is."""

_COMPACTIONS = 3


def compact(
    table: PositionedTable, upkeep: Upkeep, since: date | None, clock: AgreedClock, *, dry_run: bool
) -> Iterator[Step]:
    """Compact each day that has enough small files and does not expire."""
    today = clock.now().date().isoformat()
    for day, small in _due(table.snapshot().standing_files(), since, today).items():
        rows, files, size = sizes(small)
        step = Step("compact", day, State.PLANNED, 0, files, size)
        if dry_run:
            yield step
            continue
        for _ in range(_COMPACTIONS):
            clock.now()  # each compaction deletes entries of the log, by this machine's clock
            done = done_or_left(step, partial(upkeep.compact, day, size // max(1, rows)))
            if done.state is State.DONE:
                break
        yield done


def _due(files: list[StandingFile], since: date | None, today: str) -> Mapping[str, list[StandingFile]]:
    """The days that do not expire and have small files enough, oldest first."""
    first = "" if since is None else since.isoformat()
    small: defaultdict[str, list[StandingFile]] = defaultdict(list)
    for file in files:
        if file.size < SMALL_BYTES and first <= file.arrival_date:
            small[file.arrival_date].append(file)
    return {
        day: files
        for day, files in sorted(small.items())
        if len(files) >= (SMALL_FILES if day < today else SMALL_FILES_TODAY)
    }


def vacuum(table: PositionedTable, upkeep: Upkeep, clock: AgreedClock, *, dry_run: bool) -> Iterator[Step]:
    """Delete the data files that no recent version of the table names."""
    paths = upkeep.vacuum(dry_run=True)
    if not paths:
        return
    size = sum(info.size or 0 for info in table.files.get_file_info(paths))
    step = Step("vacuum", "data files", State.PLANNED, 0, len(paths), size)
    clock.now()  # delta-rs goes by this machine's clock, here and for the log
    yield step if dry_run else done_or_left(step, partial(upkeep.vacuum, dry_run=False))


def checkpoint(table: PositionedTable, upkeep: Upkeep, clock: AgreedClock) -> Iterator[Step]:
    """Write a checkpoint of the log, and delete the entries that have expired."""
    before = files_in(table.files, "_delta_log")
    clock.now()
    upkeep.checkpoint()
    left = {info.path for info in files_in(table.files, "_delta_log")}
    gone = [info for info in before if info.path not in left]
    yield Step("checkpoint", "_delta_log", State.DONE, 0, len(gone), sum(info.size for info in gone))
