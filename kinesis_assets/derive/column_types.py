"""The types of columns, as in Delta's metadata: which a table can have, and how they grow.

A type grows if another one holds all of its values, and those of the new rows: an integer, FLOAT or DECIMAL
becomes a wider one, and a struct, at any depth, gets further fields, which are null in older rows. Types only
grow: new rows of the earlier type are written as the later one. Keys of maps do not grow, since a map with
the keys of both types could have the same one twice.

Some growth changes only the metadata of a table: every reader finds null in files without a nested field.
Otherwise the table's files are rewritten, because some readers refuse them: Spark 3.5 an INT in place of a
BIGINT, Polars a DECIMAL of another scale, and delta-rs a map whose values lack a field.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_SIMPLE = re.compile(
    r"string|long|integer|short|byte|float|double|boolean|binary|date|timestamp|timestamp_ntz|decimal\(\d+,\d+\)"
)
"""The types of the Delta protocol without parts."""

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")

_ORDERED = (("byte", "short", "integer", "long"), ("float", "double"))
"""Types of which each holds all values of those before it."""

_PARTS = {"array": ("elementType", "containsNull"), "map": ("valueType", "valueContainsNull")}
"""By type, its part that can grow, and what says whether that can be null."""


class TypesConflict(Exception):  # never leaves the package
    """No type holds the values of two types.

    Attributes:
        path: The names of the struct fields that lead to the part that differs; none for the whole type.
    """

    def __init__(self, path: tuple[str, ...], old: Any, new: Any) -> None:
        super().__init__(f"{'.'.join(path)}: {text_of(old)} and {text_of(new)}")
        self.path = path
        self.old = old
        self.new = new


def grown(old: Any, new: Any, path: tuple[str, ...] = ()) -> Any:
    """Return the type that a column of a table has after rows of another type were added.

    It is the type of the table itself if that holds all values of the new rows.

    Raises:
        TypesConflict: No type holds the values of both.
    """
    if old == new:
        return old
    if isinstance(old, str) and isinstance(new, str):
        for wide, narrow in ((old, new), (new, old)):
            if _holds(wide, narrow):
                return wide
    elif not isinstance(old, str) and not isinstance(new, str) and old["type"] == new["type"]:
        if old["type"] == "struct":
            return {"type": "struct", "fields": _grown_fields(old["fields"], new["fields"], path)}
        if old.get("keyType") == new.get("keyType"):
            part, nulls = _PARTS[old["type"]]
            return old | {part: grown(old[part], new[part], path), nulls: old[nulls] or new[nulls]}
    raise TypesConflict(path, old, new)


def _grown_fields(
    old: list[dict[str, Any]], new: list[dict[str, Any]], path: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return the fields of a struct, in the order of the table, and then the others of new rows."""
    found = {field["name"].lower(): field for field in new}
    fields = []
    for field in old:
        name = field["name"]
        other = found.pop(name.lower(), None)
        if other is None:
            fields.append(field | {"nullable": True})
            continue
        if other["name"] != name:
            raise TypesConflict(path, {"type": "struct", "fields": old}, {"type": "struct", "fields": new})
        kind = grown(field["type"], other["type"], (*path, name))
        fields.append(field | {"type": kind, "nullable": field["nullable"] or other["nullable"]})
    return [*fields, *(field | {"nullable": True, "metadata": {}} for field in found.values())]


def _holds(wide: str, narrow: str) -> bool:
    """Return whether a type without parts holds all values of another one."""
    decimals = [_DECIMAL.fullmatch(kind) for kind in (wide, narrow)]
    if decimals[0] and decimals[1]:
        (precision, scale), (other, other_scale) = (map(int, each.groups()) for each in decimals if each)
        return scale >= other_scale and precision - scale >= other - other_scale
    return any(
        narrow in types and wide in types and types.index(narrow) <= types.index(wide) for types in _ORDERED
    )


def with_nulls(kind: Any) -> Any:
    """Return a type whose parts can be null, except the keys of maps: later rows may lack them."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        fields = [field | {"type": with_nulls(field["type"]), "nullable": True} for field in kind["fields"]]
        return kind | {"fields": fields}
    part, nulls = _PARTS[kind["type"]]
    return kind | {part: with_nulls(kind[part]), nulls: True}


def needs_files(old: Any, new: Any) -> bool:
    """Return whether files with a type must be rewritten for some reader when it grows to another one."""
    if isinstance(old, str):
        return bool(old != new)
    if old["type"] == "struct":
        fields = {field["name"]: field["type"] for field in new["fields"]}
        return any(needs_files(field["type"], fields[field["name"]]) for field in old["fields"])
    if old["type"] == "array":
        return needs_files(old["elementType"], new["elementType"])
    return text_of(old) != text_of(new)


def lacking(old: Any, new: Any, path: tuple[str, ...] = ()) -> list[str]:
    """Return the fields of the structs in a type of a table that the type of new rows lacks.

    Both must have a type to which they grow.
    """
    if isinstance(old, str):
        return []
    if old["type"] == "struct":
        found = {field["name"]: field["type"] for field in new["fields"]}
        missing = []
        for field in old["fields"]:
            name = (*path, field["name"])
            kind = found.get(field["name"])
            missing += [".".join(name)] if kind is None else lacking(field["type"], kind, name)
        return missing
    part, _ = _PARTS[old["type"]]
    return lacking(old[part], new[part], path)


def is_storable(kind: Any) -> bool:
    """Return whether a type, as in Spark's JSON, is one of Delta."""
    if isinstance(kind, str):
        return _SIMPLE.fullmatch(kind) is not None
    if kind["type"] == "struct":
        return all(is_storable(field["type"]) for field in kind["fields"])
    return kind["type"] in _PARTS and all(map(is_storable, _parts_of(kind)))


def _parts_of(kind: Mapping[str, Any]) -> list[Any]:
    """Return the types of the elements of an array, or of the keys and values of a map."""
    return [kind[part] for part in ("elementType", "keyType", "valueType") if part in kind]


def fields_twice(kind: Any) -> list[str]:
    """Return fields of a struct in a type, as in Spark's JSON, whose names differ only by case; if any."""
    if isinstance(kind, str):
        return []
    fields = kind.get("fields", ())
    counts = Counter(field["name"].lower() for field in fields)
    twice = [field["name"] for field in fields if counts[field["name"].lower()] > 1]
    parts = [*(field["type"] for field in fields), *_parts_of(kind)]
    return twice or next(filter(None, map(fields_twice, parts)), [])


def text_of(kind: Any) -> str:
    """Return a type as in Spark SQL, with Delta's names of types without parts."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        fields = ", ".join(f"{field['name']}: {text_of(field['type'])}" for field in kind["fields"])
        return f"struct<{fields}>"
    parts = ", ".join(map(text_of, _parts_of(kind)))
    return f"{kind['type']}<{parts}>" if parts else str(kind["type"])
