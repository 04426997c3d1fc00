"""The Spark type of a JSON Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import Field, columns, struct

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN = {"boolean": "BOOLEAN", "integer": "BIGINT", "number": "DOUBLE"}
_FORMATS = {"date": "DATE", "date-time": "TIMESTAMP"}

_MAX_REFERENCES = 50
"""The number of references in a row at which those that refer to themselves are noticed."""


def json_schema_columns(schema: Any) -> str:
    """Return the columns of the documents that a JSON Schema describes, as DDL.

    Types, formats of dates and times, and which properties are required are used. Other rules of the schema
    are not checked by the decoder.

    Args:
        schema: The schema, parsed from JSON.

    Raises:
        InvalidInput: It does not describe objects, or it has a part that no Spark type represents.
    """
    if not isinstance(schema, dict):
        raise InvalidInput("the JSON Schema is not an object")
    try:
        return columns(_Types(schema).fields(schema, "#"))
    except RecursionError:
        raise InvalidInput(
            "the JSON Schema is recursive, or nested too deeply; Spark has no recursive types"
        ) from None


class _Types:
    """Converts the parts of one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def fields(self, schema: Mapping[str, Any], path: str) -> list[Field]:
        schema = self._resolved(schema, path)[0]
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            raise InvalidInput(f"the JSON Schema: {path} has no properties")
        required = schema.get("required")
        if not isinstance(required, list):  # a boolean in drafts before 4
            required = []
        found = []
        for name, each in properties.items():
            type_, nullable = self.type(each, f"{path}/properties/{name}")
            found.append(Field(name, type_, required=name in required and not nullable))
        return found

    def type(self, schema: Any, path: str) -> tuple[str, bool]:
        if not isinstance(schema, dict):
            raise InvalidInput(f"the JSON Schema: {path} has no type")
        schema, nullable = self._resolved(schema, path)
        kinds = schema.get("type", self._type_of_values(schema))
        kinds = [kinds] if isinstance(kinds, str) else list(kinds or ())
        nullable = nullable or "null" in kinds
        kinds = [str(each) for each in kinds if each != "null"]
        if sorted(kinds) == ["integer", "number"]:
            kinds = ["number"]
        if len(kinds) != 1:
            named = ", ".join(kinds) or "no type"
            raise InvalidInput(f"the JSON Schema: {path} has {named}, and a column has exactly one type")
        return self._of_kind(kinds[0], schema, path), nullable

    def _of_kind(self, kind: str, schema: Mapping[str, Any], path: str) -> str:
        match kind:
            case "string":
                encoded = schema.get("contentEncoding") == "base64"
                return "BINARY" if encoded else _FORMATS.get(schema.get("format", ""), "STRING")
            case "array":
                return f"ARRAY<{self.type(schema.get('items'), f'{path}/items')[0]}>"
            case "object" if "properties" not in schema and isinstance(
                schema.get("additionalProperties"), dict
            ):
                values = self.type(schema["additionalProperties"], f"{path}/additionalProperties")[0]
                return f"MAP<STRING, {values}>"
            case "object":
                return struct(self.fields(schema, path))
            case plain if plain in _PLAIN:
                return _PLAIN[plain]
        raise InvalidInput(f"the JSON Schema: {path} has the unknown type {kind}")

    def _resolved(self, schema: Mapping[str, Any], path: str) -> tuple[Mapping[str, Any], bool]:
        """Follow references, and take the only alternative besides null."""
        nullable = False
        for _ in range(_MAX_REFERENCES):
            alternatives = next(
                (schema[name] for name in ("anyOf", "oneOf", "allOf") if isinstance(schema.get(name), list)),
                None,
            )
            if "$ref" in schema:
                schema = self._at(str(schema["$ref"]), path)
            elif alternatives is not None and "type" not in schema:
                others = [each for each in alternatives if each != {"type": "null"}]
                nullable = nullable or len(others) < len(alternatives)
                if len(others) != 1 or not isinstance(others[0], dict):
                    raise InvalidInput(
                        f"the JSON Schema: {path} has {len(others)} alternatives, and a column has exactly "
                        "one type"
                    )
                schema = others[0]
            else:
                return schema, nullable
        raise InvalidInput(f"the JSON Schema: {path} is recursive, and Spark has no recursive types")

    def _at(self, reference: str, path: str) -> Mapping[str, Any]:
        found: Any = self._root
        for part in reference.removeprefix("#").split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        if not reference.startswith("#") or not isinstance(found, dict):
            raise InvalidInput(f"the JSON Schema: {path} refers to {reference}, which is not in the file")
        return found

    @staticmethod
    def _type_of_values(schema: Mapping[str, Any]) -> str | None:
        """Return the type of a schema that lists its values instead."""
        values = schema.get("enum", [schema["const"]] if "const" in schema else ())
        if values and all(isinstance(each, str) for each in values):
            return "string"
        return "object" if "properties" in schema else None
