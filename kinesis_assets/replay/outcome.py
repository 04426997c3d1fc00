"""The result of a replay, for each shard and as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.errors import ShardError
    from kinesis_assets.table.positions.range_stats import RangeStats


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
class ReplayOutcome:
    """The result of a replay for one shard.

    Attributes:
        shard_id: Shard id.
        state: See `ReplayState`.
        stats: The facts about the range and the rows that were filled in; None if nothing was read.
        gaps_filled: Number of recorded gaps that were filled: the replay read all of their records.
        first_read: Sequence number of the first record that was read; None if none was.
        in_part: Some records were read, but the time limit ended the range before the others.
        error: Why the state is `FAILED`; None otherwise.
    """

    shard_id: str
    state: ReplayState
    stats: RangeStats | None = None
    gaps_filled: int = 0
    first_read: str | None = None
    in_part: bool = False
    error: ShardError | None = None

    @property
    def rows(self) -> int:
        """Number of rows that were filled in."""
        return 0 if self.stats is None else self.stats.rows


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay.

    Attributes:
        batch_id: Batch id of the rows that were filled in.
        outcomes: One outcome for each requested shard, by shard id.
        version: Version of the table that holds the rows; None if there are none, or if it is no longer among
            the newest hundred versions of the log.
        seconds: Duration.
    """

    batch_id: int
    outcomes: Mapping[str, ReplayOutcome]
    version: int | None = None
    seconds: float = field(default=0.0, compare=False)

    @property
    def errors(self) -> dict[str, ShardError]:
        """The reasons of the shards whose ranges could not be read completely, by shard id."""
        return {shard_id: outcome.error for shard_id, outcome in self.outcomes.items() if outcome.error}
