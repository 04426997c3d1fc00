"""Decimals and 32-bit floats, whose range msgspec does not check. A number out of range is an error."""

from __future__ import annotations

import math
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, ClassVar, Self

_LARGEST_FLOAT32 = 3.4028234663852886e38


class Float32(float):
    """A number in the range of 32-bit floats. Like any float, it is rounded when it is stored."""

    __slots__ = ()

    @classmethod
    def of(cls, value: Any) -> Self:
        """Convert a number. Infinities and NaN, which exist in Avro but not in JSON, are unchanged."""
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise ValueError(f"Expected `float`, got `{type(value).__name__}`")  # noqa: TRY004  # for msgspec
        non_finite = isinstance(value, float) and not math.isfinite(value)
        number = cls(Decimal(value))
        if not non_finite and abs(number) > _LARGEST_FLOAT32:
            raise ValueError("Number out of range")
        return number


class ExactDecimal(Decimal):
    """A decimal of a fixed precision and scale. `decimal_type` creates a subclass for each of them."""

    __slots__ = ()
    unit: ClassVar[Decimal]
    context: ClassVar[Context]

    @classmethod
    def of(cls, value: Any) -> Self:
        """Convert a number or its text without loss of digits.

        Raises:
            ValueError: The value is not a number or needs a higher precision or scale.
        """
        if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
            raise ValueError(f"Expected `decimal`, got `{type(value).__name__}`")  # noqa: TRY004  # for msgspec
        try:
            number = cls.context.quantize(Decimal(value), cls.unit)
        except (InvalidOperation, Inexact):
            number = Decimal("NaN")
        if not number.is_finite():
            raise ValueError(f"{str(value)[:100]!r} is not a {cls.__name__}")
        return cls(number)


def decimal_type(precision: int, scale: int) -> type[ExactDecimal]:
    """Create the type of the decimals that fit into Spark's `decimal(precision, scale)`."""
    # No other decimal may reach Arrow, which crashes on numbers such as 1E-999999999.
    context = Context(prec=precision, traps=[InvalidOperation, Inexact])
    members = {"__slots__": (), "unit": Decimal(1).scaleb(-scale), "context": context}
    return type(f"decimal({precision},{scale})", (ExactDecimal,), members)


def parse_number(text: str) -> Decimal:
    """Parse a number with a fraction or an exponent without rounding, as msgspec's `float_hook`."""
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError("Number out of range") from error
