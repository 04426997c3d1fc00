"""Spark types as DDL text, for schemas that are read without Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

KEEPING = ("error", "shard_id", "sequence_number", "sub_sequence_number", "data")
"""The columns of a typed table by which a record is kept that cannot be decoded."""

DOCUMENT_NUMBER = "document_number"
"""The column with the place of a document in its record, in tables and routers whose records may be split. It
is null in a record that could not be split."""

KEEPING_DOCUMENTS = (*KEEPING[:-1], DOCUMENT_NUMBER, KEEPING[-1])
"""The same as `KEEPING`, in these tables."""

UNCHANGED_COLUMN = "_unchanged"
"""The column of a transformation with the names of the columns whose values a row lacks. An upsert takes them
from the table. It is not stored."""

RECORD = "_record"
"""The name under which expressions find the columns of the raw table of which the record has the name too."""

_RESERVED = {*KEEPING_DOCUMENTS, RECORD, "_batch_id"}
"""The names that the column of a field cannot have."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct.

    Attributes:
        required: Whether a record without the field cannot be decoded.
    """

    name: str
    type: str
    required: bool = False


def columns(fields: Sequence[Field], separator: str = ", ") -> str:
    """Return a struct as the columns of a table."""
    return separator.join(f"{readable(each.name)} {each.type}{_suffix(each)}" for each in fields)


def struct(fields: Sequence[Field]) -> str:
    """Return a struct as the type of a column."""
    return f"STRUCT<{', '.join(f'{readable(each.name)}: {each.type}{_suffix(each)}' for each in fields)}>"


def quoted(name: str) -> str:
    """Return a name as it is written in Spark SQL."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def readable(name: str) -> str:
    """Return a name as it is written in Spark SQL, without quotes if it needs none."""
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)


def column_names(fields: Sequence[str]) -> dict[str, str]:
    """Return a name for the column of each field: its own, unless a typed table cannot have such a column."""
    names = {field: _column_name(field) for field in fields}
    taken = {field.lower() for field, name in names.items() if field == name}
    for field, name in names.items():
        unique = name
        while unique != field and unique.lower() in taken:
            unique += "_"
        names[field] = unique
        taken.add(unique.lower())
    return names


def _column_name(field: str) -> str:
    name = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in field)
    if name.startswith("__"):  # as the names of columns that are added while rows are processed
        name = f"_{name.lstrip('_')}"
    return f"{name}_" if name.lower() in _RESERVED else name


def _suffix(field: Field) -> str:
    return " NOT NULL" if field.required else ""
