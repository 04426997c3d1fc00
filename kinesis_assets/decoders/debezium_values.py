"""Values of columns as Debezium writes them: logical types, and values that are not available."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self
from uuid import UUID

import msgspec
from pyspark.sql.types import DataType, DateType, DecimalType, TimestampNTZType, TimestampType

from kinesis_assets.decoders.json_documents import TRUNCATED
from kinesis_assets.decoders.spark_types import ExactDecimal, converted, parse_number, value_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from decimal import Decimal

_MICROSECONDS = 1_000_000

_UNITS = {
    "io.debezium.time.Timestamp": 1000,
    "io.debezium.time.MicroTimestamp": _MICROSECONDS,
    "io.debezium.time.NanoTimestamp": 1_000_000_000,
    "org.apache.kafka.connect.data.Timestamp": 1000,
}
"""By the name of a schema, how many of its units a second has."""

_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_SCALE = re.compile(r"-?[0-9]{1,9}")
_MOST_BYTES = 100  # six times the size of Spark's longest decimal
_SHOWN = 100


def column_type(spark_type: DataType, schema: Mapping[str, Any] | None) -> Any:
    """Return the Python type with which values of a column are validated.

    Args:
        schema: The column's schema of Kafka Connect, if the record has it. Without it numbers in timestamps
            are microseconds, and texts in decimals are base64 of an integer with the scale of the decimal.
    """
    schemas = [*_nested(schema or {})]
    names = [str(each.get("name")) for each in schemas]
    unit = next((_UNITS[name] for name in names if name in _UNITS), _MICROSECONDS)
    scale = next((_scale(each) for each in schemas if each.get("name") == _DECIMAL), None)
    is_text = _DECIMAL not in names and any(each.get("type") == "string" for each in schemas)

    def chosen(kind: DataType, usual: Any) -> Any:
        if isinstance(kind, DateType):
            return _Days
        if isinstance(kind, TimestampType | TimestampNTZType):
            return _moments(kind, unit)
        if isinstance(kind, DecimalType):
            return _decimals(usual, None if is_text else kind.scale if scale is None else scale)
        return usual

    return value_type(spark_type, chosen)[0]


def _nested(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and those of its elements and values."""
    while isinstance(schema, dict):
        yield schema
        schema = schema.get("items") or schema.get("values")


def _scale(schema: Mapping[str, Any]) -> int | None:
    """Return the scale in the schema of a decimal, if it has one. Raises `msgspec.ValidationError`."""
    parameters = schema.get("parameters")
    scale = parameters.get("scale") if isinstance(parameters, dict) else None
    if scale is None:
        return None
    if not _SCALE.fullmatch(str(scale)):
        raise msgspec.ValidationError(f"{str(scale)[:_SHOWN]!r} is not the scale of a decimal")
    return int(scale)


class _Days(date):
    """A date that may be the number of days since 1970."""

    @classmethod
    def of(cls, value: Any) -> Self:
        if isinstance(value, int) and not isinstance(value, bool):
            try:
                return cls.fromordinal(_FIRST_DAY + value)
            except (ValueError, OverflowError):
                raise ValueError(f"{value} is out of range") from None
        day = converted(value.removesuffix("Z") if isinstance(value, str) else value, date)
        return cls.fromordinal(day.toordinal())


_FIRST_DAY = date(1970, 1, 1).toordinal()


class _Moment(datetime):
    """A timestamp that may be a number since 1970."""

    unit: ClassVar[int]
    epoch: ClassVar[datetime]
    text: ClassVar[Any]

    @classmethod
    def of(cls, value: Any) -> Self:
        if isinstance(value, int) and not isinstance(value, bool):
            try:
                moment = cls.epoch + timedelta(microseconds=value * _MICROSECONDS // cls.unit)
            except OverflowError:
                raise ValueError(f"{value} is out of range") from None
        else:
            if cls.epoch.tzinfo is None and isinstance(value, str):
                value = value.removesuffix("Z")  # as IsoTimestamp has it, whose time zone is unknown
            moment = cls.text.of(value)
        return cls.combine(moment.date(), moment.timetz())


@lru_cache
def _moments(kind: DataType, unit: int) -> type[_Moment]:
    epoch = datetime(1970, 1, 1, tzinfo=None if isinstance(kind, TimestampNTZType) else UTC)
    return type("datetime", (_Moment,), {"unit": unit, "epoch": epoch, "text": TRUNCATED[kind]})


class _ConnectDecimal(ExactDecimal):
    """A decimal that may be base64 of an unscaled integer.

    Attributes:
        scale: The scale of such integers; None if texts are numbers.
    """

    __slots__ = ()
    scale: ClassVar[int | None]

    @classmethod
    def of(cls, value: Any) -> Self:
        if isinstance(value, str) and cls.scale is not None:
            value = _scaled(value, cls.scale)
        elif isinstance(value, dict):
            scale = value.get("scale")
            if not isinstance(scale, int) or isinstance(scale, bool):
                raise ValueError("Expected an object with `scale` and `value`")
            value = _scaled(value.get("value"), scale)
        return super().of(value)


def _decimals(usual: type[ExactDecimal], scale: int | None) -> type[_ConnectDecimal]:
    members = {"__slots__": (), "unit": usual.unit, "context": usual.context, "scale": scale}
    return type(usual.__name__, (_ConnectDecimal,), members)


def _scaled(text: Any, scale: int) -> Decimal:
    """Return the decimal with an unscaled integer in two's complement, as base64."""
    try:
        unscaled = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        unscaled = b""
    if not 0 < len(unscaled) <= _MOST_BYTES:
        raise ValueError(
            f"{str(text)[:_SHOWN]!r} is not base64 of an integer, as decimal.handling.mode=precise writes it"
        )
    return parse_number(f"{int.from_bytes(unscaled, signed=True)}E{-scale}")


_PLACEHOLDER = b"__debezium_unavailable_value"
_TEXT = _PLACEHOLDER.decode()
_BASE64 = base64.b64encode(_PLACEHOLDER).decode()
_UUID = str(UUID(bytes=hashlib.md5(_PLACEHOLDER, usedforsecurity=False).digest(), version=3))
_DECIMALS = [base64.b64encode(bytes([byte])).decode() for byte in _PLACEHOLDER]

_NOT_AVAILABLE: tuple[Any, ...] = (
    _TEXT,
    _BASE64,
    [_TEXT],
    [_BASE64],
    [_UUID],
    [*_PLACEHOLDER],
    _DECIMALS,
    {_TEXT: _TEXT},
    f'{{"{_TEXT}":"{_TEXT}"}}',
)
"""What Debezium writes for a value that PostgreSQL did not log, by the type of the column.

An array of texts has the placeholder as its only element, others have one of its bytes in each element. That
of an array of booleans is not distinguished from values.
"""

_MARKS = (
    _TEXT,
    _BASE64,
    _UUID,
    "95,95,100,101",
    "95.0,95.0,100.0,101.0",
    ",".join(f'"{x}"' for x in _DECIMALS[:4]),
)
"""Texts of which one is in each document with such a value."""


def may_lack_values(document: str) -> bool:
    """Return whether a document may have a value that is not available."""
    return any(mark in document for mark in _MARKS)


def is_available(value: Any) -> bool:
    """Return whether a decoded value is not a placeholder."""
    return value not in _NOT_AVAILABLE
