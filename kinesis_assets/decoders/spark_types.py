"""Conversion of Spark types to the Python types that validate values and the Arrow types that store them.

Decimals and 32-bit floats, whose range msgspec does not check. A number out of range is an error.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Required, Self, TypedDict

import msgspec
import pyarrow as pa
import pyspark.sql.types as spark_types
from msgspec import Meta
from pyspark.errors import AnalysisException, ArithmeticException

from kinesis_assets.decoders.decoder import Undecodable
from kinesis_assets.errors import InvalidInput
from kinesis_assets.spark.pyspark_internals import error_condition, parse_ddl, require_spark_4

if TYPE_CHECKING:
    from collections.abc import Callable


_ENCODER = msgspec.json.Encoder(decimal_format="number")


class JsonText(str):
    """The JSON text of a value. It has the value's digits, but not its whitespace."""

    __slots__ = ()

    @classmethod
    def of(cls, value: Any) -> Self:
        """Convert a decoded value, whose numbers have not been rounded."""
        if value is None:
            raise ValueError("Expected a value, got `null`")
        return cls(_ENCODER.encode(value).decode())


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
        # Python reads "1_000" and digits of all scripts as numbers, other readers of the same text do not.
        is_plain = not isinstance(value, str) or (value.isascii() and "_" not in value)
        try:
            number = cls.context.quantize(Decimal(value), cls.unit)
        except (InvalidOperation, Inexact):
            number = Decimal("NaN")
        if not is_plain or not number.is_finite():
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


_typed_dict: Any = TypedDict  # for mypy: the fields are only known at run time


def _integer(bits: int) -> Any:
    return Annotated[int, Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]


_PLAIN: dict[spark_types.DataType, tuple[Any, pa.DataType]] = {
    spark_types.BooleanType(): (bool, pa.bool_()),
    spark_types.ByteType(): (_integer(8), pa.int8()),
    spark_types.ShortType(): (_integer(16), pa.int16()),
    spark_types.IntegerType(): (_integer(32), pa.int32()),
    spark_types.LongType(): (_integer(64), pa.int64()),
    spark_types.FloatType(): (Float32, pa.float32()),
    spark_types.DoubleType(): (float, pa.float64()),
    spark_types.StringType(): (str, pa.string()),
    spark_types.BinaryType(): (bytes, pa.binary()),
    spark_types.DateType(): (date, pa.date32()),
    spark_types.TimestampType(): (Annotated[datetime, Meta(tz=True)], pa.timestamp("us", tz="UTC")),
    spark_types.TimestampNTZType(): (Annotated[datetime, Meta(tz=False)], pa.timestamp("us")),
}

_VARIANT: Any = getattr(spark_types, "VariantType", ())
"""The class of Spark 4. No object is an instance of an empty tuple."""

if _VARIANT:
    _PLAIN[_VARIANT()] = (JsonText, pa.string())

_MENTIONS_VARIANT = re.compile(r"\bvariant\b", re.IGNORECASE)


def parse_type(spark_type: str | spark_types.DataType) -> spark_types.DataType:
    """Parse a Spark type in DDL (`order_id long, amount double`; `array<long>`). Objects are returned as is.

    Raises:
        InvalidInput: The text is not a type of the installed Spark.
    """
    if not isinstance(spark_type, str):
        return spark_type
    try:
        return parse_ddl(spark_type)
    except (AnalysisException, ArithmeticException) as error:
        if _MENTIONS_VARIANT.search(spark_type):
            require_spark_4("the type variant")
        raise InvalidInput(
            f"{spark_type!r} is not a Spark type: {error_condition(error)}; correct it"
        ) from error


