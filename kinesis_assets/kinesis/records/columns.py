"""Arrow columns made of their bytes.

Where pyarrow is given Python's objects (by `array`, `scalar`, `from_pydict`, or to compute with), it imports
pandas the first time, if that is installed: each of Spark's workers would pay for it, and none needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


def binaries(values: Sequence[bytes]) -> pa.BinaryArray:
    """A column of bytes, copied once: a builder would copy them again whenever it grows."""
    return _of_bytes(pa.binary(), map(len, values), b"".join(values), len(values))


def texts(values: Sequence[str]) -> pa.StringArray:
    """A column of texts, which UTF-8 has."""
    together = "".join(values)
    if together.isascii():
        return _of_bytes(pa.string(), map(len, values), together.encode(), len(values))
    encoded = [value.encode() for value in values]
    return _of_bytes(pa.string(), map(len, encoded), b"".join(encoded), len(values))


def texts_or_nulls(values: Sequence[str | None]) -> pa.StringArray:
    """A column of texts, where None is null."""
    column = texts([value or "" for value in values])
    there = np.array([value is not None for value in values], np.bool_)
    _, ends, data = column.buffers()
    mask = pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(pa.string(), len(values), [mask, ends, data])


def integers(values: Sequence[int] | NDArray[np.int64]) -> pa.Int64Array:
    """A column of 64-bit integers."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.asarray(values, np.int64))])


def same_text(value: str, count: int) -> pa.StringArray:
    """A column of one text, so many times."""
    data = value.encode()
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(data * count)])


def same_integer(value: int, count: int) -> pa.Int64Array:
    """A column of one 64-bit integer, so many times."""
    return integers(np.full(count, value, np.int64))


def letters(column: pa.StringArray | pa.BinaryArray) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """All bytes of a whole column, and where each of its values begins in them; at last, where all end."""
    _, begins, data = column.buffers()
    return np.frombuffer(data, np.uint8), np.frombuffer(begins, np.int32)[: len(column) + 1]


def _of_bytes(kind: pa.DataType, lengths: Iterable[int], data: bytes, count: int) -> pa.Array:
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, count), out=ends[1:])
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)])
