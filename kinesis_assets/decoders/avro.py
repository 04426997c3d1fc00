"""Avro values, decoded with their writer's schema to a Spark type.

A reader's schema adds its defaults and aliases. A field that the writer's schema lacks has its default, or is
null if it has none. A field is found by its own name, or else by one of its aliases. Types are compared by
their structure: a record may have another name, as if that were an alias. All other differences are left to
the Spark type.
Source: https://avro.apache.org/docs/1.12.0/specification/#schema-resolution
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from kinesis_assets.decoders.decoder import Undecodable, value_step
from kinesis_assets.decoders.spark_types import converter, parse_type
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.avro_schema import avro_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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

_MOST_PARTS = 100_000
"""The maximum size of a schema. A datum of none but empty records can have as many values without a byte."""


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
        return cls(settings.file.decode(), settings.schema)

    def resolved(self) -> Self:
        """Return a copy with a parsed type; see `Decoder`."""
        spark_type = parse_type(cast("str | DataType", self.spark_type))
        try:
            AvroReader(AvroDefinition(self.definition), spark_type)
        except Undecodable as error:
            raise InvalidInput(f"the Avro schema cannot be used: {error}; correct it") from None
        return replace(self, spark_type=spark_type)

    def make_step(self) -> Step:
        """See `Decoder`."""
        return value_step(AvroReader(AvroDefinition(self.definition), cast("DataType", self.spark_type)).read)


@dataclass(frozen=True)
class AvroDefinition:
    """An Avro schema in JSON.

    Attributes:
        imports: Schemas to which it refers by name, each after those to which it refers itself.
    """

    text: str
    imports: tuple[str, ...] = ()


class AvroReader:
    """Decodes Avro data (binary encoding, no container) that were written with one schema.

    Args:
        spark_type: The type of the decoded value. Fields are matched by their exact names, as for `Json`.
        reader: A reader's schema, or its text. Its defaults and aliases apply.

    Raises:
        InvalidInput: fastavro is not installed.
        Undecodable: A schema is not a supported one of Avro.
    """

    def __init__(
        self, writer: AvroDefinition, spark_type: DataType, reader: str | AvroDefinition | None = None
    ) -> None:
        try:
            import fastavro  # noqa: PLC0415  # an extra
        except ImportError as error:
            raise InvalidInput("Avro needs fastavro: pip install 'kinesis-assets[avro]'") from error
        self._read = fastavro.schemaless_reader
        self._schema, named = _parsed(writer)
        self._checked = converter(spark_type)
        self._resolve = None
        if isinstance(reader, str):
            reader = AvroDefinition(reader)
        if reader is not None and reader != writer:
            self._resolve = _resolution(self._schema, named, reader)

    def read(self, datum: bytes) -> Any:
        """Decode a datum, or raise `Undecodable`."""
        stream = BytesIO(datum)
        value = self.parse(stream)
        if remaining := len(datum) - stream.tell():
            raise Undecodable(f"the record does not match its schema: {remaining} bytes follow its end")
        return self.convert(value)

    def parse(self, stream: BytesIO) -> Any:
        """Read a datum from a stream. Raises `Undecodable`; nothing is then known about what follows."""
        try:
            return self._read(stream, self._schema, None)
        except Exception as error:  # invalid bytes can raise any exception in fastavro
            raise Undecodable(f"the record does not match its schema: {error!r}") from error

    def convert(self, value: Any) -> Any:
        """Convert what `parse` has returned to the type, or raise `Undecodable`."""
        if self._resolve is not None and value is not None:  # as that of a union with null
            value = self._resolve(value)
        return self._checked(value)


def check_reader(reader: str | AvroDefinition | None, spark_type: DataType) -> None:
    """Raise `InvalidInput` if a reader's schema or one of its defaults cannot be used."""
    try:
        AvroReader(AvroDefinition('{"type": "record", "name": "None", "fields": []}'), spark_type, reader)
    except Undecodable as error:
        raise InvalidInput(f"the reader's Avro schema cannot be used: {error}; correct it") from None