def value_type(
    spark_type: spark_types.DataType,
    chosen: Callable[[spark_types.DataType, Any], Any] = lambda _, usual: usual,
) -> tuple[Any, pa.DataType]:
    """Return the Python type with which msgspec validates values, and the Arrow type that stores them.

    A struct is a dict. A nullable field may be missing; all other fields are required.

    Args:
        chosen: Returns the Python type for a Spark type without fields and elements, of which it gets the
            usual one too.
    """
    if isinstance(spark_type, spark_types.StructType):
        return _struct(spark_type, chosen)
    if isinstance(spark_type, spark_types.ArrayType):
        element, arrow_type = value_type(spark_type.elementType, chosen)
        return list[_nullable(element, spark_type.containsNull)], pa.list_(arrow_type)  # type: ignore[misc]
    if isinstance(spark_type, spark_types.MapType) and spark_type.keyType == spark_types.StringType():
        element, arrow_type = value_type(spark_type.valueType, chosen)
        element = _nullable(element, spark_type.valueContainsNull)
        return dict[str, element], pa.map_(pa.string(), arrow_type)  # type: ignore[valid-type]
    if isinstance(spark_type, spark_types.DecimalType):
        precision, scale = spark_type.precision, spark_type.scale
        return chosen(spark_type, decimal_type(precision, scale)), pa.decimal128(precision, scale)
    if spark_type not in _PLAIN:
        raise InvalidInput(
            f"the type {spark_type.simpleString()} is not supported; use a struct, array, map with string "
            "keys, decimal, variant, or a plain boolean, number, string, binary, date or timestamp"
        )
    usual, arrow_type = _PLAIN[spark_type]
    return chosen(spark_type, usual), arrow_type


def convert(kind: Any, value: Any) -> Any:
    """Convert a value to one of the types of this package, as msgspec's `dec_hook`."""
    return kind.of(value)


def converted(value: Any, kind: Any) -> Any:
    """Convert a value with msgspec within `convert`: msgspec adds the path to a `ValueError` alone."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(error) from error


_PASSED_THROUGH = (bytes, date, datetime, Decimal)
"""Types of which msgspec would otherwise accept text."""


def converter(spark_type: spark_types.DataType) -> Callable[[Any], Any]:
    """Create a function that checks a value against a type, or raises `Undecodable`, for decoders.

    The value consists of dicts, lists and the Python types of `value_type`. It is not converted, except for
    an integer where a float is expected. A field that the type lacks is left out.
    """
    expected, _ = value_type(spark_type)

    def checked(value: Any) -> Any:
        try:
            return msgspec.convert(value, expected, builtin_types=_PASSED_THROUGH, dec_hook=convert)
        except msgspec.ValidationError as error:
            raise Undecodable(str(error)) from error

    return checked


def decoded_type(spark_type: spark_types.DataType) -> spark_types.DataType:
    """Return the type of decoded values: every nested value may be null, and a variant is JSON text."""
    return nullable(spark_type, variant=spark_types.StringType())


def nullable(
    spark_type: spark_types.DataType, *, variant: spark_types.DataType | None = None
) -> spark_types.DataType:
    """Return a type in which every nested value may be null.

    Args:
        variant: The type in the place of variants; None if they stay.
    """
    if isinstance(spark_type, spark_types.StructType):
        return spark_types.StructType(
            [
                spark_types.StructField(field.name, nullable(field.dataType, variant=variant))
                for field in spark_type.fields
            ]
        )
    if isinstance(spark_type, spark_types.ArrayType):
        return spark_types.ArrayType(nullable(spark_type.elementType, variant=variant))
    if isinstance(spark_type, spark_types.MapType):
        return spark_types.MapType(spark_type.keyType, nullable(spark_type.valueType, variant=variant))
    if isinstance(spark_type, _VARIANT) and variant is not None:
        return variant
    return spark_type


def _struct(
    spark_type: spark_types.StructType, chosen: Callable[[spark_types.DataType, Any], Any]
) -> tuple[Any, pa.DataType]:
    if len(set(spark_type.names)) < len(spark_type.names):
        raise InvalidInput(
            f"the type {spark_type.simpleString()} has two fields with the same name; rename one"
        )
    expected = {}
    fields = []
    for field in spark_type.fields:
        element, arrow_type = value_type(field.dataType, chosen)
        expected[field.name] = element | None if field.nullable else Required[element]
        fields.append(pa.field(field.name, arrow_type))
    return typed_dict(expected), pa.struct(fields)


def typed_dict(fields: dict[str, Any]) -> Any:
    """Return the type of dicts with these fields, all of which may be missing, unless they are `Required`."""
    for name in fields:
        # msgspec finds a name beyond ASCII only if Python has cached its UTF-8, as this encoding makes it do.
        # Source: https://github.com/msgspec/msgspec/pull/1126
        msgspec.json.encode(name)
    return _typed_dict("struct", fields, total=False)


def _nullable(element: Any, nullable: bool) -> Any:
    return element | None if nullable else element
