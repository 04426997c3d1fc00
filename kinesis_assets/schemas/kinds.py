"""The kinds of documents in a sample: the values of a field that decides which other fields there are."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinesis_assets.schemas.ddl import readable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
