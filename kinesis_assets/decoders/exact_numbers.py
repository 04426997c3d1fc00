"""Decimals and 32-bit floats, which msgspec does not check: a number that does not fit is an error."""

from __future__ import annotations

import math
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, ClassVar, Self

_LARGEST_FLOAT = 3.4028234663852886e38  # of 32 bits


class Float32(float):
    """A number in the range of 32-bit floats. It is rounded when it is stored, as every float is."""

    __slots__ = ()

    @classmethod
    def of(cls, value: Any) -> Self:
        """From a number; infinities and NaN (which Avro has, JSON not) stay what they are."""
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise ValueError(f"Expected `float`, got `{type(value).__name__}`")  # noqa: TRY004  # for msgspec
        endless = isinstance(value, float) and not math.isfinite(value)
        number = cls(Decimal(value))
        if not endless and abs(number) > _LARGEST_FLOAT:
            raise ValueError("Number out of range")
        return number


class ExactDecimal(Decimal):
    """A decimal of a given precision and scale, which its subclasses tell; made by `decimal_type`."""

    __slots__ = ()
    unit: ClassVar[Decimal]
    context: ClassVar[Context]

    @classmethod
    def of(cls, value: Any) -> Self:
        """From a number or its text, if neither digits nor fractions are lost."""
        if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
            raise ValueError(f"Expected `decimal`, got `{type(value).__name__}`")  # noqa: TRY004  # for msgspec
        try:
            number = cls.context.quantize(Decimal(value), cls.unit)
        except (InvalidOperation, Inexact):
            number = Decimal("NaN")
        if not number.is_finite():
            raise ValueError(f"{str(value)[:100]!r} is no {cls.__name__}")
        return cls(number)


def decimal_type(precision: int, scale: int) -> type[ExactDecimal]:
    """The type of decimals that Spark's `decimal(precision, scale)` holds."""
    # Arrow must not get another one: it crashes on such as 1E-999999999.
    context = Context(prec=precision, traps=[InvalidOperation, Inexact])
    members = {"__slots__": (), "unit": Decimal(1).scaleb(-scale), "context": context}
    return type(f"decimal({precision},{scale})", (ExactDecimal,), members)


def convert_number(kind: Any, value: Any) -> Any:
    """A hook of msgspec: the value of a type that it does not know, one of these."""
    return kind.of(value)


def parse_number(text: str) -> Decimal:
    """A hook of msgspec: a number with a fraction or an exponent, for a type that it does not know."""
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError("Number out of range") from error
