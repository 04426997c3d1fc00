"""Numbers as text, converted to integers and doubles without loss of digits.

Decimals, which are exact anyway, are in `spark_types`.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, ClassVar, Self

from pyspark.sql.types import ByteType, DataType, DoubleType, FloatType, IntegerType, LongType, ShortType

from kinesis_assets.decoders.spark_types import Float32, parse_number

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MOST_DIGITS = 19  # of an integer of 64 bits
_SHOWN = 100


def exact_number(value: Any, wanted: str) -> int | Decimal:
    """Convert a number, or its text, to an exact number.

    Raises:
        ValueError: It is something else.
    """
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            raise ValueError(f"{value[:_SHOWN]!r} is not a number")
        return parse_number(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError(f"Expected `{wanted}`, got `{type(value).__name__}`")  # noqa: TRY004  # for msgspec
    return value


class _Integer(int):
    __slots__ = ()
    bits: ClassVar[int]

    @classmethod
    def of(cls, value: Any) -> Self:
        """Convert an integer, or the text of one, as `12`, `12.0` or `1.2E+1`."""
        number = exact_number(value, "int")
        if number and isinstance(number, Decimal):
            if number.adjusted() < _MOST_DIGITS and number != number.to_integral_value():
                raise ValueError(f"{str(value)[:_SHOWN]!r} is not an integer")
            if number.adjusted() >= _MOST_DIGITS:
                raise ValueError("Number out of range")
        whole = cls(number)
        if not -(1 << cls.bits - 1) <= whole < 1 << cls.bits - 1:
            raise ValueError("Number out of range")
        return whole


class _Double(float):
    __slots__ = ()

    @classmethod
    def of(cls, value: Any) -> Self:
        """Convert a number, or its text, if a double has all its digits."""
        number = exact_number(value, "float")
        try:
            double = cls(number)
        except OverflowError:
            double = cls(math.inf)
        if math.isinf(double):
            raise ValueError("Number out of range")
        if Decimal(repr(float(double))) != number:
            raise ValueError(f"{str(value)[:_SHOWN]!r} has more digits than a double; declare a decimal")
        return double


class _Float(Float32):
    __slots__ = ()

    @classmethod
    def of(cls, value: Any) -> Self:
        """Convert a number, or its text, if a double has all its digits. It is rounded when it is stored."""
        return super().of(_Double.of(value))


def _integer(bits: int) -> type[_Integer]:
    return type("int", (_Integer,), {"__slots__": (), "bits": bits})


EXACT: dict[DataType, Any] = {
    ByteType(): _integer(8),
    ShortType(): _integer(16),
    IntegerType(): _integer(32),
    LongType(): _integer(64),
    FloatType(): _Float,
    DoubleType(): _Double,
}
"""Python types for numbers, which may be texts, see `value_type`."""
