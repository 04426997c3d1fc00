"""Sequence numbers: 56 decimal digits that increase with each record of a shard.

The layout was observed in the service's own numbers. From the highest bit down it has a leading 2, the era
(36 bits), the lowest 4 bits of the shard number, the record's ordinal in the shard (64), 8 bits of zero, the
second of arrival (36), the shard number (32) and the version of the layout (4), which is 2.
"""

from __future__ import annotations

from typing import NamedTuple

LAST_ORDINAL = 2**63 - 1
"""The ordinal in the EndingSequenceNumber of a closed shard. It is larger than that of any record."""

_LEADING = 2
_VERSION = 2
_SHARD_SHIFT = 4
_SECOND_SHIFT = _SHARD_SHIFT + 32
_ORDINAL_SHIFT = _SECOND_SHIFT + 36 + 8
_NIBBLE_SHIFT = _ORDINAL_SHIFT + 64
_ERA_SHIFT = _NIBBLE_SHIFT + 4
_LEADING_SHIFT = _ERA_SHIFT + 36


class SequenceNumber(NamedTuple):
    """The parts of a sequence number; `str()` returns its decimal text."""

    era: int
    shard_number: int
    ordinal: int
    second: int

    def __str__(self) -> str:
        return str(
            _LEADING << _LEADING_SHIFT
            | self.era << _ERA_SHIFT
            | (self.shard_number & 0xF) << _NIBBLE_SHIFT
            | self.ordinal << _ORDINAL_SHIFT
            | self.second << _SECOND_SHIFT
            | self.shard_number << _SHARD_SHIFT
            | _VERSION
        )

    @classmethod
    def parse(cls, text: str) -> SequenceNumber | None:
        """Parse a decimal number. Returns None if it does not have this layout."""
        number = int(text)
        parts = cls(
            era=number >> _ERA_SHIFT & 2**36 - 1,
            shard_number=number >> _SHARD_SHIFT & 2**32 - 1,
            ordinal=number >> _ORDINAL_SHIFT & 2**64 - 1,
            second=number >> _SECOND_SHIFT & 2**36 - 1,
        )
        return parts if str(parts) == text else None
