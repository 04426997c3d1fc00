"""The steps that a maintenance reports, and from how many files on it takes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from kinesis_assets.errors import CommitFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kinesis_assets.table.data_file import WrittenFile


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
