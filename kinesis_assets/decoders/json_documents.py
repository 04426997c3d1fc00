"""JSON documents of a given Spark type.

Spark's own `from_json` is not used. It takes an empty record, text after the document, single quotes and
bytes that are no UTF-8 without a word, turns objects into text where a string is wanted, and does not say
what is wrong with a document, or where.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import msgspec

from kinesis_assets.decoders.decoder import Decoding, Undecodable
from kinesis_assets.decoders.exact_numbers import convert_number, parse_number
from kinesis_assets.decoders.spark_types import parse_type, value_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType


@dataclass(frozen=True)
class Json:
    """One JSON document (RFC 8259, UTF-8) a record.

    Values must have the type that is asked for: `"1"` and `1.0` are no long, `1` is no string. Further fields
    are left out, missing ones are null; a field declared NOT NULL must be there. Fields are matched by their
    exact names. Text stands for a date (`2026-01-31`), a timestamp (RFC 3339, with an offset), a
    timestamp_ntz (without one) and for binary (base64); a number or text for a decimal, which is not rounded.

    Attributes:
        spark_type: As DDL (`order_id long, amount double`) or as a Spark type.
    """

    spark_type: str | DataType
    name: ClassVar[str] = "json"

    def resolved(self) -> Self:
        """With its type parsed; see `Decoder`."""
        return replace(self, spark_type=parse_type(self.spark_type))

    def make_step(self) -> Callable[[Decoding], None]:
        """See `Decoder`."""
        read = json_reader(cast("DataType", self.spark_type))

        def step(decoding: Decoding) -> None:
            decoding.value = read(decoding.value)

        return step


def json_reader(spark_type: DataType) -> Callable[[bytes], Any]:
    """A function from a document to its value, which raises `Undecodable`."""
    decoder = msgspec.json.Decoder(
        value_type(spark_type)[0], dec_hook=convert_number, float_hook=parse_number
    )

    def read(document: bytes) -> Any:
        try:
            # As text, since msgspec does not look at the bytes of what it leaves out.
            return decoder.decode(document.decode())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Undecodable(str(error)) from error

    return read
