"""JSON documents, decoded to a Spark type.

Spark's own `from_json` is not used. It accepts empty records, text after the document, single quotes and
invalid UTF-8, it converts objects to text if the type is string, and it does not report what is wrong with a
document or where.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import msgspec
from pyspark.sql.types import TimestampNTZType, TimestampType

from kinesis_assets.decoders.decoder import INVALID_JSON, Undecodable, value_step
from kinesis_assets.decoders.spark_types import convert, converted, parse_number, parse_type, value_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql.types import DataType

    from kinesis_assets.decoders.decoder import DecoderSettings, Step

_MANY_DIGITS = re.compile(r"\.[0-9]{7}")
_ESCAPED_ASCII = "\\u00"  # the digits may be written like this
_EXCESS = re.compile(r"(\.[0-9]{6})[0-9]+")


@dataclass(frozen=True)
class Json:
    """Decode records that are one JSON document each (RFC 8259, UTF-8).

    Values must have the requested type: `"1"` and `1.0` are not a long, `1` is not a string. Fields are
    matched by their exact names. Other fields are ignored. A missing field is null, or an error if it is
    declared NOT NULL. A date (`2026-01-31`), a timestamp (RFC 3339 with an offset), a timestamp_ntz (without
    an offset) and binary (base64) are text. Digits of a timestamp beyond microseconds are cut off. A decimal
    is a number or text and is not rounded. A variant is any value, of which the result is the JSON text.

    Attributes:
        spark_type: The type as DDL (`order_id long, amount double`) or as a Spark type.
    """

    spark_type: str | DataType
    name: ClassVar[str] = "json"

    @classmethod
    def from_settings(cls, settings: DecoderSettings) -> Self:
        """See `DecoderSettings`."""
        return cls(settings.schema)

    def resolved(self) -> Self:
        """Return a copy with a parsed type; see `Decoder`."""
        return replace(self, spark_type=parse_type(self.spark_type))

    def make_step(self) -> Step:
        """See `Decoder`."""
        return value_step(json_reader(cast("DataType", self.spark_type)))


def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of documents to a Python type that `value_type` returned, or that has such types."""
    return msgspec.json.Decoder(kind, dec_hook=convert, float_hook=parse_number)


def json_reader(
    spark_type: DataType, chosen: Mapping[DataType, Any] = MappingProxyType({})
) -> Callable[[bytes], Any]:
    """Create a function that decodes a document or raises `Undecodable`.

    Args:
        chosen: Python types for some Spark types that are used instead of the usual ones, see `value_type`.
    """
    decoder = json_decoder(value_type(spark_type, chosen.get)[0])
    truncating = None
    if "timestamp" in spark_type.json():
        truncating = json_decoder(value_type(spark_type, {**TRUNCATED, **chosen}.get)[0])

    def read(document: bytes) -> Any:
        try:
            # Decoded to text first, because msgspec does not validate the UTF-8 of ignored fields.
            text = document.decode()
            if truncating is not None and (_MANY_DIGITS.search(text) or _ESCAPED_ASCII in text):
                return truncating.decode(text)
            return decoder.decode(text)
        except INVALID_JSON as error:
            raise Undecodable(str(error)) from error

    return read


class _Truncated(datetime):
    """A timestamp whose text may have digits beyond microseconds, by which msgspec would round it.

    It is slower than msgspec's own type, so documents without such a text are decoded without it.
    """

    kind: ClassVar[Any]

    @classmethod
    def of(cls, value: Any) -> Self:
        """Convert the text of a timestamp."""
        text = _EXCESS.sub(r"\1", value) if isinstance(value, str) else value
        moment = converted(text, cls.kind)
        return cls.combine(moment.date(), moment.timetz())


def _truncated(spark_type: DataType) -> type[_Truncated]:
    return type("datetime", (_Truncated,), {"kind": value_type(spark_type)[0]})


TRUNCATED: dict[DataType, Any] = {each: _truncated(each) for each in (TimestampType(), TimestampNTZType())}
"""Python types for timestamps in texts, whose digits beyond microseconds they cut off."""
