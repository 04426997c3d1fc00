"""Avro values, written by one schema and wanted as a Spark type."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec

from kinesis_assets.decoders.decoder import Undecodable
from kinesis_assets.decoders.exact_numbers import convert_number
from kinesis_assets.decoders.spark_types import value_type
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType

_LOGICAL_TYPES = {
    "date",
    "decimal",
    "local-timestamp-micros",
    "local-timestamp-millis",
    "timestamp-micros",
    "timestamp-millis",
}
"""Those with a Spark type of their own. A value of another one is read as what it is stored as."""

_PASSED_THROUGH = (bytes, date, datetime, Decimal)
_DECIMAL_BYTES = 100  # six times what Spark's longest decimal takes


def avro_reader(definition: str, spark_type: DataType) -> Callable[[bytes], Any]:
    """A function from an Avro datum (binary encoding, no container) to its value, which raises `Undecodable`.

    Args:
        definition: The schema that it was written by.
        spark_type: What is wanted. Fields are matched by their exact names, as for `Json`.

    Raises:
        InvalidInput: fastavro is not installed.
        Undecodable: Nothing can be read by this definition.
    """
    try:
        import fastavro  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise InvalidInput("Avro needs fastavro: pip install 'kinesis-assets[avro]'") from error
    try:
        schema = fastavro.parse_schema(json.loads(definition, object_hook=_lossless))
    except Exception as error:  # its errors have no common type
        raise Undecodable(f"its definition is no Avro schema: {error!r}") from error
    if _is_recursive(schema):
        # Spark has no such type, and fastavro would follow a hostile record down until the process crashes.
        raise Undecodable("its definition is recursive")
    expected, _ = value_type(spark_type)

    def read(datum: bytes) -> Any:
        stream = BytesIO(datum)
        try:
            value = fastavro.schemaless_reader(stream, schema, None)
        except Exception as error:  # whatever the bytes make fastavro stumble over
            raise Undecodable(f"not of its schema: {error!r}") from error
        if after := len(datum) - stream.tell():
            raise Undecodable(f"not of its schema: {after} bytes come after its end")
        try:
            # These are taken as they are, so that text is no time and no bytes.
            return msgspec.convert(value, expected, builtin_types=_PASSED_THROUGH, dec_hook=convert_number)
        except msgspec.ValidationError as error:
            raise Undecodable(str(error)) from error

    return read


def _lossless(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema, or a part of one, by which fastavro changes no value."""
    if schema.get("logicalType") not in _LOGICAL_TYPES:
        schema.pop("logicalType", None)
    elif schema["logicalType"] == "decimal":
        # What has more digits than were declared would be rounded: take as many as the bytes can hold.
        schema["precision"] = int(math.log10(2) * (8 * schema.get("size", _DECIMAL_BYTES) - 1))
    return schema


def _is_recursive(schema: Any, within: tuple[str, ...] = ()) -> bool:
    """Whether a parsed schema names one that it stands in."""
    if isinstance(schema, str):
        return schema in within
    if isinstance(schema, list):
        return any(_is_recursive(branch, within) for branch in schema)
    if "name" in schema:
        within = (*within, schema["name"])
    inner = [field["type"] for field in schema.get("fields", ())]
    inner += [schema[key] for key in ("items", "values") if key in schema]
    return any(_is_recursive(each, within) for each in inner)
