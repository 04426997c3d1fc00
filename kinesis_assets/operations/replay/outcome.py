"""The part of a stream that a replay reads again, and the result for each shard and as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from kinesis_assets.errors import InvalidInput
from kinesis_assets.ingest.outcome import Outcome, Result
from kinesis_assets.kinesis.position import Position, PositionKind

OLDEST = "TRIM_HORIZON"
"""The start that means the oldest record that the stream has."""


class ReplayWindow(msgspec.Struct, frozen=True):
    """The window of a replay. It always ends at the committed position at the latest.

    Attributes:
        start: AT_SEQUENCE_NUMBER or AT_TIMESTAMP, both inclusive, or TRIM_HORIZON, the oldest record.
        last: Sequence number of the last record, inclusive; None for no such limit.
        until: Arrival time, exclusive; None for no such limit.
        starts: By shard id, the starts of shards that start elsewhere.
        max_seconds: How long each shard is read after its first record, see `Bounds`; None for no such limit.

    Raises:
        InvalidInput: The window is empty.
    """

    start: Position
    last: str | None = None
    until: datetime | None = None
    starts: Mapping[str, Position] = {}
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        number, time = self.start.sequence_number, self.start.timestamp
        backward = number is not None and self.last is not None and int(self.last) < int(number)
        if backward or (time is not None and self.until is not None and self.until <= time):
            end = self.last if self.until is None else Position.at_timestamp(self.until)
            raise InvalidInput(f"invalid replay: nothing is between {self.start} and {end}; use a later end")

    @classmethod
    def of(cls, start: str, end: str | None = None) -> ReplayWindow:
        """Parse a window.

        Args:
            start: A time with a UTC offset, a sequence number (both inclusive), or TRIM_HORIZON.
            end: A time with a UTC offset (exclusive) or a sequence number (inclusive); nothing for the
                committed position.

        Raises:
            InvalidInput: The start or the end is invalid.
        """
        return cls(_start(start.strip()), *_end((end or "").strip()))

    @property
    def has_sequence_number(self) -> bool:
        """Whether it starts or ends at a sequence number, which belongs to one shard."""
        return self.start.sequence_number is not None or self.last is not None


def _start(text: str) -> Position:
    if text.upper() == OLDEST:
        return Position(PositionKind.TRIM_HORIZON)
    if text.isascii() and text.isdigit():
        return Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=text)
    return Position.at_timestamp(_time("start", text))


def _end(text: str) -> tuple[str | None, datetime | None]:
    if not text:
        return None, None
    if text.isascii() and text.isdigit():
        return Position.after(text).sequence_number, None
    return None, _time("end", text)


def _time(name: str, text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise InvalidInput(
            f"invalid {name} of a replay {text[:200]!r}: use a sequence number; a time with a UTC offset, "
            f"such as 2026-01-31T12:00:00Z; or, as its start, {OLDEST}"
        )
    return time.astimezone(UTC)


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
