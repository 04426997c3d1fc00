"""Encodes columns of large integers, such as sequence numbers and times, as bytes that compress well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_WIDTH = 64
"""Maximum bytes of a difference: a sequence number has up to 129 digits, which are 429 bits."""


class Column(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A column of integers.

    Attributes:
        lowest: The smallest number, as decimal text.
        width: Bytes of each number's difference from `lowest`.
        packed: The differences: the lowest byte of each number, then the next byte of each, and so on.
            Similar bytes are thus adjacent.
    """

    lowest: str
    width: int
    packed: bytes


def pack(numbers: Sequence[int]) -> Column:
    """Encode numbers as a column."""
    lowest = min(numbers, default=0)
    width = -(-(max(numbers, default=0) - lowest).bit_length() // 8)
    rows = b"".join([(number - lowest).to_bytes(width, "little") for number in numbers])
    return Column(str(lowest), width, b"".join([rows[byte::width] for byte in range(width)]))


def unpack(column: Column, count: int) -> list[int]:
    """Decode the numbers of a column.

    Args:
        column: A column that `pack` returned.
        count: How many numbers it contains.

    Raises:
        msgspec.ValidationError: The column is damaged or has another count.
    """
    if not 0 <= column.width <= _MAX_WIDTH or len(column.packed) != column.width * count:
        raise msgspec.ValidationError(
            f"a column has {len(column.packed)} bytes instead of {count} x {column.width}"
        )
    try:
        lowest = int(column.lowest)
    except ValueError as error:
        raise msgspec.ValidationError(f"the lowest value of a column is not a number: {error}") from error
    if not column.width:
        return [lowest] * count
    return [lowest + int.from_bytes(column.packed[row::count], "little") for row in range(count)]
