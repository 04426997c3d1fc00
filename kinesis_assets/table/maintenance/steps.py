"""What a maintenance reports of each of its steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from kinesis_assets.errors import CommitFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kinesis_assets.table.file_stats import StandingFile


class State(StrEnum):
    """What became of a step."""

    DONE = "done"
    PLANNED = "planned"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that maintenance did, or would do.

    Attributes:
        step: Which.
        of: Of what: an arrival date, a folder, properties.
        state: Done; planned, in a dry run; or left for the next maintenance.
        rows: Rows deleted from the table.
        files: Files that were deleted, or are no longer in the table.
        bytes: Theirs.
        reason: Why it is left.
    """

    step: str
    of: str
    state: State
    rows: int = 0
    files: int = 0
    bytes: int = 0
    reason: str | None = None


def done_or_left(step: Step, do: Callable[[], object]) -> Step:
    """Carry out a step, and report it as done, or as left if another commit conflicted with it."""
    try:
        do()
    except CommitFailed as error:
        return replace(step, state=State.LEFT, reason=str(error))
    return replace(step, state=State.DONE)


def sizes(files: Sequence[StandingFile]) -> tuple[int, int, int]:
    """The rows, the number and the bytes of some files."""
    return sum(file.rows for file in files), len(files), sum(file.size for file in files)
