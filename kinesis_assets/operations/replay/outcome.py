"""The result of a replay, for each shard and as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kinesis_assets.ingest.outcome import Outcome, Result


class ReplayState(StrEnum):
    """The state of a shard after a replay."""

    FILLED = "filled"
    """Records that the table lacked were committed."""
    WHOLE = "whole"
    """The table lacked no record of the range."""
    UNREAD = "unread"
    """No run has read the shard yet, so there is nothing to read again."""
    GONE = "gone"
    """The stream no longer lists the shard, and the range contains no record of it."""
    FAILED = "failed"
    """Part of the range could not be read again. Records that the table lacked of the rest were committed."""


@dataclass(frozen=True, slots=True)
class ReplayOutcome(Outcome):
    """What a replay committed of one shard. Only one that failed has an error.

    Attributes:
        gaps_filled: Number of recorded gaps that were filled: the replay read all of their records.
        first_read: Sequence number of the first record that was read; None if none was.
        in_part: Some records were read, but the time limit ended the range before the others.
    """

    state: ReplayState
    gaps_filled: int = 0
    first_read: str | None = None
    in_part: bool = False


@dataclass(frozen=True, slots=True)
class ReplayResult(Result[ReplayOutcome]):
    """The result of a replay."""
