"""The position from which a shard is read next, and how it compares with the records of the shard."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum
from math import inf
from typing import Any

import msgspec

from kinesis_assets.errors import InvalidInput


class PositionKind(StrEnum):
    """The five iterator types of GetShardIterator, under their own names."""

    TRIM_HORIZON = "TRIM_HORIZON"
    LATEST = "LATEST"
    AT_TIMESTAMP = "AT_TIMESTAMP"
    AT_SEQUENCE_NUMBER = "AT_SEQUENCE_NUMBER"
    AFTER_SEQUENCE_NUMBER = "AFTER_SEQUENCE_NUMBER"


_WITH_SEQUENCE_NUMBER = frozenset({PositionKind.AT_SEQUENCE_NUMBER, PositionKind.AFTER_SEQUENCE_NUMBER})

LONGEST_NUMBER = 129
"""The maximum number of digits in a `NUMBER`."""

NUMBER = re.compile(f"0|[1-9][0-9]{{0,{LONGEST_NUMBER - 1}}}")
"""Sequence numbers and hash keys (AWS API reference, SequenceNumberRange and HashKeyRange)."""

_SUB_SEQUENCE_NUMBER = re.compile("0|[1-9][0-9]{0,18}")


class Position(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The position from which a shard is read next.

    TRIM_HORIZON, AT_TIMESTAMP and AT_SEQUENCE_NUMBER are inclusive: the record that they name is read.
    AFTER_SEQUENCE_NUMBER is exclusive: the shard has been read up to and including that record.

    Attributes:
        sequence_number: Decimal digits, as Kinesis writes them; set only for the two SEQUENCE_NUMBER kinds.
            Compare sequence numbers with `int`, never as text: their lengths differ.
        timestamp: An aware UTC time, truncated to the service's resolution of one millisecond; set only for
            AT_TIMESTAMP.
        sub_sequence_number: Set only for AFTER_SEQUENCE_NUMBER, if the record is an aggregate that has been
            read up to and including this sub-record, but not to its end.

    Raises:
        InvalidInput: The fields do not fit the kind.
    """

    kind: PositionKind
    sequence_number: str | None = None
    timestamp: datetime | None = None
    sub_sequence_number: int | None = None

    def __post_init__(self) -> None:
        number = self.sequence_number
        if (number is not None) != (self.kind in _WITH_SEQUENCE_NUMBER):
            raise InvalidInput(f"{self.kind} {'needs a' if number is None else 'takes no'} sequence number")
        if number is not None and not NUMBER.fullmatch(number):
            raise InvalidInput(f"invalid sequence number {number[:80]!r}: 1 to 129 decimal digits")
        if (self.timestamp is not None) != (self.kind is PositionKind.AT_TIMESTAMP):
            raise InvalidInput(f"{self.kind} {'needs a' if self.timestamp is None else 'takes no'} timestamp")
        if self.timestamp is not None and self.timestamp.tzinfo is None:
            raise InvalidInput(f"a timestamp needs a UTC offset, for example {self.timestamp.isoformat()}Z")
        if self.timestamp is not None:
            milliseconds = self.timestamp.microsecond // 1000
            msgspec.structs.force_setattr(
                self, "timestamp", self.timestamp.replace(microsecond=milliseconds * 1000)
            )
        sub = self.sub_sequence_number
        if sub is not None and (self.kind is not PositionKind.AFTER_SEQUENCE_NUMBER or sub < 0):
            raise InvalidInput(f"{self.kind} takes no sub-sequence number {sub}")

    @classmethod
    def after(cls, sequence_number: str, sub_sequence_number: int | None = None) -> Position:
        """Return the position of a shard that has been read up to and including a record or sub-record."""
        return cls(
            PositionKind.AFTER_SEQUENCE_NUMBER,
            sequence_number=sequence_number,
            sub_sequence_number=sub_sequence_number,
        )

    @classmethod
    def at_timestamp(cls, timestamp: datetime) -> Position:
        """Return the position of the first record that arrived at or after a time."""
        if timestamp.tzinfo is not None:
            timestamp = timestamp.astimezone(UTC)
        return cls(PositionKind.AT_TIMESTAMP, timestamp=timestamp)

    @classmethod
    def parse(cls, text: str) -> Position:
        """Parse the text that `str` returns for a position.

        The forms are `KIND`, `KIND:SEQUENCE_NUMBER`, `AT_TIMESTAMP:RFC 3339` and, inside an aggregate,
        `AFTER_SEQUENCE_NUMBER:SEQUENCE_NUMBER:SUB_SEQUENCE_NUMBER`.

        Raises:
            InvalidInput: The text is not a position.
        """
        name, colon, argument = text.strip().partition(":")
        try:
            kind = PositionKind(name.upper())
        except ValueError:
            kinds = ", ".join(PositionKind)
            raise InvalidInput(f"invalid position {text!r}: start with one of {kinds}") from None
        if kind is PositionKind.AT_TIMESTAMP:
            try:
                return cls.at_timestamp(datetime.fromisoformat(argument))
            except (ValueError, OverflowError) as error:
                raise InvalidInput(
                    f"invalid position {text!r}: write it as AT_TIMESTAMP:2026-01-31T12:00:00Z"
                ) from error
        number, second_colon, sub = argument.partition(":")
        if second_colon and not _SUB_SEQUENCE_NUMBER.fullmatch(sub):
            raise InvalidInput(f"invalid position {text[:200]!r}: the sub-sequence number must be a number")
        return cls(
            kind,
            sequence_number=number if colon else None,
            sub_sequence_number=int(sub) if second_colon else None,
        )

    def __str__(self) -> str:
        if self.timestamp is not None:
            return f"{self.kind}:{self.timestamp.isoformat().replace('+00:00', 'Z')}"
        parts = (self.kind, self.sequence_number, self.sub_sequence_number)
        return ":".join(str(part) for part in parts if part is not None)

    def iterator_arguments(self) -> dict[str, Any]:
        """Return the arguments of GetShardIterator; inside an aggregate, the iterator starts at its record.

        Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetShardIterator.html
        """
        arguments: dict[str, Any] = {"ShardIteratorType": str(self._service_kind)}
        if self.sequence_number is not None:
            arguments["StartingSequenceNumber"] = self.sequence_number
        if self.timestamp is not None:
            arguments["Timestamp"] = self.timestamp
        return arguments

    def subscription_arguments(self) -> dict[str, Any]:
        """Return the StartingPosition of SubscribeToShard in JSON, likewise.

        Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_StartingPosition.html
        """
        arguments: dict[str, Any] = {"Type": str(self._service_kind)}
        if self.sequence_number is not None:
            arguments["SequenceNumber"] = self.sequence_number
        if self.timestamp is not None:
            arguments["Timestamp"] = self.timestamp.timestamp()
        return arguments

    @property
    def _service_kind(self) -> PositionKind:
        return self.kind if self.sub_sequence_number is None else PositionKind.AT_SEQUENCE_NUMBER


PassedRecord = tuple[int, float]
"""The last sequence number and sub-sequence number that a position has passed. The latter is infinity if the
whole record was passed, and -1 if none of it was. Later positions compare as greater."""


def at(sequence_number: str) -> PassedRecord:
    """Return the value for a position just before a record."""
    return int(sequence_number), -1


def passed(position: Position) -> PassedRecord | None:
    """Return what a position has passed; None if it names no record."""
    if position.sequence_number is None:
        return None
    if position.kind is PositionKind.AT_SEQUENCE_NUMBER:
        return at(position.sequence_number)
    sub = position.sub_sequence_number
    return int(position.sequence_number), inf if sub is None else sub


def may_return(position: Position, sequence_number: str) -> bool:
    """Return whether a read from a position can return a record, or a part of it."""
    before = passed(position)
    return before is None or before < (int(sequence_number), inf)
