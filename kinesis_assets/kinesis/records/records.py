"""The records of a shard: one by one, as Arrow columns, and the checksum over them.

The checksum does not depend on the order of records. That of a range is compared with that of its rows,
which shows whether the table has the records that were read.

Columns are built from buffers. The first time that pyarrow converts Python objects (in `array`, `scalar`,
`from_pydict` or a compute function), it imports pandas if that is installed. Building from buffers spares
each Spark worker this import.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa

from kinesis_assets.kinesis.position import LONGEST_NUMBER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record of a shard, or a sub-record of an aggregate.

    Attributes:
        sequence_number: Decimal text.
        approximate_arrival_timestamp: Seconds since the epoch, exact to the millisecond.
        partition_key: As set by the producer. None if it set none, which a stream permits under the record
            distribution strategy AUTO (`stream.StreamSummary`).
        sub_sequence_number: Index in the aggregate, from 0; 0 for a record that is not part of one.
        error: Why the record is not sound; None if it is.
    """

    sequence_number: str
    approximate_arrival_timestamp: float
    data: bytes
    partition_key: str | None
    sub_sequence_number: int = 0
    error: str | None = None

    @property
    def arrival_ms(self) -> int:
        """The arrival time in milliseconds since the epoch."""
        return round(self.approximate_arrival_timestamp * 1000)

    @property
    def arrival(self) -> datetime:
        """The arrival time, in UTC."""
        return datetime.fromtimestamp(self.arrival_ms / 1000, UTC)


@dataclass(eq=False, repr=False)
class Records(Sequence[Record]):
    """An immutable sequence of records in shard order.

    It stores columns and creates a `Record` on access, because few records are accessed one by one.

    Attributes:
        arrivals: Arrival times, in seconds since the epoch.
        keys: Partition keys; None for a record that has none.
        subs: Sub-sequence numbers. None if no record is known to be part of an aggregate.
        errors: Errors of the records. None under the same condition.
        continued: Whether the records that follow this sequence belong to the aggregate of its last one.
    """

    numbers: list[str]
    arrivals: list[float]
    payloads: list[bytes]
    keys: list[str | None]
    subs: list[int] | None = None
    errors: list[str | None] | None = None
    continued: bool = False

    @classmethod
    def of(cls, records: Sequence[Record], *, continued: bool = False) -> Records:
        """Create a sequence from records that may be part of aggregates."""
        return cls(
            [record.sequence_number for record in records],
            [record.approximate_arrival_timestamp for record in records],
            [record.data for record in records],
            [record.partition_key for record in records],
            [record.sub_sequence_number for record in records],
            [record.error for record in records],
            continued=continued,
        )

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> Records: ...

    def __getitem__(self, index: int | slice) -> Record | Records:
        lists = (self.numbers, self.arrivals, self.payloads, self.keys, self.subs, self.errors)
        selected: list[Any] = [values[index] for values in lists if values is not None]
        return Records(*selected) if isinstance(index, slice) else Record(*selected)

    def __iter__(self) -> Iterator[Record]:
        optional = () if self.subs is None or self.errors is None else (self.subs, self.errors)
        return map(Record, self.numbers, self.arrivals, self.payloads, self.keys, *optional)

    def first(self, count: int) -> Records:
        """Return the first `count` records."""
        return self if count == len(self) else self[:count]

    def drop_data_column(self) -> None:
        """Free the memory of `data_column`, which is built again on the next access."""
        vars(self).pop("data_column", None)

    @cached_property
    def number_column(self) -> pa.StringArray:
        """Sequence numbers."""
        return texts(self.numbers)

    @cached_property
    def key_column(self) -> pa.StringArray:
        """Partition keys; null for a record that has none."""
        try:
            return texts(self.keys)  # type: ignore[arg-type]  # raises for None, at no cost if there is none
        except TypeError:
            return texts_or_nulls(self.keys)

    @cached_property
    def arrival_seconds(self) -> NDArray[np.float64]:
        """Arrival times, in seconds since the epoch."""
        return np.array(self.arrivals, np.float64)

    @cached_property
    def data_column(self) -> pa.BinaryArray:
        """Data."""
        return binaries(self.payloads)

    @property
    def payload_bytes(self) -> int:
        """Total size of the data in bytes, from the offsets in `data_column`, which is built once."""
        return int(bytes_and_offsets(self.data_column)[1][-1])

    @property
    def key_bytes(self) -> int:
        """Total size of the partition keys in bytes of UTF-8, likewise from `key_column`."""
        return int(bytes_and_offsets(self.key_column)[1][-1])


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
    """Return the XOR of the CRCs of two strings that differ in one byte, by a difference (XOR).

    Args:
        following: Number of bytes after that byte.
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


def binaries(values: Sequence[bytes]) -> pa.BinaryArray:
    """Return a column of bytes. They are copied once; an Arrow builder copies them again when it grows."""
    return _from_bytes(pa.binary(), map(len, values), b"".join(values), len(values))


def texts(values: Sequence[str]) -> pa.StringArray:
    """Return a column of strings. Raises `UnicodeEncodeError` if one has no UTF-8 encoding."""
    joined = "".join(values)
    if joined.isascii():
        return _from_bytes(pa.string(), map(len, values), joined.encode(), len(values))
    encoded = [value.encode() for value in values]
    return _from_bytes(pa.string(), map(len, encoded), b"".join(encoded), len(values))


def texts_or_nulls(values: Sequence[str | None]) -> pa.StringArray:
    """Return a column of strings, in which None is null."""
    column = texts([value or "" for value in values])
    valid = np.array([value is not None for value in values], np.bool_)
    _, offsets, data = column.buffers()
    validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.string(), len(values), [validity, offsets, data])


def integers(values: Sequence[int] | NDArray[np.int64]) -> pa.Int64Array:
    """Return a column of 64-bit integers."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.asarray(values, np.int64))])


