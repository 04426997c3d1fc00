"""The Spark type of an Avro schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import Field, columns, struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PLAIN = {
    "boolean": "BOOLEAN",
    "bytes": "BINARY",
    "double": "DOUBLE",
    "enum": "STRING",
    "fixed": "BINARY",
    "float": "FLOAT",
    "int": "INT",
    "long": "BIGINT",
    "string": "STRING",
}

_LOGICAL = {
    "date": "DATE",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "timestamp-micros": "TIMESTAMP",
    "timestamp-millis": "TIMESTAMP",
}

_WIDER = ({"INT", "BIGINT"}, {"FLOAT", "DOUBLE"})
"""Types of which a union has the last one."""


def avro_columns(schema: Any) -> str:
    """Return the columns of an Avro record as DDL.

    Args:
        schema: The schema, parsed from JSON.

    Raises:
        InvalidInput: It is not a record, or it has a part that no Spark type represents.
    """
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise InvalidInput("the Avro schema is not a record")
    return columns(_Types().fields(schema, ""))


class _Types:
    """Converts the parts of one schema."""

    def __init__(self) -> None:
        self._named: dict[str, Mapping[str, Any]] = {}
        self._enclosing: list[str] = []

    def fields(self, record: Mapping[str, Any], path: str) -> list[Field]:
        name = self._remember(record)
        self._enclosing.append(name)
        found = []
        for each in record.get("fields", ()):
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                raise InvalidInput(f"the Avro schema: a field of the record {name} has no name")
            found.append(Field(each["name"], self.type(each.get("type"), f"{path}{each['name']}")))
        self._enclosing.pop()
        if not found:
            raise InvalidInput(f"the Avro schema: the record {name} has no fields")
        return found

    def type(self, schema: Any, path: str) -> str:
        if isinstance(schema, list):
            return self._union(schema, path)
        if isinstance(schema, str):
            if schema in _PLAIN:
                return _PLAIN[schema]
            if schema not in self._named:
                raise InvalidInput(f"the Avro schema: {path} has the unknown type {schema}")
            if schema in self._enclosing:
                raise InvalidInput(f"the Avro schema: {path} is recursive, as no Spark type is")
            return self.type(self._named[schema], path)
        if not isinstance(schema, dict):
            raise InvalidInput(f"the Avro schema: {path} has no type")
        return self._complex(schema, path)

    def _complex(self, schema: Mapping[str, Any], path: str) -> str:
        match schema.get("type"):
            case "record":
                return struct(self.fields(schema, f"{path}."))
            case "array":
                return f"ARRAY<{self.type(schema.get('items'), path)}>"
            case "map":
                return f"MAP<STRING, {self.type(schema.get('values'), path)}>"
            case "bytes" | "fixed" if schema.get("logicalType") == "decimal":
                self._remember(schema)
                return f"DECIMAL({schema.get('precision')}, {schema.get('scale', 0)})"
            case "int" | "long" if schema.get("logicalType") in _LOGICAL:
                return _LOGICAL[schema["logicalType"]]
            case inner:
                self._remember(schema)
                return self.type(inner, path)

    def _union(self, branches: Sequence[Any], path: str) -> str:
        types = {self.type(each, path) for each in branches if each != "null"}
        if len(types) == 1:
            return types.pop()
        for narrow in _WIDER:
            if types == narrow:
                return min(types, key=lambda each: each in {"INT", "FLOAT"})
        named = ", ".join(sorted(types)) or "no types"
        raise InvalidInput(f"the Avro schema: {path} is a union of {named}, which is no Spark type")

    def _remember(self, schema: Mapping[str, Any]) -> str:
        """Remember a named type by its name, with and without its namespace."""
        name = str(schema.get("name", ""))
        if name:
            self._named[name] = self._named[name.rpartition(".")[2]] = schema
            if schema.get("namespace"):
                self._named[f"{schema['namespace']}.{name}"] = schema
        return name
