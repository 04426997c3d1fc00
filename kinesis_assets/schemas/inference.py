"""The Spark type of JSON documents, inferred from a sample of them."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from kinesis_assets.schemas.ddl import RECORD, Field, readable, struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TEXTS: tuple[tuple[str, Any], ...] = (
    ("DATE", date),
    ("TIMESTAMP", Annotated[datetime, msgspec.Meta(tz=True)]),
    ("TIMESTAMP_NTZ", Annotated[datetime, msgspec.Meta(tz=False)]),
)
"""Types that are text in JSON, with the Python types by which `Json` decodes them."""

_KINDS = {bool: "BOOLEAN", dict: "STRUCT", list: "ARRAY"}
_ONLY_TEXT = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING"}
_NUMBERS = {"BIGINT", "DECIMAL(38, 0)", "DOUBLE"}


@dataclass(frozen=True, slots=True)
class Inference:
    """The type of some documents.

    Attributes:
        documents: Number of documents that are objects.
        others: Number of documents that are not, or are no JSON.
        notes: What is not as in the documents, each as a sentence.
    """

    fields: Sequence[Field]
    documents: int
    others: int
    notes: Sequence[str]


def infer_type(documents: Iterable[bytes]) -> Inference:
    """Return a type with which `Json` decodes all of some documents.

    Values of different types, and numbers that no type of Spark can hold, are variants.
    """
    seen, others, notes = _Values(), 0, list[str]()
    # A number that is too large for a float is infinite, and one that is too large for `Json` is an error.
    decoder = msgspec.json.Decoder(float_hook=lambda text: float(Decimal(text)))
    for document in documents:
        try:
            value = decoder.decode(document.decode())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidOperation):
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
            elif not name or place.lower() == RECORD:
                notes.append(f"{place} is left out: Spark cannot have a column of this name")
            else:
                found[name.lower()] = Field(name, values.type(place, notes))
        return list(found.values())

    def type(self, path: str, notes: list[str]) -> str:
        kinds = {*self.kinds}
        if kinds == {"STRUCT"}:
            fields = self.struct_fields(f"{path}.", notes)
            return struct(fields) if fields else "MAP<STRING, VARIANT>"
        if kinds == {"ARRAY"}:
            return f"ARRAY<{(self.items or _Values()).type(f'{path}[]', notes)}>"
        if len(kinds) == 1:
            return kinds.pop()
        if kinds and kinds <= _NUMBERS:
            return "DOUBLE" if "DOUBLE" in kinds else "DECIMAL(38, 0)"
        if kinds <= _ONLY_TEXT:
            return "STRING"
        counts = ", ".join(f"{kind} ({count})" for kind, count in self.kinds.most_common())
        notes.append(f"{path} has values of different types: {counts}. VARIANT keeps each as JSON text")
        return "VARIANT"


def _kind(value: Any) -> str:
    match value:
        case str():
            return next((name for name, type_ in _TEXTS if _is(value, type_)), "STRING")
        case bool() | dict() | list():
            return _KINDS[type(value)]
        case int() if -(1 << 63) <= value < 1 << 63:
            return "BIGINT"
        case int() if abs(value) < 10**38:
            return "DECIMAL(38, 0)"
    return "DOUBLE" if abs(value) <= sys.float_info.max else "VARIANT"


def _is(text: str, type_: Any) -> bool:
    try:
        msgspec.convert(text, type_)
    except msgspec.ValidationError:
        return False
    return True
