"""What a sample of documents shows, of JSON or of other formats: their Spark type, and their kinds.

A field may decide which other fields there are. Each of its values is then a kind of documents.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from kinesis_assets.schemas.ddl import MAX_DIGITS, RECORD, Field, readable, struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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


_MOST_KINDS = 20
_MOST_LETTERS = 100
_DEPTH = 3
_FEW = 3
"""The documents of a kind from which something is known of all of them."""

_ALWAYS = 0.95

_Document = dict[str, Any]
_Path = tuple[str, ...]
_Feature = tuple[_Path, str]
"""A path, and which type of JSON its value has."""


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of some documents.

    Attributes:
        path: The path of the field whose value is the kind.
        documents: The documents of each kind, the most frequent one first.
    """

    path: str
    documents: Mapping[str | int | bool, Sequence[_Document]]


def find_kinds(documents: Sequence[_Document]) -> Kinds | None:
    """Return the kinds of documents; None if they are of one kind, as far as they show.

    Two kinds have fields, or types of fields, that the other one never has. So a status that only comes with
    a further field is none.
    """
    found: list[tuple[int, int, _Path]] = []
    features = [frozenset(_features(document)) for document in documents]
    for path, values in _candidates(documents).items():
        decided = _decided(features, values)
        if decided:
            found.append((-decided, len(path), path))
    if not found:
        return None
    _, _, path = min(found)
    return _kinds_at(documents, path)


def _kinds_at(documents: Sequence[_Document], path: _Path) -> Kinds:
    """Return documents by the value at a path. Those without one are left out."""
    groups: dict[Any, list[_Document]] = defaultdict(list)
    for document in documents:
        if _is_kind(value := _at(document, path)):
            groups[value].append(document)
    ordered = sorted(groups.items(), key=lambda each: -len(each[1]))
    return Kinds(path_text(path), dict(ordered))


def path_text(names: Sequence[str]) -> str:
    """Return names as a path of settings, see `parse_path`."""
    return ".".join(readable(name) if "." in name or "`" in name else name for name in names)


def _at(document: _Document, path: _Path) -> Any:
    value: Any = document
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _is_kind(value: Any) -> bool:
    return 0 < len(value) <= _MOST_LETTERS if isinstance(value, str) else isinstance(value, int)


def _candidates(documents: Sequence[_Document]) -> dict[_Path, list[Any]]:
    """Return the fields with few values, and the value in each document, which may be None."""
    distinct: dict[_Path, set[str]] = defaultdict(set)
    counts = Counter[_Path]()
    types: dict[_Path, set[type]] = defaultdict(set)
    for document in documents:
        for path, value in _scalars(document):
            if _is_kind(value) and len(distinct[path]) <= _MOST_KINDS:
                distinct[path].add(str(value))
                types[path].add(type(value))
                counts[path] += 1
    few = min(_MOST_KINDS, len(documents) // 2)
    return {
        path: [value if _is_kind(value := _at(document, path)) else None for document in documents]
        for path, values in distinct.items()
        if 1 < len(values) <= few and counts[path] >= _ALWAYS * len(documents) and len(types[path]) == 1
    }


def _decided(features: Sequence[frozenset[_Feature]], values: Sequence[Any]) -> int:
    """Return how many features a field decides, 0 if its values are not kinds."""
    sizes = Counter(value for value in values if value is not None)
    counts: dict[Any, Counter[_Feature]] = {value: Counter() for value in sizes}
    for value, each in zip(values, features, strict=True):
        if value in counts:
            counts[value].update(each)
    known = [value for value, size in sizes.items() if size >= _FEW]
    own = {
        value: {
            feature
            for feature, count in counts[value].items()
            if count >= _ALWAYS * sizes[value]
            if any(feature not in counts[other] for other in known)
        }
        for value in known
    }
    with_own = [value for value in known if own[value]]
    if len(with_own) < 2 or sum(sizes[value] for value in with_own) < _ALWAYS * len(values):  # noqa: PLR2004
        return 0
    return sum(map(len, own.values()))


def _scalars(value: _Document, path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    for name, each in value.items():
        if isinstance(each, dict) and len(path) + 1 < _DEPTH:
            yield from _scalars(each, (*path, name))
        elif name:
            yield (*path, name), each


def _features(value: _Document, path: _Path = ()) -> Iterator[_Feature]:
    for name, each in value.items():
        if isinstance(each, dict) and len(path) + 1 < _DEPTH:
            yield from _features(each, (*path, name))
        if each is not None:
            yield (*path, name), _JSON_TYPES.get(type(each), "number")


_JSON_TYPES = {str: "text", bool: "boolean", dict: "object", list: "array"}
