"""The Spark type of an Avro schema.

Names are resolved as the specification demands: a name without dots is in the namespace of its definition, or
else of the definition around it. A reference without dots is in the namespace around it.
Source: https://avro.apache.org/docs/1.12.0/specification/#names
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import MAX_DIGITS, Field, columns, struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PLAIN = {
    "boolean": "BOOLEAN",
    "bytes": "BINARY",
    "double": "DOUBLE",
    "float": "FLOAT",
    "int": "INT",
    "long": "BIGINT",
    "string": "STRING",
}

_LOGICAL = {
    "int-date": "DATE",
    "long-local-timestamp-micros": "TIMESTAMP_NTZ",
    "long-local-timestamp-millis": "TIMESTAMP_NTZ",
    "long-timestamp-micros": "TIMESTAMP",
    "long-timestamp-millis": "TIMESTAMP",
}
"""Spark's types by `<type>-<logical type>`, besides those of decimals."""

_WIDER = ({"INT", "BIGINT"}, {"FLOAT", "DOUBLE"})
"""Pairs of types. A union of a pair has its second one, the wider."""


def avro_columns(schema: Any, imports: Sequence[Any] = ()) -> str:
    """Return the columns of an Avro record as DDL. A union of several types is a VARIANT.

    Args:
        schema: The schema, parsed from JSON.
        imports: Schemas to which it refers by name, each after those to which it refers itself.

    Raises:
        InvalidInput: It is not a record, or it has a part that no Spark type represents.
    """
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise InvalidInput("the Avro schema is not a record")
    try:
        types = _Types()
        for each in imports:
            types.type(each, "", "")
        return columns(types.fields(schema, "", ""))
    except RecursionError:
        raise InvalidInput("the types of the Avro schema are nested too deeply") from None


class _Types:
    """Converts the parts of one schema. Each part has a path of fields and the namespace around it."""

    def __init__(self) -> None:
        self._named: dict[str, str | None] = {}  # by full name; None within the definition

    def fields(self, record: Mapping[str, Any], path: str, namespace: str) -> list[Field]:
        name = self._define(record, path, namespace)
        found = []
        for each in record.get("fields") or ():
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                raise _invalid(path, "has a field without a name")
            of_field = f"{path}.{each['name']}".removeprefix(".")
            found.append(Field(each["name"], self.type(each.get("type"), of_field, name.rpartition(".")[0])))
        if not found:
            raise _invalid(path, f"is a record without fields ({name}), which no Spark type represents")
        self._named[name] = struct(found)
        return found

    def type(self, schema: Any, path: str, namespace: str) -> str:
        if isinstance(schema, list):
            return self._union(schema, path, namespace)
        if isinstance(schema, dict):
            return self._complex(schema, path, namespace)
        if schema is None:
            raise _invalid(path, "has no type")
        if schema == "null":
            raise _invalid(path, "is always null, which no Spark type represents")
        return _PLAIN.get(schema) or self._referred(str(schema), path, namespace)

    def _complex(self, schema: Mapping[str, Any], path: str, namespace: str) -> str:
        match kind := schema.get("type"):
            case "record":
                return struct(self.fields(schema, path, namespace))
            case "array":
                return f"ARRAY<{self.type(schema.get('items'), path, namespace)}>"
            case "map":
                return f"MAP<STRING, {self.type(schema.get('values'), path, namespace)}>"
            case "enum" | "fixed":
                name = self._define(schema, path, namespace)
                self._named[name] = found = "STRING" if kind == "enum" else _bytes(schema, path)
                return found
            case "bytes":
                return _bytes(schema, path)
            case None | str() if kind in (None, "null", *_PLAIN):
                return _LOGICAL.get(f"{kind}-{schema.get('logicalType')}") or self.type(kind, path, namespace)
        raise _invalid(path, f"has the unknown type {kind}")

    def _union(self, branches: Sequence[Any], path: str, namespace: str) -> str:
        others = [each for each in branches if each not in ("null", {"type": "null"})]
        if branches and not others:
            return self.type("null", path, namespace)
        types = {self.type(each, path, namespace) for each in others}
        if len(types) == 1:
            return types.pop()
        for narrow in _WIDER:
            if types == narrow:
                return min(types, key=lambda each: each in {"INT", "FLOAT"})
        if not types:
            raise _invalid(path, "is a union of no types")
        return "VARIANT"

    def _define(self, schema: Mapping[str, Any], path: str, namespace: str) -> str:
        """Return the full name of a definition, which is not converted yet."""
        name = schema.get("name")
        if not isinstance(name, str):
            raise _invalid(path, "has a definition without a name; add one")
        name = _full_name(name, schema.get("namespace", namespace))
        if name in self._named:
            raise _invalid(path, f"defines {name} again; give one of the types another name")
        self._named[name] = None
        return name

    def _referred(self, name: str, path: str, namespace: str) -> str:
        name = _full_name(name, namespace)
        if name not in self._named:
            raise _invalid(path, f"has the unknown type {name}")
        found = self._named[name]
        if found is None:
            raise _invalid(
                path, f"is recursive: it is a part of {name} itself, and Spark has no recursive types"
            )
        return found


def _full_name(name: str, namespace: object) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _bytes(schema: Mapping[str, Any], path: str) -> str:
    if schema.get("logicalType") != "decimal":
        return "BINARY"
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or not precision:
        raise _invalid(
            path, f"is a decimal with the precision {precision} and the scale {scale}; correct them"
        )
    if precision > MAX_DIGITS:
        raise _invalid(
            path, f"is a decimal of {precision} digits, and those of Spark have {MAX_DIGITS} at most"
        )
    return f"DECIMAL({precision}, {scale})"


def _invalid(path: str, reason: str) -> InvalidInput:
    return InvalidInput(f"the Avro schema{f': {path}' if path else ''} {reason}")
