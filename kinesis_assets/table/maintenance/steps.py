"""The steps of a maintenance: what they report, when it takes them, and those that merge small files."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from kinesis_assets.errors import CommitFailed
from kinesis_assets.table.data_file import FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import date

    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.data_file import TableFile, WrittenFile
    from kinesis_assets.table.raw_table import PositionedTable


class State(StrEnum):
    """The outcome of a step."""

    DONE = "done"
    PLANNED = "planned"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a maintenance.

    Attributes:
        of: What it applies to: an arrival date or another partition, a folder, or properties.
        state: Done; planned, in a dry run; or left for the next maintenance.
        files: Number of files that were deleted or removed from the table.
        bytes: Size of these files in bytes.
        reason: Why the step was left.
    """

    step: str
    of: str
    state: State
    rows: int = 0
    files: int = 0
    bytes: int = 0
    reason: str | None = None


def done_or_left(step: Step, do: Callable[[], object]) -> Step:
    """Carry out a step. Returns it as done, or as left if another commit conflicted with it."""
    try:
        do()
    except CommitFailed as error:
        return replace(step, state=State.LEFT, reason=str(error))
    return replace(step, state=State.DONE)


def totals(files: Sequence[WrittenFile]) -> tuple[int, int, int]:
    """Return the rows, the number and the bytes of files."""
    return sum(file.rows or 0 for file in files), len(files), sum(file.size for file in files)


@dataclass(frozen=True, slots=True)
class MaintenanceLimits:
    """Numbers of files from which on maintenance does more.

    Attributes:
        small_files: A day with fewer small files is not compacted, so that a few late files do not rewrite it
            every night.
        small_files_today: Likewise for the current day, which is compacted once more after it has ended.
        chain_files: If there are more positions files, those older than `CHAIN_NEEDED` are deleted early. The
            default is reached by a run every 26 seconds for all of `CHAIN_KEPT`.
        chain_bytes: Likewise for their bytes.
    """

    small_files: int = 4
    small_files_today: int = 500
    chain_files: int = 100_000
    chain_bytes: int = 4 << 30


DEFAULT_LIMITS = MaintenanceLimits()


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
