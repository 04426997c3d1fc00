"""Spark types as DDL text, for schemas that are read without Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

KEEPING = ("error", "shard_id", "sequence_number", "sub_sequence_number", "data")
"""The columns of a typed table by which a record is kept that cannot be decoded."""

RESERVED = {*KEEPING, "_batch_id"}
"""The names of columns that a typed table has besides the fields of its records."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct.

    Attributes:
        name: The name.
        type: The type as DDL.
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


def column_name(field: str) -> str:
    """Return a name for the column of a field: its own, unless a typed table cannot have such a column."""
    name = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in field)
    return f"{name}_" if name.lower() in RESERVED else name


def _suffix(field: Field) -> str:
    return " NOT NULL" if field.required else ""
