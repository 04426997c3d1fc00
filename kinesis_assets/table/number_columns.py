"""Columns of large integers as bytes that compress well: sequence numbers that differ little, times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDEST = 64
"""Bytes of the difference of two numbers: a sequence number has 129 digits, which are 429 bits."""


class Column(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A column of integers.

    Attributes:
        lowest: The smallest of them, decimal text.
        width: Bytes of each one's difference from it.
        packed: Those differences: first the lowest byte of each, then the next one of each, and so on. Bytes
            that are much alike are then side by side.
    """

    lowest: str
    width: int
    packed: bytes


def pack(numbers: Sequence[int]) -> Column:
    """The numbers as a column."""
    lowest = min(numbers, default=0)
    width = -(-(max(numbers, default=0) - lowest).bit_length() // 8)
    rows = b"".join([(number - lowest).to_bytes(width, "little") for number in numbers])
    return Column(str(lowest), width, b"".join([rows[place::width] for place in range(width)]))


def unpack(column: Column, count: int) -> list[int]:
    """The numbers of a column.

    Args:
        column: As `pack` made it.
        count: How many there are.

    Raises:
        msgspec.ValidationError: It has not so many.
    """
    if not 0 <= column.width <= _WIDEST or len(column.packed) != column.width * count:
        raise msgspec.ValidationError(
            f"a column has {len(column.packed)} bytes, not {count} x {column.width}"
        )
    try:
        lowest = int(column.lowest)
    except ValueError as error:
        raise msgspec.ValidationError(f"a column begins with no number: {error}") from error
    if not column.width:
        return [lowest] * count
    return [lowest + int.from_bytes(column.packed[row::count], "little") for row in range(count)]
