"""Arrow columns, built from buffers.

The first time that pyarrow converts Python objects (in `array`, `scalar`, `from_pydict` or a compute
function), it imports pandas if that is installed. Building from buffers spares each Spark worker this import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


def binaries(values: Sequence[bytes]) -> pa.BinaryArray:
    """Return a column of bytes. They are copied once; an Arrow builder copies them again when it grows."""
    return _from_bytes(pa.binary(), map(len, values), b"".join(values), len(values))


def texts(values: Sequence[str]) -> pa.StringArray:
    """Return a column of strings.

    Raises:
        UnicodeEncodeError: A string has no UTF-8 encoding.
    """
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


def bytes_and_offsets(
    column: pa.StringArray | pa.BinaryArray,
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Return a column's buffers.

    Args:
        column: A whole column, not a slice of one.

    Returns:
        The bytes of all values, and the offset at which each value starts in them, followed by the offset at
        which the last one ends.
    """
    _, offsets, data = column.buffers()
    return np.frombuffer(data, np.uint8), np.frombuffer(offsets, np.int32)[: len(column) + 1]


def _from_bytes(kind: pa.DataType, lengths: Iterable[int], data: bytes, count: int) -> pa.Array:
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, count), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, count, buffers)
