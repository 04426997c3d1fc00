"""What tells whether rows are those that were read: a sum over their records, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from kinesis_assets.kinesis.records.columns import letters
from kinesis_assets.kinesis.shards import LONGEST_NUMBER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinesis_assets.kinesis.records.record import Record, Records

_FEW = 400
"""Numbers are sooner done one by one that are no more than these."""

_PLAIN = b":0"
"""What stands behind the sequence number of a plain record."""


def checksum(record: Record) -> int:
    """What a record adds to the checksum of its range, whose order does not matter: 32 bits.

    The sum over some rows is `sum(crc32(concat_ws(':', sequence_number, sub_sequence_number)))` in Spark SQL.
    """
    return crc32(f"{record.sequence_number}:{record.sub_sequence_number}".encode())


def checksums(records: Records) -> int:
    """The sum of `checksum` over records."""
    if not records:
        return 0
    if records.subs is not None:
        pairs = zip(records.numbers, records.subs, strict=True)
        return sum([crc32(f"{number}:{sub}".encode()) for number, sub in pairs])
    if len(records) > _FEW:
        digits, begins = letters(records.number_column)
        lengths = begins[1:] - begins[:-1]
        if lengths.min() == lengths.max():
            return _of_one_length(digits[: begins[-1]].reshape(len(records), -1))
    return sum([crc32(number.encode() + _PLAIN) for number in records.numbers])


def _of_one_length(numbers: NDArray[np.uint8]) -> int:
    """The sum for plain records, by a row of digits for each.

    Texts of one length whose difference (XOR) is the same have CRCs whose difference is the same, and
    differences of several digits add up (by XOR): a look in `_DIFFERENCES` for each column of digits that are
    not all alike is less work than a CRC for each number.
    """
    count, length = numbers.shape
    differing = numbers ^ numbers[0]
    crcs = np.full(count, crc32(numbers[0].tobytes() + _PLAIN), np.uint32)
    for place in np.flatnonzero(np.bitwise_or.reduce(differing)):
        crcs ^= _DIFFERENCES[length - 1 - place].take(differing[:, place])
    return int(crcs.sum(dtype=np.uint64))


def _difference(behind: int, difference: int) -> int:
    """How the CRCs of two texts differ that differ in one character, so many characters before their end."""
    return crc32(bytes([difference, *bytes(behind)])) ^ crc32(bytes(1 + behind))


_DIGIT_DIFFERENCES = 16
"""The codes of two digits differ in their four lowest bits at most."""

_DIFFERENCES = np.array(
    [
        [_difference(behind + len(_PLAIN), difference) for difference in range(_DIGIT_DIFFERENCES)]
        for behind in range(LONGEST_NUMBER)
    ],
    np.uint32,
)
"""By the number of digits behind a digit, and by its difference."""
