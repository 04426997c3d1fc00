"""Records of delimited text: comma-separated values (RFC 4180), and tab-separated ones, which have no quotes.

The values of a record are written as a JSON document, which is decoded as any other. So they are as strict.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self, cast

import msgspec
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kinesis_assets.decoders.decoder import INVALID_JSON, Decoding, Undecodable
from kinesis_assets.decoders.json_documents import json_reader
from kinesis_assets.decoders.spark_types import parse_type
from kinesis_assets.decoders.split import is_json
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.inference import JSON_NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql.types import DataType, StructField

    from kinesis_assets.decoders.decoder import DecoderSettings, Step

_BYTE_ORDER_MARK = "\ufeff"

_TEXTS = (StringType, BinaryType, DateType, TimestampType, TimestampNTZType)
"""The types whose values are text in JSON."""


@dataclass(frozen=True)
class Csv:
    """Decode records that are one row of comma-separated values each (RFC 4180, UTF-8).

    Fields are those of the type by their position, and a record must have all of them. A field with a comma,
    a quote or a newline is within quotes, in which a quote is written twice. A field that is empty and not
    within quotes is null. Values are as strict as in `Json`; those of arrays, maps, structs and variants are
    JSON. A record whose values are the names of the fields is a header, and is left out.

    Attributes:
        spark_type: The type as DDL (`order_id long, amount double`) or as a Spark type. It must be a struct.
    """

    spark_type: str | DataType
    multiplies: ClassVar[bool] = True
    name: ClassVar[str] = "csv"

    @classmethod
    def from_settings(cls, settings: DecoderSettings) -> Self:
        """See `DecoderSettings`."""
        return cls(settings.schema)

    def resolved(self) -> Self:
        """Return a copy with a parsed type; see `Decoder`."""
        spark_type = parse_type(self.spark_type)
        if not isinstance(spark_type, StructType):
            raise InvalidInput(f"the type {spark_type.simpleString()} has no fields; use a struct")
        return replace(self, spark_type=spark_type)

    def make_step(self) -> Step:
        """See `Decoder`."""
        spark_type = cast("StructType", self.spark_type)
        read = json_reader(spark_type)
        names = spark_type.names
        writers = [_writer(field) for field in spark_type.fields]
        keys = [msgspec.json.encode(name) + b":" for name in names]

        def step(decoding: Decoding) -> Iterable[Decoding] | None:
            try:
                text = decoding.value.decode().removeprefix(_BYTE_ORDER_MARK)
            except UnicodeDecodeError as error:
                raise Undecodable(str(error)) from error
            values = self._values(text)
            if values == names:
                return ()
            if len(values) != len(names):
                raise Undecodable(f"it has {len(values)} fields, and the schema has {len(names)}")
            document = b",".join(
                key + (b"null" if value is None else write(value))
                for key, write, value in zip(keys, writers, values, strict=True)
            )
            decoding.value = read(b"{" + document + b"}")
            return None

        return step

    def _values(self, text: str) -> list[str | None]:
        """Return the values of a row, of which empty ones without quotes are None."""
        if '"' not in text and (found := _separated(text, ",")) is not None:
            return found
        values: list[str | None] = []
        place = 0
        while (match := _FIELD.match(text, place)) is not None:
            quoted, plain, more = match.groups()
            if plain is not None and plain.startswith('"'):
                break
            values.append(plain or None if quoted is None else quoted.replace('""', '"'))
            place = match.end()
            if more is None:
                return values
        if "\n" in text[place:].rstrip("\r\n"):
            raise Undecodable(f"field {len(values) + 1} ends with a newline; a record is one row")
        raise Undecodable(f"field {len(values) + 1} has a quote that is not closed, or text behind it")


@dataclass(frozen=True)
class Tsv(Csv):
    """Decode records that are one row of tab-separated values each (the media type of IANA, UTF-8).

    A value has no tab and no newline, and a quote is a character like others. In other respects it is `Csv`.
    """

    name: ClassVar[str] = "tsv"

    def _values(self, text: str) -> list[str | None]:
        if (values := _separated(text, "\t")) is None:
            raise Undecodable("it has a newline within; a record is one row")
        return values


_FIELD = re.compile(r'(?:"((?:[^"]|"")*+)"|([^,\r\n]*+))(?:(,)|(?:\r?\n)?\Z)')


def _separated(text: str, delimiter: str) -> list[str | None] | None:
    """Return the values of a row without quotes, of which empty ones are None; None if it has a newline."""
    row = text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")
    if "\n" in row or "\r" in row:
        return None
    return [value or None for value in row.split(delimiter)]


def _writer(field: StructField) -> Callable[[str], bytes]:
    """Return a function that writes a value as JSON of its type; or else as text, which is refused.

    A variant accepts any text, so the function refuses what is no JSON itself.
    """
    kind = field.dataType
    if kind.typeName() == "variant":
        return partial(_checked_json, field.name)
    if isinstance(kind, _TEXTS):
        return msgspec.json.encode
    if isinstance(kind, NumericType):
        return _written_number
    return _written_boolean if isinstance(kind, BooleanType) else _written_json


def _written_number(value: str) -> bytes:
    return value.encode() if JSON_NUMBER.fullmatch(value) else msgspec.json.encode(value)


def _written_boolean(value: str) -> bytes:
    return value.encode() if value in ("true", "false") else msgspec.json.encode(value)


def _written_json(value: str) -> bytes:
    return value.encode() if is_json(value) else msgspec.json.encode(value)


_raw = msgspec.json.Decoder(msgspec.Raw).decode


def _checked_json(name: str, value: str) -> bytes:
    try:
        _raw(value)
    except INVALID_JSON as error:
        raise Undecodable(f"{error} - at `$.{name}`") from error
    return value.encode()
