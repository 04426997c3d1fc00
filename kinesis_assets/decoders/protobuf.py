"""Protobuf messages, decoded by their descriptors to a Spark type."""

from __future__ import annotations

import keyword
from dataclasses import dataclass, replace
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import msgspec
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.types import ArrayType, MapType, NumericType, StructType

from kinesis_assets.decoders.decoder import Undecodable, value_step
from kinesis_assets.decoders.spark_types import JsonText, convert, parse_type, value_type
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.protobuf_schema import (
    is_map,
    is_repeated,
    is_required,
    is_wrapper,
    own_type,
    plain_type,
    protobuf_columns,
    read_message,
    validates_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
    from pyspark.sql.types import DataType

    from kinesis_assets.decoders.decoder import DecoderSettings, Step

_SECONDS = range(-62_135_596_800, 253_402_300_800)
"""The seconds of the years 1 to 9999, which are those of a google.protobuf.Timestamp."""

_LONGEST = 315_576_000_000
"""The seconds that a google.protobuf.Duration has at most."""

_BILLION = 1_000_000_000


@dataclass(frozen=True)
class Protobuf:
    """Decode records that are one Protobuf message each, without a header.

    Attributes:
        descriptors: A descriptor set, as `protoc --include_imports --descriptor_set_out=...` writes it.
        message: The full name of the message, as in shop.Order.
        spark_type: The type as DDL or as a Spark type; by default that of the message. Fields are matched by
            their exact names, as for `Json`.
    """

    descriptors: bytes
    message: str
    spark_type: str | DataType | None = None
    name: ClassVar[str] = "protobuf"

    def __post_init__(self) -> None:
        message = read_message(self.descriptors, self.message)
        if self.spark_type is None:
            object.__setattr__(self, "spark_type", protobuf_columns(message))

    @classmethod
    def from_settings(cls, settings: DecoderSettings) -> Self:
        """See `DecoderSettings`."""
        return cls(settings.file, settings.message, settings.schema)

    def resolved(self) -> Self:
        """Return a copy with a parsed type; see `Decoder`."""
        spark_type = parse_type(cast("str | DataType", self.spark_type))
        try:
            protobuf_reader(read_message(self.descriptors, self.message), spark_type)
        except Undecodable as error:
            raise InvalidInput(f"the type does not fit the message: {error}; correct it") from None
        return replace(self, spark_type=spark_type)

    def make_step(self) -> Step:
        """See `Decoder`."""
        message = read_message(self.descriptors, self.message)
        return value_step(protobuf_reader(message, cast("DataType", self.spark_type), as_tuples=True))


def protobuf_reader(
    message: Descriptor, spark_type: DataType, *, as_tuples: bool = False
) -> Callable[[bytes], Any]:
    """Create a function that decodes a message or raises `Undecodable`.

    Args:
        as_tuples: Whether structs are tuples and not dicts. Arrow converts them in half the time, but refuses
            an array that has both.

    Raises:
        Undecodable: The type does not fit the message.
    """
    if not isinstance(spark_type, StructType):
        raise Undecodable(f"a message is a struct, and not {spark_type.simpleString()}")
    value_type(spark_type)  # raises InvalidInput for a type that is not supported
    parse = GetMessageClass(message).FromString
    value_of = _struct_reader(message, spark_type, "", as_tuples=as_tuples)
    may_lack = _has_required_field(message, set())

    def read(data: bytes) -> Any:
        try:
            parsed = parse(data)
            if may_lack and not parsed.IsInitialized():
                missing = ", ".join(parsed.FindInitializationErrors())
                raise Undecodable(f"the record lacks required fields of {message.full_name}: {missing}")
            return value_of(parsed)
        except (DecodeError, UnicodeDecodeError) as error:
            raise Undecodable(f"the record is not a {message.full_name}: {error}") from error

    return read


def _has_required_field(message: Descriptor, seen: set[str]) -> bool:
    """Return whether a message, or one within it, has a required field, which only proto2 has."""
    if message.full_name in seen:
        return False
    seen.add(message.full_name)
    return any(
        is_required(field)
        or (field.message_type is not None and _has_required_field(field.message_type, seen))
        for field in message.fields
    )


class _Source:
    """The source of a function that converts a message, and the helpers that it calls.

    Python evaluates one expression with all fields of a message, and of those within it, twice as fast as it
    calls a function for each of them. Only names that Protobuf has accepted, and those of helpers, enter the
    source.
    """

    def __init__(self, *, as_tuples: bool) -> None:
        self.as_tuples = as_tuples
        self._helpers: dict[str, Any] = {"__builtins__": {}}
        self._variables = 0

    def helper(self, function: Any) -> str:
        name = f"_{len(self._helpers)}"
        self._helpers[name] = function
        return name

    def variable(self) -> str:
        self._variables += 1
        return f"m{self._variables}"

    def compiled(self, expression: str) -> Callable[[Any], Any]:
        return cast("Callable[[Any], Any]", eval(f"lambda m: {expression}", self._helpers))  # noqa: S307  # see the class


def _struct_reader(
    message: Descriptor, spark_type: StructType, path: str, *, as_tuples: bool
) -> Callable[[Any], Any]:
    source = _Source(as_tuples=as_tuples)
    return source.compiled(_struct(source, message, spark_type, path, "m"))


def _struct(source: _Source, message: Descriptor, spark_type: StructType, path: str, parsed: str) -> str:
    """Return the source of the value of a struct.

    Args:
        parsed: The variable of the parsed message.
    """
    values = []
    for wanted in spark_type.fields:
        place = f"{path}.{wanted.name}"
        field = message.fields_by_name.get(wanted.name)
        value = "None" if field is None else _field(source, field, wanted.dataType, place, parsed)
        if not wanted.nullable:
            value = f"{source.helper(_required(place))}({value})"
        values.append(value if source.as_tuples else f"{wanted.name!r}: {value}")
    content = "".join(f"{value}, " for value in values)
    return f"({content})" if source.as_tuples else f"{{{content}}}"


def _field(source: _Source, field: FieldDescriptor, wanted: DataType, place: str, parsed: str) -> str:
    """Return the source of the value of a field, which is null if the field has presence and is not set."""
    value = f"{parsed}.{field.name}"
    if keyword.iskeyword(field.name):
        value = f"{source.helper(attrgetter(field.name))}({parsed})"
    if is_map(field):
        if not isinstance(wanted, MapType):
            raise _mismatch(place, "a map", wanted)
        of_key, of_value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        key = (
            "k" if plain_type(of_key) == "STRING" and validates_text(of_key) else f"{source.helper(_key)}(k)"
        )
        inner = _element(source, of_value, wanted.valueType, place)
        return f"{{{key}: {inner} for k, v in {value}.items()}}"
    if is_repeated(field):
        if not isinstance(wanted, ArrayType):
            raise _mismatch(place, "repeated", wanted)
        inner = _element(source, field, wanted.elementType, place)
        return f"{value}[:]" if inner == "v" else f"[{inner} for v in {value}]"
    if not field.has_presence or field.has_default_value:
        return _value(source, field, wanted, place, value)
    # The method of the class, because a field may have its name.
    is_set = f"{source.helper(GetMessageClass(field.containing_type).HasField)}({parsed}, {field.name!r})"
    message = field.message_type
    if message is None or own_type(message) is not None:
        return f"{_value(source, field, wanted, place, value)} if {is_set} else None"
    within = source.variable()
    inner = _struct(source, message, _struct_type(message, wanted, place), place, within)
    return f"{inner} if {is_set} and ({within} := {value}) is not None else None"


def _element(source: _Source, field: FieldDescriptor, wanted: DataType, place: str) -> str:
    """Return the source of the value of an element `v`."""
    message = field.message_type
    if message is None or own_type(message) is not None:
        return _value(source, field, wanted, place, "v")
    # Python limits how deep the brackets of an expression are nested.
    read = _struct_reader(message, _struct_type(message, wanted, place), place, as_tuples=source.as_tuples)
    return f"{source.helper(read)}(v)"


def _struct_type(message: Descriptor, wanted: DataType, place: str) -> StructType:
    if not isinstance(wanted, StructType):
        raise _mismatch(place, f"a {message.full_name}", wanted)
    return wanted


def _value(source: _Source, field: FieldDescriptor, wanted: DataType, place: str, value: str) -> str:
    """Return the source of a value that is set and no struct: of a field, or of an element of one."""
    message = field.message_type
    ddl = cast("str", plain_type(field) if message is None else own_type(message))
    if message is not None and is_wrapper(message):
        value = f"{value}.value"
    elif message is not None:
        value = f"{source.helper(_OWN[message.full_name] if message.fields else _present)}({value})"
    elif field.enum_type is not None:
        value = f"{source.helper(_EnumNames(field.enum_type))}[{value}]"
    elif ddl == "STRING" and not validates_text(field):
        value = f"{source.helper(_text)}({value})"
    if wanted.simpleString() == ddl.replace(" ", "").lower():
        return f"{source.helper(Decimal)}({value})" if ddl == _UINT64 else value
    if not isinstance(wanted, NumericType) or ddl not in _NUMBERS:
        raise _mismatch(place, ddl, wanted)
    return f"{source.helper(_number(wanted, place))}({value})"


_UINT64 = "DECIMAL(20, 0)"
_NUMBERS = {"INT", "BIGINT", "FLOAT", "DOUBLE", _UINT64}
"""The types whose values are converted to another type of numbers if they fit."""


def _mismatch(place: str, found: str, wanted: DataType) -> Undecodable:
    return Undecodable(f"Expected `{wanted.simpleString()}`, the message has {found} - at `${place}`")


class _EnumNames(dict[int, str]):
    """The names of the values of an enum. A value that it does not have is its number as text."""

    def __init__(self, enum: EnumDescriptor) -> None:
        super().__init__(
            (value.number, value.name) for value in reversed(enum.values)
        )  # the first of aliases

    def __missing__(self, number: int) -> str:
        return str(number)


def _required(place: str) -> Callable[[Any], Any]:
    def required(value: Any) -> Any:
        if value is None:
            raise Undecodable(f"Expected a value, got `null` - at `${place}`")
        return value

    return required


def _number(wanted: DataType, place: str) -> Callable[[Any], Any]:
    expected, _ = value_type(wanted)

    def number(value: Any) -> Any:
        try:
            return msgspec.convert(value, expected, builtin_types=(Decimal,), dec_hook=convert)
        except msgspec.ValidationError as error:
            raise Undecodable(f"{error} - at `${place}`") from error

    return number


def _key(key: int | bool | str | bytes) -> str:
    return str(key).lower() if isinstance(key, int) else _text(key)


def _text(text: str | bytes) -> str:
    """Return text; Protobuf returns that of proto2 as bytes if it is not UTF-8, which raises the error."""
    return text.decode() if isinstance(text, bytes) else text


def _present(_: Any) -> bool:
    return True


def _timestamp(value: Any) -> int:
    """Return microseconds, which is how Arrow stores a timestamp. Digits beyond them are cut off."""
    seconds, nanos = value.seconds, value.nanos
    if seconds not in _SECONDS or not 0 <= nanos < _BILLION:
        raise Undecodable(f"a timestamp is out of range: {seconds} seconds and {nanos} nanoseconds")
    microseconds: int = seconds * 1_000_000 + nanos // 1000
    return microseconds


def _duration(value: Any) -> Decimal:
    seconds, nanos = value.seconds, value.nanos
    if abs(seconds) > _LONGEST or abs(nanos) >= _BILLION or seconds * nanos < 0:
        raise Undecodable(f"a duration is out of range: {seconds} seconds and {nanos} nanoseconds")
    return Decimal(seconds * _BILLION + nanos).scaleb(-9)


def _json(value: Any) -> JsonText | None:
    try:
        plain = json_format.MessageToDict(value)
    except (json_format.Error, ValueError) as error:
        raise Undecodable(f"a value is not JSON: {error}") from error
    return None if plain is None else JsonText.of(plain)


_OWN = {
    "google.protobuf.Duration": _duration,
    "google.protobuf.ListValue": _json,
    "google.protobuf.Struct": _json,
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Value": _json,
}
