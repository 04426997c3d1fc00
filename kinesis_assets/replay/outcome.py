"""The result of a replay, for each shard and as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.position import Position


class ReplayState(StrEnum):
    """What became of a shard in a replay."""

    FILLED = "filled"
    """The table lacked records of the range; they are committed."""
    WHOLE = "whole"
    """The table lacked nothing of the range."""
    UNREAD = "unread"
    """No run has passed anything of the shard yet: there is nothing to read again."""
    GONE = "gone"
    """The stream lists it no more, and the range has nothing of it."""
    FAILED = "failed"
    """Not all of the range could be read again; what was lacking of the rest is committed."""


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """What became of one shard.

    Attributes:
        shard_id: The shard.
        state: See `ReplayState`.
        start: Where its range began; None if nothing was read, likewise below.
        through: How far it was read, as where the next read would begin.
        rows: Records filled in.
        bytes: Their payload bytes.
        first_sequence_number: Of the first of them; None if there are none, likewise below.
        last_sequence_number: Of the last of them.
        checksum: Over them all, see `checksums.checksum`.
        gaps_filled: Recorded gaps of which it read every record, so that they are none any more.
        error: Why the state is failed; None otherwise.
    """

    shard_id: str
    state: ReplayState
    start: Position | None = None
    through: Position | None = None
    rows: int = 0
    bytes: int = 0
    first_sequence_number: str | None = None
    last_sequence_number: str | None = None
    checksum: int | None = None
    gaps_filled: int = 0
    error: ShardError | None = None


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What became of a replay.

    Attributes:
        batch_id: Of the rows that were filled in.
        outcomes: By shard id, one for each asked shard.
        version: The table's version that holds them; None if there are none, or it has left the log's newest
            hundred.
        seconds: Wall clock.
    """

    batch_id: int
    outcomes: Mapping[str, ReplayOutcome]
    version: int | None = None
    seconds: float = field(default=0.0, compare=False)

    @property
    def errors(self) -> dict[str, ShardError]:
        """The shards of which not all could be read again, each with its reason."""
        return {shard_id: outcome.error for shard_id, outcome in self.outcomes.items() if outcome.error}
