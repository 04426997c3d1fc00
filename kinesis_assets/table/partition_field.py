"""The setting `partition_by` of a derived table: its partition columns, or Iceberg's transforms of columns.

Definitions import this module, so it loads neither Arrow nor pyiceberg.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self, cast

from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

Transform = Literal["identity", "year", "month", "day", "hour", "bucket", "truncate"]

_TRANSFORM = re.compile(
    r"(?:(?P<time>year|month|day|hour)\(|(?P<sized>bucket|truncate)\( *(?P<size>[1-9]\d{0,8}) *,)"
    r" *(?P<column>[^(), ]+) *\)"
)

_EXAMPLES = "year(at), month(at), day(at), hour(at), bucket(16, id) or truncate(4, name)"

_INTEGERS = {"byte", "short", "integer", "long"}
_TIMESTAMPS = {"timestamp", "timestamp_ntz"}

_TYPES: dict[Transform, tuple[set[str], str]] = {
    "identity": ({*_INTEGERS, "string", "date"}, "a text, a date or an integer"),
    "year": ({*_TIMESTAMPS, "date"}, "a date or a timestamp"),
    "month": ({*_TIMESTAMPS, "date"}, "a date or a timestamp"),
    "day": ({*_TIMESTAMPS, "date"}, "a date or a timestamp"),
    "hour": (_TIMESTAMPS, "a timestamp"),
    "bucket": (
        {*_INTEGERS, *_TIMESTAMPS, "decimal", "string", "binary", "date"},
        "an integer, a decimal, a text, binary, a date or a timestamp",
    ),
    "truncate": ({*_INTEGERS, "decimal", "string", "binary"}, "an integer, a decimal, a text or binary"),
}
"""The types that each transform accepts, as in Delta's metadata, and as an error calls them. A partition
column has fewer types than Iceberg's identity accepts: each has one text, by which its folder is named."""

_IN_SQL = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A partition column, or a transform of a column.

    Attributes:
        parameter: The number of buckets, or the length to which values are truncated; None of others.
    """

    column: str
    transform: Transform = "identity"
    parameter: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return an entry of the setting.

        Raises:
            InvalidInput: It is neither the name of a column nor a transform.
        """
        if "(" not in text:  # which the name of no column contains
            return cls(text)
        match = _TRANSFORM.fullmatch(text)
        if match is None:
            raise InvalidInput(
                f"partition_by: invalid transform {text[:80]!r}; give the name of a column, or {_EXAMPLES}"
            )
        transform = cast("Transform", match["time"] or match["sized"])
        return cls(match["column"], transform, None if match["size"] is None else int(match["size"]))

    @property
    def name(self) -> str:
        """The name of the partition, as Iceberg's writers name it."""
        if self.transform == "identity":
            return self.column
        return f"{self.column}_{'trunc' if self.transform == 'truncate' else self.transform}"

    def refusal_of(self, kind: object) -> str | None:
        """Return which types it needs instead of another one; None if it accepts that.

        Args:
            kind: The type, as in Delta's metadata or in SQL.
        """
        accepted, wanted = _TYPES[self.transform]
        name = kind.lower().partition("(")[0] if isinstance(kind, str) else ""
        return None if _IN_SQL.get(name, name) in accepted else f"use {wanted}"

    def __str__(self) -> str:
        """The entry as in the setting."""
        if self.transform == "identity":
            return self.column
        parameter = "" if self.parameter is None else f"{self.parameter}, "
        return f"{self.transform}({parameter}{self.column})"


def partition_fields(entries: Iterable[str]) -> tuple[PartitionField, ...]:
    """Return the entries of the setting. Raises as `PartitionField.parse`."""
    return tuple(map(PartitionField.parse, entries))
