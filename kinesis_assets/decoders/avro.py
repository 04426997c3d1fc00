"""Avro values, decoded with their writer's schema to a Spark type."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from kinesis_assets.decoders.decoder import Decoding, Undecodable
from kinesis_assets.decoders.spark_types import converter, parse_type
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.avro_schema import avro_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType

    from kinesis_assets.decoders.decoder import DecoderSettings, Step

_LOGICAL_TYPES = {
    "date",
    "decimal",
    "local-timestamp-micros",
    "local-timestamp-millis",
    "timestamp-micros",
    "timestamp-millis",
}
"""The logical types that have a Spark type. Values of all others are read as their underlying type."""

_DECIMAL_BYTES = 100  # six times the size of Spark's longest decimal


@dataclass(frozen=True)
class Avro:
    """Decode records that are one Avro datum each, in binary encoding, without a header or a container.

    The records do not name their schema, so all of them must have been written with the same one.

    Attributes:
        definition: The writer's schema in JSON. It must be a record.
        spark_type: The type as DDL or as a Spark type; by default that of the schema. Fields are matched by
            their exact names, as for `Json`.
    """

    definition: str
    spark_type: str | DataType | None = None
    name: ClassVar[str] = "avro"

    def __post_init__(self) -> None:
        if self.spark_type is None:
            try:
                schema = json.loads(self.definition)
            except (ValueError, RecursionError) as error:
                raise InvalidInput(f"the Avro schema is not JSON: {error}; correct it") from None
            object.__setattr__(self, "spark_type", avro_columns(schema))

    @classmethod
    def from_settings(cls, settings: DecoderSettings) -> Self:
        """See `DecoderSettings`."""
        return cls(settings.schema)

    def resolved(self) -> Self:
        """Return a copy with a parsed type; see `Decoder`."""
        spark_type = parse_type(cast("str | DataType", self.spark_type))
        try:
            avro_reader(self.definition, spark_type)
        except Undecodable as error:
            raise InvalidInput(f"the Avro schema cannot be used: {error}; correct it") from None
        return replace(self, spark_type=spark_type)

    def make_step(self) -> Step:
        """See `Decoder`."""
        read = avro_reader(self.definition, cast("DataType", self.spark_type))

        def step(decoding: Decoding) -> None:
            decoding.value = read(decoding.value)

        return step


def avro_reader(definition: str, spark_type: DataType) -> Callable[[bytes], Any]:
    """Create a function that decodes an Avro datum (binary encoding, no container) or raises `Undecodable`.

    Args:
        definition: The writer's schema.
        spark_type: The type of the decoded value. Fields are matched by their exact names, as for `Json`.

    Raises:
        InvalidInput: fastavro is not installed.
        Undecodable: The definition is not a supported Avro schema.
    """
    try:
        import fastavro  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise InvalidInput("Avro needs fastavro: pip install 'kinesis-assets[avro]'") from error
    try:
        schema = fastavro.parse_schema(json.loads(definition, object_hook=_lossless))
    except Exception as error:  # its errors have no common type
        raise Undecodable(f"its definition is not an Avro schema: {error!r}") from error
    if _is_recursive(schema):
        # Spark has no recursive types, and a malicious record would make fastavro recurse until it crashes.
        raise Undecodable("its definition is recursive")
    checked = converter(spark_type)

    def read(datum: bytes) -> Any:
        stream = BytesIO(datum)
        try:
            value = fastavro.schemaless_reader(stream, schema, None)
        except Exception as error:  # invalid bytes can raise any exception in fastavro
            raise Undecodable(f"the record does not match its schema: {error!r}") from error
        if remaining := len(datum) - stream.tell():
            raise Undecodable(f"the record does not match its schema: {remaining} bytes follow its end")
        return checked(value)

    return read


def _lossless(schema: dict[str, Any]) -> dict[str, Any]:
    """Change a schema, or a part of one, so that fastavro does not alter any value."""
    if schema.get("logicalType") not in _LOGICAL_TYPES:
        schema.pop("logicalType", None)
    elif schema["logicalType"] == "decimal":
        # fastavro would round values that exceed the declared precision, so use what the bytes can hold.
        schema["precision"] = int(math.log10(2) * (8 * schema.get("size", _DECIMAL_BYTES) - 1))
    return schema


def _is_recursive(schema: Any, within: tuple[str, ...] = ()) -> bool:
    """Return whether a parsed schema contains a reference to an enclosing schema."""
    if isinstance(schema, str):
        return schema in within
    if isinstance(schema, list):
        return any(_is_recursive(branch, within) for branch in schema)
    if "name" in schema:
        within = (*within, schema["name"])
    inner = [field["type"] for field in schema.get("fields", ())]
    inner += [schema[key] for key in ("items", "values") if key in schema]
    return any(_is_recursive(each, within) for each in inner)
