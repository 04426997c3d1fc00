"""The defaults and aliases of a reader's Avro schema, applied to values of a writer's.

A field that the writer's schema lacks has its default, or is null if it has none. A field is found by its own
name, or else by one of its aliases. Types are compared by their structure: a record may have another name, as
if that were an alias. All other differences are left to the Spark type.
Source: https://avro.apache.org/docs/1.12.0/specification/#schema-resolution
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"millis": timedelta(milliseconds=1), "micros": timedelta(microseconds=1)}


class Resolution:
    """Compares two schemas, which fastavro has parsed.

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
