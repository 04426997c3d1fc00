"""A checksum over records that does not depend on their order.

The checksum of a range is compared with that of its rows, which shows whether the table has the records that
were read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from kinesis_assets.kinesis.records.columns import bytes_and_offsets
from kinesis_assets.kinesis.shards import LONGEST_NUMBER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinesis_assets.kinesis.records.record import Record, Records

_SMALL_COUNT = 400
"""Up to this many records, a loop over the sequence numbers is faster than NumPy."""

_PLAIN = b":0"
"""The text after the sequence number of a record that is not part of an aggregate."""


def checksum(record: Record) -> int:
    """Return the 32-bit checksum of one record.

    The checksum of a range is the sum over its records. In Spark SQL, the sum over rows is
    `sum(crc32(concat_ws(':', sequence_number, sub_sequence_number)))`.
    """
    return crc32(f"{record.sequence_number}:{record.sub_sequence_number}".encode())


def checksums(records: Records) -> int:
    """Return the sum of `checksum` over records; 0 for none."""
    if not records:
        return 0
    if records.subs is not None:
        pairs = zip(records.numbers, records.subs, strict=True)
        return sum([crc32(f"{number}:{sub}".encode()) for number, sub in pairs])
    if len(records) > _SMALL_COUNT:
        digits, offsets = bytes_and_offsets(records.number_column)
        lengths = offsets[1:] - offsets[:-1]
        if lengths.min() == lengths.max():
            return _checksum_of_equal_lengths(digits[: offsets[-1]].reshape(len(records), -1))
    return sum([crc32(number.encode() + _PLAIN) for number in records.numbers])


def _checksum_of_equal_lengths(numbers: NDArray[np.uint8]) -> int:
    """Return the sum for records that are not part of an aggregate.

    CRC32 is linear: if two strings have the same length, the XOR of their CRCs depends only on the XOR of the
    strings, and the contributions of several digits combine by XOR. One lookup in `_DIFFERENCES` for each
    column of digits that are not all equal costs less than one CRC for each number.

    Args:
        numbers: Sequence numbers of equal length: one row of ASCII digits for each.
    """
    count, length = numbers.shape
    differences = numbers ^ numbers[0]
    crcs = np.full(count, crc32(numbers[0].tobytes() + _PLAIN), np.uint32)
    for column in np.flatnonzero(np.bitwise_or.reduce(differences)):
        crcs ^= _DIFFERENCES[length - 1 - column].take(differences[:, column])
    return int(crcs.sum(dtype=np.uint64))


def _crc_difference(following: int, difference: int) -> int:
    """Return the XOR of the CRCs of two strings that differ in one byte.

    Args:
        following: Number of bytes after that byte.
        difference: XOR of the two bytes.
    """
    return crc32(bytes([difference, *bytes(following)])) ^ crc32(bytes(1 + following))


_DIGIT_DIFFERENCES = 16
"""The ASCII codes of two digits differ only in their lowest four bits."""

_DIFFERENCES = np.array(
    [
        [_crc_difference(following + len(_PLAIN), difference) for difference in range(_DIGIT_DIFFERENCES)]
        for following in range(LONGEST_NUMBER)
    ],
    np.uint32,
)
"""XOR of two CRCs, by the number of digits after the one that differs and by the XOR of the two digits."""
