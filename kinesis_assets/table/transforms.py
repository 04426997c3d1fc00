"""The partition values of rows: those of columns, and of Iceberg's transforms of columns.

Spark tasks import this module, and executors have no pyiceberg. So transforms are computed here, as Iceberg's
specification defines them ("Partition Transforms" and "Appendix B: 32-bit Hash Requirements"). Values are
texts, by which files are grouped, folders are named, and manifests of tasks name them.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from kinesis_assets.table.partition_field import PartitionField

    Numbers = npt.NDArray[np.int64]
    Hashes = npt.NDArray[np.uint32]

TIME_UNITS: dict[str, Any] = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
"""The unit of the value of each transform of a time, since 1970, as NumPy names it."""

_EXACT = Context(prec=76)
"""No decimal has as many digits."""


def partition_texts(field: PartitionField, values: pa.Array) -> pa.Array:
    """Return the partition values of values of a column, as texts. That of null is null.

    Args:
        values: Texts must be UTF-8.

    Raises:
        ValueError: A date of a partition column is not in the years 1 to 9999: no program could open the
            table any more. Or a truncated number is smaller than the type of the column allows.
    """
    if field.transform == "identity":
        return _texts_of_column(field.column, values)
    if field.transform in TIME_UNITS:
        return _texts_of(values, _times(values, TIME_UNITS[field.transform]))
    size = field.parameter or 1
    if field.transform == "bucket":
        return _texts_of(values, _buckets(values, size))
    try:
        return _truncated(values, size)
    except OverflowError as error:
        raise ValueError(f"{field} cannot be that of {error}; replace such numbers") from None


def _texts_of_column(name: str, values: pa.Array) -> pa.Array:
    texts = values.cast(pa.string())
    if pa.types.is_date(values.type):
        valid = pc.match_substring_regex(texts, r"^\d{4}-")
        if not pc.all(valid, min_count=0).as_py():
            wrong = texts.filter(pc.invert(valid))[0]
            raise ValueError(f"the partition column {name} cannot have the date {wrong}; replace such dates")
    return texts


def _texts_of(values: pa.Array, found: npt.NDArray[Any]) -> pa.Array:
    """Return the texts of what was found for values; null where these are null."""
    different, numbers = np.unique(found, return_inverse=True)
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    texts = pa.array(different.astype(str).tolist(), pa.string())
    return texts.take(pa.array(numbers, pa.int64(), mask=is_null))


def _numbers(values: pa.Array) -> Numbers:
    """Return dates as days since 1970, timestamps as microseconds, and integers. Null is 0."""
    if pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    found: Numbers = values.cast(pa.int64()).fill_null(0).to_numpy()
    return found


def _times(values: pa.Array, unit: str) -> npt.NDArray[np.datetime64]:
    """Return dates or timestamps in a unit, which are rounded down, also before 1970."""
    stored = "D" if pa.types.is_date(values.type) else "us"
    return _numbers(values).astype(f"datetime64[{stored}]").astype(f"datetime64[{unit}]")


def _truncated(values: pa.Array, size: int) -> pa.Array:
    """Return the texts of values that are truncated to a length, or to a multiple of a number."""
    if pa.types.is_string(values.type):
        return pc.utf8_slice_codeunits(values, 0, size)  # which counts code points, as Iceberg does
    if pa.types.is_binary(values.type):
        return _each(values, lambda value: value[:size].hex())
    if pa.types.is_decimal(values.type):
        return _each(values, lambda value: _truncated_decimal(value, size, values.type))
    numbers = _numbers(values)
    smallest = -(1 << values.type.bit_width - 1)
    if (is_below := numbers < smallest + numbers % size).any():
        raise OverflowError(f"{numbers[is_below][0]}")
    return _texts_of(values, numbers - numbers % size)


def _truncated_decimal(value: Decimal, size: int, kind: pa.Decimal128Type) -> str:
    truncated = _unscaled(value, kind.scale) // size * size
    if abs(truncated) >= 10**kind.precision:
        raise OverflowError(f"{value}")
    return f"{Decimal(truncated).scaleb(-kind.scale, _EXACT):f}"


def _each(values: pa.Array, text: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else text(value) for value in values.to_pylist()], pa.string())


def _unscaled(value: Decimal, scale: int) -> int:
    return int(value.scaleb(scale, _EXACT))


def _buckets(values: pa.Array, count: int) -> Numbers:
    """Return the numbers of the buckets of values, of which there are some."""
    if pa.types.is_decimal(values.type):
        scale = values.type.scale
        contents = [
            None if value is None else _two_s_complement(_unscaled(value, scale))
            for value in values.to_pylist()
        ]
        hashes = _hashes_of(pa.array(contents, pa.binary()))
    elif pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        hashes = _hashes_of(values.cast(pa.binary()))
    else:
        numbers = _numbers(values).astype("<i8")
        starts = np.arange(0, numbers.nbytes, numbers.itemsize)
        hashes = _murmur3(numbers.view(np.uint8), starts, np.full(len(numbers), numbers.itemsize))
    buckets: Numbers = (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % count
    return buckets


def _two_s_complement(number: int) -> bytes:
    """Return an integer in the fewest bytes, the most significant one first."""
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _hashes_of(values: pa.Array) -> Hashes:
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    contents = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return _murmur3(contents, bounds[:-1], np.diff(bounds))


def _murmur3(data: npt.NDArray[np.uint8], starts: Numbers, lengths: Numbers) -> Hashes:
    """Return the hashes of parts of data: Murmur3 for x86 with 32 bits and the seed 0 (Austin Appleby)."""
    hashes = np.zeros(len(starts), np.uint32)
    for block in range(int(lengths.max(initial=0)) // 4):
        rows = np.flatnonzero(lengths >= 4 * (block + 1))
        places = starts[rows, None] + (4 * block + np.arange(4))
        words = _mixed(data[places].view("<u4").ravel())
        hashes[rows] = _rotated(hashes[rows] ^ words, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    tails = np.zeros(len(starts), np.uint32)
    for place in range(3):
        rows = np.flatnonzero(lengths % 4 > place)
        found = data[starts[rows] + lengths[rows] // 4 * 4 + place].astype(np.uint32)
        tails[rows] |= found << np.uint32(8 * place)
    hashes ^= _mixed(tails)  # that of 0 is 0
    hashes ^= lengths.astype(np.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashes = (hashes ^ (hashes >> np.uint32(shift))) * np.uint32(factor)
    return hashes ^ (hashes >> np.uint32(16))


def _mixed(words: Hashes) -> Hashes:
    return _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _rotated(words: Hashes, bits: int) -> Hashes:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
