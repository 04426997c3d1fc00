"""The Spark type of a JSON Schema."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import Field, columns, struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_PLAIN = {"boolean": "BOOLEAN", "integer": "BIGINT", "number": "DOUBLE"}
_FORMATS = {"date": "DATE", "date-time": "TIMESTAMP"}

_NULL = {"type": "null"}
_ALTERNATIVES = ("anyOf", "oneOf")
_COMPOSITION = frozenset({"$ref", "allOf", *_ALTERNATIVES})

_REFERENCES_STAND_ALONE = re.compile(r"/draft-0[1-7]/")
"""A part of the `$schema` of the drafts in which what is beside a reference does not apply."""


def json_schema_columns(schema: Any) -> str:
    """Return the columns of the documents that a JSON Schema describes, as DDL.

    Types, formats of dates and times, and which properties are required are used, also those of references
    and of the schemas in `allOf`. Other rules of the schema are not checked by the decoder.

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
        self._references_stand_alone = _REFERENCES_STAND_ALONE.search(str(root.get("$schema"))) is not None

    def fields(self, schema: Mapping[str, Any], path: str) -> list[Field]:
        schema = self._resolved(schema, path)[0]
        properties = _properties(schema)
        if not properties:
            raise InvalidInput(f"the JSON Schema: {path} has no properties")
        required = _list(schema, "required")
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
            case "object" if _is_map(schema):
                values = self.type(schema["additionalProperties"], f"{path}/additionalProperties")[0]
                return f"MAP<STRING, {values}>"
            case "object":
                return struct(self.fields(schema, path))
            case plain if plain in _PLAIN:
                return _PLAIN[plain]
        raise InvalidInput(f"the JSON Schema: {path} has the unknown type {kind}")

    def _resolved(self, schema: Mapping[str, Any], path: str) -> tuple[Mapping[str, Any], bool]:
        """Unite the parts of a schema. Return this, and whether null is an alternative to it."""
        parts = [*self._parts(schema, path)]
        united = _united(parts)
        alternatives = [each for part in parts for each in _alternatives(part)]
        if alternatives and "type" not in united and self._type_of_values(united) is None:
            raise InvalidInput(
                f"the JSON Schema: {path} has {len(alternatives)} alternatives, and a column has exactly one "
                "type"
            )
        if lost := self._lost(alternatives, united, path):
            raise InvalidInput(
                f"the JSON Schema: {path} has alternatives with properties that it does not have itself, and "
                "these would have no column; also declare them outside of anyOf and oneOf: "
                + ", ".join(sorted(lost))
            )
        return united, any(_NULL in _list(part, name) for part in parts for name in _ALTERNATIVES)

    def _parts(self, schema: Any, path: str) -> Iterator[Mapping[str, Any]]:
        """Return the schemas that apply together: a schema and those that it includes."""
        if not isinstance(schema, dict):
            return
        included = [self._at(str(schema["$ref"]), path)] if "$ref" in schema else []
        if not (included and self._references_stand_alone):
            yield schema
            included += _list(schema, "allOf")
            included += [group[0] for group in _groups(schema) if len(group) == 1]
        for each in included:
            yield from self._parts(each, path)

    def _lost(self, alternatives: Iterable[Any], united: Mapping[str, Any], path: str) -> set[str]:
        """Return the names of the properties of alternatives that have no column, as a.b within others.

        Args:
            united: The schema that has the alternatives, without them.
        """
        lost = set[str]()
        if _is_map(united):
            return lost
        own = _properties(united)
        for part in (part for each in alternatives for part in self._parts(each, path)):
            for name, each in _properties(part).items():
                if name in own:
                    inner = _united(self._parts(own[name], path))
                    lost |= {f"{name}.{found}" for found in self._lost([each], inner, path)}
                elif each is not False:  # which forbids it
                    lost.add(name)
            lost |= self._lost(_alternatives(part), united, path)
        return lost

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


def _united(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one schema for several that apply together. Of other rules than these, the first one is kept."""
    united: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    required: list[Any] = []
    for part in parts:
        united = {name: rule for name, rule in part.items() if name not in _COMPOSITION} | united
        for name, each in _properties(part).items():
            known = properties.setdefault(name, each)
            if known != each:
                properties[name] = {"allOf": [known, each]}
        required += _list(part, "required")
    return united | ({"properties": properties} if properties else {}) | {"required": required}


def _is_map(schema: Mapping[str, Any]) -> bool:
    """Return whether the properties of an object may have any names."""
    return "properties" not in schema and isinstance(schema.get("additionalProperties"), dict)


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _list(schema: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list in a schema; an empty one for another value, as `required` has in drafts before 4."""
    value = schema.get(name)
    return value if isinstance(value, list) else []


def _groups(schema: Mapping[str, Any]) -> list[list[Any]]:
    """Return the alternatives besides null in `anyOf`, and those in `oneOf`."""
    return [[each for each in _list(schema, name) if each != _NULL] for name in _ALTERNATIVES]


def _alternatives(schema: Mapping[str, Any]) -> list[Any]:
    """Return the alternatives of which each applies to some values only."""
    return [each for group in _groups(schema) if len(group) > 1 for each in group]
