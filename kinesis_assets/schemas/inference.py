"""The Spark type of a sample of documents, of JSON or of other formats."""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from kinesis_assets.schemas.ddl import MAX_DIGITS, RECORD, Field, readable, struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TEXTS: tuple[tuple[str, Any], ...] = (
    ("DATE", date),
    ("TIMESTAMP", Annotated[datetime, msgspec.Meta(tz=True)]),
    ("TIMESTAMP_NTZ", Annotated[datetime, msgspec.Meta(tz=False)]),
)
"""Types that are text in JSON, with the Python types by which `Json` decodes them."""

JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class ValueSet(list[Any]):
    """A set of values of one type, as DynamoDB has them. It is an array, but not one of variants."""

    __slots__ = ()


_KINDS = {bool: "BOOLEAN", dict: "STRUCT", list: "ARRAY", ValueSet: "SET"}
_ONLY_TEXT = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING"}
_EXACT = "DECIMAL"
"""The kind of an exact number with a fraction, whose digits decide its type."""
_WHOLE = {"BIGINT", "DECIMAL(38, 0)"}
_NUMBERS = {*_WHOLE, "DOUBLE", _EXACT}
_DIGITS_OF_BIT = 0.30103
_DIGITS_OF_DOUBLE = 15


@dataclass(frozen=True, slots=True)
class Inference:
    """The type of some documents.

    Attributes:
        notes: Where the type differs from the documents, each as a sentence.
        evidence: By field, the numbers of its values by their types.
    """

    fields: Sequence[Field]
    notes: Sequence[str]
    evidence: Mapping[str, str]


def infer_values(
    documents: Sequence[Mapping[str, Any]], mixed: str = "VARIANT", *, exact: bool = False
) -> Inference:
    """Return a type with which `Json` decodes all of some objects.

    Values of different types, and numbers that no type of Spark can hold, are variants. A decimal is a number
    of which no digit may be lost.

    Args:
        mixed: The type of values of different types.
        exact: Whether an integer must have all its digits, also among numbers with a fraction.
    """
    seen, notes = _Values(mixed, exact), list[str]()
    for document in documents:
        seen.add(document)
    fields = seen.struct_fields("", notes)
    evidence = {each.name: seen.fields[each.name].described(len(documents)) for each in fields}
    return Inference(fields, notes, evidence)


# A number that is too large for a float is infinite, and one that is too large for `Json` is an error.
_decoder = msgspec.json.Decoder(float_hook=lambda text: float(Decimal(text)))


def read_document(document: bytes) -> Any:
    """Return the value of a JSON document; None if it is not JSON."""
    try:
        return _decoder.decode(document.decode())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidOperation):
        return None


@dataclass(slots=True)
class _Values:
    """The values at one place of the documents.

    Attributes:
        kinds: Number of values by their type. Nulls are not counted.
        fields: The values of each field of the objects among them.
        items: The items of the arrays among them.
        whole: The most digits of a number before the point.
        scale: The most digits of an exact number behind it.
    """

    mixed: str
    exact: bool
    kinds: Counter[str] = field(default_factory=Counter)
    fields: dict[str, _Values] = field(default_factory=dict)
    items: _Values | None = None
    whole: int = 0
    scale: int = 0

    def add(self, value: Any) -> None:
        if value is None:
            return
        kind = _kind(value)
        self.kinds[kind] += 1
        if isinstance(value, dict):
            for name, each in value.items():
                self.fields.setdefault(name, _Values(self.mixed, self.exact)).add(each)
        elif isinstance(value, list):
            self.items = self.items or _Values(self.mixed, self.exact)
            for each in value:
                self.items.add(each)
        elif kind in _NUMBERS:
            whole, scale = _digits(value)
            self.whole, self.scale = max(self.whole, whole), max(self.scale, scale)

    def described(self, documents: int) -> str:
        """Return the numbers of values by their types."""
        counts = [f"{count} {kind}" for kind, count in self.kinds.most_common()]
        if missing := documents - self.kinds.total():
            counts.append(f"{missing} without a value")
        return ", ".join(counts)

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
        if kinds and kinds <= {"ARRAY", "SET"}:
            items = (self.items or _Values(self.mixed, self.exact)).type(f"{path}[]", notes)
            return "VARIANT" if items == "VARIANT" and "SET" in kinds else f"ARRAY<{items}>"
        if kinds and kinds <= _NUMBERS:
            return self._number(path, notes)
        if len(kinds) == 1:
            return kinds.pop()
        if kinds <= _ONLY_TEXT:
            return "STRING"
        counts = ", ".join(f"{kind} ({count})" for kind, count in self.kinds.most_common())
        keeps = " keeps each as JSON text" if self.mixed == "VARIANT" else " keeps their text"
        notes.append(f"{path} has values of different types: {counts}. {self.mixed}{keeps}")
        return self.mixed

    def _number(self, path: str, notes: list[str]) -> str:
        kinds = {*self.kinds}
        many = self.exact and "DOUBLE" in kinds and kinds & _WHOLE and self.whole > _DIGITS_OF_DOUBLE
        if _EXACT not in kinds and not many:
            whole = "BIGINT" if kinds == {"BIGINT"} else "DECIMAL(38, 0)"
            return "DOUBLE" if "DOUBLE" in kinds else whole
        if self.whole + self.scale <= MAX_DIGITS:
            return f"DECIMAL({MAX_DIGITS}, {self.scale})"
        notes.append(
            f"{path} has numbers of {self.whole} digits before and {self.scale} behind the point, which no "
            "decimal of Spark has. VARIANT keeps each as JSON text"
        )
        return "VARIANT"


def _kind(value: Any) -> str:  # noqa: PLR0911  # a table of cases
    match value:
        case str():
            return next((name for name, type_ in _TEXTS if _is(value, type_)), "STRING")
        case bool() | dict() | list():
            return _KINDS[type(value)]
        case bytes():
            return "BINARY"
        case int() if -(1 << 63) <= value < 1 << 63:
            return "BIGINT"
        case int() if abs(value) < 10**MAX_DIGITS:
            return "DECIMAL(38, 0)"
        case Decimal() if value.adjusted() < MAX_DIGITS:
            return _kind(int(value)) if value == value.to_integral_value() else _EXACT
    return "DOUBLE" if not isinstance(value, Decimal) and abs(value) <= sys.float_info.max else "VARIANT"


def _digits(value: Any) -> tuple[int, int]:
    """Return how many digits a number has before and behind the point, at least."""
    if isinstance(value, int):
        return int(value.bit_length() * _DIGITS_OF_BIT) + 1, 0
    _, digits, exponent = Decimal(repr(value) if isinstance(value, float) else value).as_tuple()
    text = "".join(map(str, digits))
    kept = len(text.rstrip("0"))
    return max(len(text) + int(exponent), 0), max(kept - len(text) - int(exponent), 0)


def _is(text: str, type_: Any) -> bool:
    try:
        msgspec.convert(text, type_)
    except msgspec.ValidationError:
        return False
    return True