def _parsed(definition: AvroDefinition) -> tuple[Any, dict[str, Any]]:
    """Return a schema as fastavro has parsed it, and the schemas that it names, by their full names."""
    import fastavro  # noqa: PLC0415  # an extra

    named: dict[str, Any] = {}
    schema: Any = None
    for text in (*definition.imports, definition.text):
        try:
            schema = fastavro.parse_schema(json.loads(text, object_hook=_lossless), named_schemas=named)
        except Exception as error:  # its errors have no common type
            raise Undecodable(f"its definition is not an Avro schema: {error!r}") from error
        try:
            _check_parts(schema, named)
        except RecursionError as error:
            raise Undecodable(f"its definition is nested too deep: {error}") from error
    return schema, named


def _check_parts(schema: Any, named: dict[str, Any]) -> None:
    """Raise `Undecodable` if a small datum of a parsed schema could be endless, or take all memory."""
    if _is_recursive(schema):
        # Spark has no recursive types, and a malicious record would make fastavro recurse until a crash.
        raise Undecodable("its definition is recursive")
    if _size(schema, named, {}) > _MOST_PARTS:
        raise Undecodable(f"its definition has more than {_MOST_PARTS} parts, with those that are repeated")
    if _is_endless(schema, named):
        raise Undecodable("its definition has an array of items without any bytes, which could be endless")


def _resolution(writer: Any, named: dict[str, Any], reader: AvroDefinition) -> Callable[[Any], Any] | None:
    schema, of_reader = _parsed(reader)
    try:
        return _Resolution(named, of_reader).of(writer, schema)
    except Exception as error:  # a default can have any other type than its field
        raise Undecodable(f"the reader's schema has an invalid default: {error!r}") from error


def _lossless(schema: dict[str, Any]) -> dict[str, Any]:
    """Change a schema, or a part of one, so that fastavro does not alter any value."""
    if schema.get("logicalType") not in _LOGICAL_TYPES:
        schema.pop("logicalType", None)
    elif schema["logicalType"] == "decimal":
        # fastavro would round values that exceed the declared precision, so use what the bytes can hold.
        schema["precision"] = int(math.log10(2) * (8 * schema.get("size", _DECIMAL_BYTES) - 1))
    return schema


def _parts(schema: dict[str, Any]) -> list[Any]:
    """Return the schemas of the fields, items or values of a parsed schema."""
    parts = [field["type"] for field in schema.get("fields", ())]
    return parts + [schema[key] for key in ("items", "values") if key in schema]


def _is_recursive(schema: Any, within: tuple[str, ...] = ()) -> bool:
    """Return whether a parsed schema contains a reference to an enclosing schema."""
    if isinstance(schema, str):
        return schema in within
    if isinstance(schema, list):
        return any(_is_recursive(branch, within) for branch in schema)
    if "name" in schema:
        within = (*within, schema["name"])
    return any(_is_recursive(each, within) for each in _parts(schema))


def _size(schema: Any, named: dict[str, Any], known: dict[str, int]) -> int:
    """Return the number of parts of a parsed schema that is not recursive, each as often as it is named."""
    if isinstance(schema, str):
        if schema not in known:
            known[schema] = _size(named[schema], named, known) if schema in named else 1
        return known[schema]
    if isinstance(schema, list):
        return sum(_size(branch, named, known) for branch in schema)
    return 1 + sum(_size(each, named, known) for each in _parts(schema))


def _is_endless(schema: Any, named: dict[str, Any]) -> bool:
    """Return whether a parsed schema that is not recursive has an array whose items need no bytes."""
    if isinstance(schema, list):
        return any(_is_endless(branch, named) for branch in schema)
    if not isinstance(schema, dict):
        return False
    if schema["type"] == "array" and _is_empty(schema["items"], named):
        return True
    return any(_is_endless(each, named) for each in _parts(schema))


def _is_empty(schema: Any, named: dict[str, Any]) -> bool:
    schema = named.get(schema, schema) if isinstance(schema, str) else schema
    match schema if isinstance(schema, str) else isinstance(schema, dict) and schema["type"]:
        case "null":
            return True
        case "fixed":
            return not schema["size"]
        case "record":
            return all(_is_empty(field["type"], named) for field in schema["fields"])
    return False


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"millis": timedelta(milliseconds=1), "micros": timedelta(microseconds=1)}


