"""The Spark type of JSON documents, inferred from a sample of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from kinesis_assets.schemas.ddl import Field, readable, struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TEXTS: tuple[tuple[str, Any], ...] = (
    ("DATE", date),
    ("TIMESTAMP", Annotated[datetime, msgspec.Meta(tz=True)]),
    ("TIMESTAMP_NTZ", Annotated[datetime, msgspec.Meta(tz=False)]),
)
"""Types that are text in JSON, with the Python types by which `Json` decodes them."""

_KINDS = {bool: "BOOLEAN", float: "DOUBLE", dict: "STRUCT", list: "ARRAY"}
_ONLY_TEXT = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING"}
_NUMBERS = {"BIGINT", "DECIMAL(38, 0)", "DOUBLE"}


@dataclass(frozen=True, slots=True)
class Inference:
    """The type of some documents.

    Attributes:
        fields: The fields of the documents.
        documents: Number of documents that are objects.
        others: Number of documents that are not, or are no JSON.
        notes: What `Json` would not decode with this type, each for people.
    """

    fields: Sequence[Field]
    documents: int
    others: int
    notes: Sequence[str]


def infer_type(documents: Iterable[bytes]) -> Inference:
    """Return the type with which `Json` decodes documents.

    Values of different types become text, which `Json` does not convert: the others cannot be decoded then.
    """
    seen, others, notes = _Values(), 0, list[str]()
    for document in documents:
        try:
            value = msgspec.json.decode(document.decode())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            value = None
        if isinstance(value, dict):
            seen.add(value)
        else:
            others += 1
    fields = seen.struct_fields("", notes)
    return Inference(fields, seen.kinds["STRUCT"], others, notes)


@dataclass(slots=True)
class _Values:
    """The values at one place of the documents.

    Attributes:
        kinds: Number of values by their type. Nulls are not counted.
        fields: The values of each field of the objects among them.
        items: The items of the arrays among them.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    fields: dict[str, _Values] = field(default_factory=dict)
    items: _Values | None = None

    def add(self, value: Any) -> None:
        if value is None:
            return
        self.kinds[_kind(value)] += 1
        if isinstance(value, dict):
            for name, each in value.items():
                self.fields.setdefault(name, _Values()).add(each)
        elif isinstance(value, list):
            self.items = self.items or _Values()
            for each in value:
                self.items.add(each)

    def struct_fields(self, path: str, notes: list[str]) -> list[Field]:
        found: dict[str, Field] = {}
        for name, values in self.fields.items():
            place = f"{path}{readable(name)}"
            if name.lower() in found:
                notes.append(
                    f"{place} is left out: Spark does not distinguish it from {found[name.lower()].name}"
                )
            else:
                found[name.lower()] = Field(name, values.type(place, notes))
        return list(found.values())

    def type(self, path: str, notes: list[str]) -> str:
        kinds = {*self.kinds}
        if kinds == {"STRUCT"}:
            return struct(self.struct_fields(f"{path}.", notes)) if self.fields else "MAP<STRING, STRING>"
        if kinds == {"ARRAY"}:
            return f"ARRAY<{(self.items or _Values()).type(f'{path}[]', notes)}>"
        if len(kinds) == 1:
            return kinds.pop()
        if kinds and kinds <= _NUMBERS:
            return "DOUBLE" if "DOUBLE" in kinds else "DECIMAL(38, 0)"
        if not kinds <= _ONLY_TEXT:
            counts = ", ".join(f"{kind} ({count})" for kind, count in self.kinds.most_common())
            notes.append(f"{path} has values of different types: {counts}. Only text is decoded as STRING")
        return "STRING"


def _kind(value: Any) -> str:
    match value:
        case str():
            return next((name for name, type_ in _TEXTS if _is(value, type_)), "STRING")
        case int() if not isinstance(value, bool):
            longest = "DECIMAL(38, 0)" if abs(value) < 10**38 else "DOUBLE"
            return "BIGINT" if -(1 << 63) <= value < 1 << 63 else longest
    return _KINDS[type(value)]


def _is(text: str, type_: Any) -> bool:
    try:
        msgspec.convert(text, type_)
    except msgspec.ValidationError:
        return False
    return True