def same_text(value: str, count: int) -> pa.StringArray:
    """Return a column of `count` copies of one string."""
    data = value.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data * count)]
    )


def same_integer(value: int, count: int) -> pa.Int64Array:
    """Return a column of `count` copies of one 64-bit integer."""
    return integers(np.full(count, value, np.int64))


def bytes_and_offsets(column: pa.StringArray | pa.BinaryArray) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Return the buffers of a whole column, which is not a slice of one.

    They are the bytes of all values, and the offset at which each value starts in them, followed by the one
    at which the last value ends.
    """
    _, offsets, data = column.buffers()
    return np.frombuffer(data, np.uint8), np.frombuffer(offsets, np.int32)[: len(column) + 1]


def _from_bytes(kind: pa.DataType, lengths: Iterable[int], data: bytes, count: int) -> pa.Array:
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, count), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, count, buffers)


RECORD_SCHEMA = pa.schema(
    [
        pa.field("stream", pa.string(), nullable=False),
        pa.field("shard_id", pa.string(), nullable=False),
        pa.field("sequence_number", pa.string(), nullable=False),
        pa.field("sub_sequence_number", pa.int64(), nullable=False),
        pa.field("partition_key", pa.string(), nullable=True),
        pa.field("data", pa.binary(), nullable=False),
        pa.field("approximate_arrival_timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("error", pa.string(), nullable=True),
    ]
)
"""One row for each record. `sub_sequence_number` is the index in the aggregate, from 0; it is 0 for a record
that is not part of one. `partition_key` is null if the producer set none, `error` if the record is sound."""


def record_batch(stream: str, shard_id: str, records: Sequence[Record]) -> pa.RecordBatch:
    """Return the records of one shard, in their order, as a batch of `RECORD_SCHEMA`."""
    if not isinstance(records, Records):
        records = Records.of(records)
    count = len(records)
    if records.subs is None:
        subs, errors = same_integer(0, count), pa.nulls(count, pa.string())
    else:
        subs = integers(records.subs)
        errors = texts_or_nulls(records.errors or [None] * count)
    return pa.RecordBatch.from_arrays(
        [
            same_text(stream, count),
            same_text(shard_id, count),
            records.number_column,
            subs,
            records.key_column,
            records.data_column,
            _timestamps(records.arrival_seconds),
            errors,
        ],
        schema=RECORD_SCHEMA,
    )


def _timestamps(seconds: NDArray[np.float64]) -> pa.Array:
    """Return arrival times, in seconds since the epoch, as a column, exact to the millisecond.

    The conversion is vectorized: a Python call for each record would double the cost of a batch.
    """
    microseconds = np.rint(seconds * 1000.0).astype(np.int64) * 1000
    buffers = [None, pa.py_buffer(microseconds)]
    return pa.Array.from_buffers(pa.timestamp("us", tz="UTC"), len(seconds), buffers)
