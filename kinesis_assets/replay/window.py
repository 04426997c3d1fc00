"""The part of a stream that a replay reads again."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from kinesis_assets.errors import (
    InvalidInput,
)
from kinesis_assets.kinesis.position import Position, PositionKind

OLDEST = "TRIM_HORIZON"


class Span(msgspec.Struct, frozen=True):
    """What is to be read again.

    Attributes:
        start: AT_SEQUENCE_NUMBER or AT_TIMESTAMP, both inclusive, or TRIM_HORIZON: the oldest there is.
        last: Sequence number of the last record, inclusive; None is no such end.
        until: Records that arrived before are read; None is no such end. Every end is that of the committed
            position at the latest.

    Raises:
        InvalidInput: The end is before the start.
    """

    start: Position
    last: str | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        number, time_ = self.start.sequence_number, self.start.timestamp
        backward = number is not None and self.last is not None and int(self.last) < int(number)
        if backward or (time_ is not None and self.until is not None and self.until <= time_):
            raise InvalidInput(f"a replay from {self.start} to {self.last or self.until} has nothing in it")

    @classmethod
    def of(cls, start: str, end: str | None = None) -> Span:
        """Read a span as people write it.

        Args:
            start: A time with its offset, a sequence number (both inclusive), or TRIM_HORIZON.
            end: A time (exclusive), a sequence number (inclusive), or nothing: the committed position.

        Raises:
            InvalidInput: It cannot be read.
        """
        return cls(_start(start.strip()), *_end((end or "").strip()))

    @property
    def names_a_record(self) -> bool:
        """Whether it has a sequence number in it, and so is of one shard."""
        return self.start.sequence_number is not None or self.last is not None


def _start(text: str) -> Position:
    if text.upper() == OLDEST:
        return Position(PositionKind.TRIM_HORIZON)
    if text.isascii() and text.isdigit():
        return Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=text)
    return Position.at_timestamp(_time("the start", text))


def _end(text: str) -> tuple[str | None, datetime | None]:
    if not text:
        return None, None
    if text.isascii() and text.isdigit():
        return Position.after(text).sequence_number, None
    return None, _time("the end", text)


def _time(what: str, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise InvalidInput(
            f"{what} of a replay, {text[:200]!r}, is neither a sequence number nor a time with its offset; "
            "2026-01-31T12:00:00Z is the form"
        )
    return found.astimezone(UTC)
