"""What a maintenance reports of each of its steps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