class _Resolution:
    """Applies the defaults and aliases of a reader's schema. fastavro has parsed both schemas.

    Args:
        writer: The named schemas of the writer, by full name.
    """

    def __init__(self, writer: Mapping[str, Any], reader: Mapping[str, Any]) -> None:
        self._writer = writer
        self._reader = reader
        self._records: dict[tuple[str, str], Callable[[Any], Any] | None] = {}

    def of(self, writer: Any, reader: Any) -> Callable[[Any], Any] | None:
        """Return a function of a writer's value that is not null; None if it does not change."""
        writer, reader = _only(writer, self._writer), _only(reader, self._reader)
        if not (isinstance(writer, dict) and isinstance(reader, dict) and writer["type"] == reader["type"]):
            return None
        match writer["type"]:
            case "record":
                key = (writer["name"], reader["name"])
                if key not in self._records:
                    self._records[key] = self._record(writer, reader)
                return self._records[key]
            case "array":
                items = _nullable(self.of(writer["items"], reader["items"]))
                return items and (lambda value: [items(each) for each in value])
            case "map":
                values = _nullable(self.of(writer["values"], reader["values"]))
                return values and (lambda value: {key: values(each) for key, each in value.items()})
        return None

    def _record(self, writer: Mapping[str, Any], reader: Mapping[str, Any]) -> Callable[[Any], Any] | None:
        written = {field["name"]: field for field in writer["fields"]}
        found: list[tuple[str, str, Callable[[Any], Any] | None]] = []
        defaults: dict[str, Any] = {}
        for field in reader["fields"]:
            names = (field["name"], *field.get("aliases", ()))
            source = next((name for name in names if name in written), None)
            if source is not None:
                inner = _nullable(self.of(written[source]["type"], field["type"]))
                found.append((field["name"], source, inner))
            elif "default" in field:
                defaults[field["name"]] = self._default(field["type"], field["default"])
        if not defaults and all(name == source and inner is None for name, source, inner in found):
            return None

        def resolved(value: Mapping[str, Any]) -> dict[str, Any]:
            fields = {
                name: value[source] if inner is None else inner(value[source])
                for name, source, inner in found
            }
            return fields | defaults

        return resolved

    def _default(self, schema: Any, value: Any) -> Any:
        """Return the value of a default, which a schema has in JSON, as fastavro would decode it."""
        schema = _only(schema, self._reader)
        match schema["type"] if isinstance(schema, dict) else schema:
            case _ if value is None:
                return None
            case "record":
                return {
                    field["name"]: self._default(
                        field["type"], value.get(field["name"], field.get("default"))
                    )
                    for field in schema["fields"]
                }
            case "array":
                return [self._default(schema["items"], each) for each in value]
            case "map":
                return {key: self._default(schema["values"], each) for key, each in value.items()}
        return _plain(schema if isinstance(schema, dict) else {"type": schema}, value)


def _plain(schema: Mapping[str, Any], value: Any) -> Any:
    logical = schema.get("logicalType")
    match schema["type"]:
        case "bytes" | "fixed":
            raw = value.encode("latin-1")
            if logical != "decimal":
                return raw
            return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-schema.get("scale", 0))
        case "float" | "double":
            return float(value)
    return value if logical is None else _of_time(logical, value)


def _only(schema: Any, named: Mapping[str, Any]) -> Any:
    """Return the only schema of a union besides null, or the schema itself, by its definition."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            return schema
        schema = others[0]
    return named.get(schema, schema) if isinstance(schema, str) else schema


def _nullable(resolve: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    return resolve and (lambda value: None if value is None else resolve(value))


def _of_time(logical: str, value: int) -> int | date | datetime:
    if logical == "date":
        return (_EPOCH + timedelta(days=value)).date()
    kind, _, unit = logical.rpartition("-")
    if kind not in ("timestamp", "local-timestamp") or unit not in _UNITS:
        return value
    moment = _EPOCH + value * _UNITS[unit]
    return moment if kind == "timestamp" else moment.replace(tzinfo=None)
