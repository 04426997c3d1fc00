"""Parts of JSON documents, by their path: which documents are decoded, and an array whose elements are.

A path has the names of fields, with dots between them. A name with a dot is written within backticks.
Definitions load this module, so it loads neither Spark nor Arrow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from kinesis_assets.decoders.decoder import (
    INVALID_JSON,
    MOST_REPEATED,
    BytesDecoder,
    Decoding,
    Undecodable,
)
from kinesis_assets.decoders.split import IN_MEMORY, elements_between
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from kinesis_assets.decoders.decoder import Step

_NAME = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_REFUSED = re.compile(r'["\\\x00-\x1f]')
"""Characters of names by which msgspec finds no member of an object, see `_members_reader`."""


def parse_path(path: str) -> tuple[str, ...]:
    """Return the names in a path. Raises `InvalidInput` if it is none."""
    if (refused := _REFUSED.search(path)) is not None:
        raise InvalidInput(
            f"{path!r} is no path, because of the {refused[0]!r}; give names without quotation marks, "
            "backslashes and control characters, and write one with a dot within backticks, as in `a.b`.c"
        )
    names, place = list[str](), 0
    while (match := _NAME.match(path, place)) is not None:
        names.append(match[1].replace("``", "`") if match[1] else match[2])
        place = match.end() + 1
        if match.end() == len(path):
            return tuple(names)
        if path[match.end()] != ".":
            break
    raise InvalidInput(f"{path!r} is no path; give the names of fields, as in detail.type or `a.b`.c")


@dataclass(frozen=True)
class Unnest(BytesDecoder):
    """Make a document of each element of an array: the document itself with the element in its place.

    An array that is empty, null or missing has no elements, and its document becomes none.

    Attributes:
        path: The path of the array.
    """

    path: str
    multiplies: ClassVar[bool] = True
    name: ClassVar[str] = "unnest"

    def __post_init__(self) -> None:
        parse_path(self.path)

    def make_step(self) -> Step:
        """See `Decoder`."""
        path = parse_path(self.path)

        def step(decoding: Decoding) -> Iterable[Decoding]:
            try:
                before, array, after = _around(decoding.value, path)
                elements = _elements(array)
            except INVALID_JSON as error:
                raise Undecodable(str(error)) from error
            repeated = len(before) + len(after)
            if len(array) * repeated > MOST_REPEATED:
                count = sum(1 for _ in _elements(array))
                if count * repeated > MOST_REPEATED:
                    raise Undecodable(
                        f"its {count} elements would each have {repeated} bytes of the document around "
                        f"them, more than {MOST_REPEATED} together"
                    )
            return (decoding.part(b"".join((before, element, after))) for element in elements)

        return step


_NULL = b"null"

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


def _around(document: Any, path: tuple[str, ...]) -> tuple[bytes, bytes, bytes]:
    """Return what is before an array, the array, and what is behind it."""
    if not path:
        return b"", bytes(document), b""
    name, *rest = path
    members = _object(document)
    if name not in members or bytes(members[name]) == _NULL:
        return b"", b"[]", b""
    before, array, after = _around(members[name], tuple(rest))
    texts = [
        b"%s:%s" % (msgspec.json.encode(each), before if each == name else value)
        for each, value in members.items()
    ]
    place = [*members].index(name)
    return b"{" + b",".join(texts[: place + 1]), array, b",".join((after, *texts[place + 1 :])) + b"}"


def _elements(array: bytes) -> Iterable[bytes | msgspec.Raw]:
    """Return the elements of an array. Raises `msgspec.ValidationError` for a value that is none."""
    if len(array) > IN_MEMORY and array.startswith(b"["):
        return elements_between(array, 1, len(array) - 1)
    return _array(array)


Scalar = str | int | float | bool | None

_OF_RECORD = f"{RECORD}."


@dataclass(frozen=True)
class Only(BytesDecoder):
    """Decode only documents in which fields, or columns of the source, have some values. Others are left out.

    Values are compared as those of JSON: text with text, and numbers exactly. A missing field is null.

    Attributes:
        values: By path, a value or several. The path of a column is `_record.<name>`, as of
            `_record.partition_key`; it must be a text or an integer.
        tombstones: Records that are no documents, and are left out.
    """

    values: Mapping[str, Scalar | list[Scalar]]
    tombstones: tuple[bytes, ...] = ()
    name: ClassVar[str] = "only"

    def __post_init__(self) -> None:
        if not self.values:
            raise InvalidInput("no condition is given; give a path and its value, as in type: order")
        for path, given in self.values.items():
            names = parse_path(path)
            if names[0] == RECORD and len(names) != 2:  # noqa: PLR2004  # with the column
                raise InvalidInput(f"{path!r} is no column of the source, such as {_OF_RECORD}partition_key")
            if not _several(given):
                raise InvalidInput(f"{path}: no value is given; give one, or several in a list")
            for value in _several(given):
                _check(path, value)
        self._tree()

    @property
    def multiplies(self) -> bool:
        """Whether documents are left out by their fields. Records are left out before they are decoded."""
        return any(parse_path(path)[0] != RECORD for path in self.values)

    @property
    def columns(self) -> Mapping[str, list[Scalar]]:
        """The values of the columns of the source, by their names."""
        names = {parse_path(path): path for path in self.values}
        return {path[1]: _several(self.values[key]) for path, key in names.items() if path[0] == RECORD}

    def filtered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows in which columns of the source have the values."""
        import pyarrow as pa  # noqa: PLC0415  # definitions do not need it
        import pyarrow.compute as pc  # noqa: PLC0415  # as above

        for name, values in self.columns.items():
            column = batch[name]
            batch = batch.filter(pc.is_in(column, value_set=pa.array(values, column.type)))
        return batch

    def make_step(self) -> Step:
        """See `Decoder`."""
        if not self.multiplies:
            return lambda _: None
        matches = _object_matcher(self._tree())

        def step(decoding: Decoding) -> Iterable[Decoding]:
            if decoding.value in self.tombstones:
                return ()
            try:
                return (decoding,) if matches(decoding.value) else ()
            except INVALID_JSON as error:
                raise Undecodable(str(error)) from error

        return step

    def _tree(self) -> dict[str, Any]:
        """Return the values by the names in their paths, one within the other."""
        tree: dict[str, Any] = {}
        for path, given in self.values.items():
            *names, last = parse_path(path)
            if names[:1] == [RECORD]:
                continue
            inner: Any = tree
            for name in names:
                inner = inner.setdefault(name, {}) if isinstance(inner, dict) else None
            if not isinstance(inner, dict) or last in inner:
                raise InvalidInput(f"{path}: a part of this path has a value too; remove one of them")
            inner[last] = frozenset(map(comparable, _several(given)))
        return tree


def _several(given: Any) -> list[Scalar]:
    return [*given] if isinstance(given, list | tuple) else [given]


def _check(path: str, value: Any) -> None:
    is_scalar = value is None or isinstance(value, str | int | float)
    if not is_scalar or (isinstance(value, float) and not math.isfinite(value)):
        raise InvalidInput(
            f"{path}: {str(value)[:80]!r} is no text, number, true, false or null of JSON; write it in quotes"
        )


def comparable(value: Any) -> tuple[type, Any]:
    """Return a value that equals those that are the same in JSON: true is not 1, but 1.0 is."""
    kind = type(value)
    if kind is float:
        return Decimal, Decimal(repr(value))
    return (Decimal, Decimal(value)) if kind is int else (kind, value)


_value = msgspec.json.Decoder(float_hook=Decimal).decode
_any = msgspec.json.Decoder(float_hook=str).decode  # also of numbers that no decimal has


def _object_matcher(tree: Mapping[str, Any]) -> Callable[[Any], bool]:
    """Return a function that says whether an object has the values."""
    matchers = {
        f"f{place}": _object_matcher(inner) if isinstance(inner, Mapping) else _scalar_matcher(inner)
        for place, inner in enumerate(tree.values())
    }
    read = _members_reader([*tree])

    def matches(text: Any) -> bool:
        members = read(text)
        for place, each in matchers.items():  # noqa: SIM110  # all() takes twice the time
            if not each(getattr(members, place)):
                return False
        return True

    return matches


def _scalar_matcher(values: frozenset[tuple[type, Any]]) -> Callable[[Any], bool]:
    return lambda text: comparable_of(text) in values


def value_reader(path: str) -> Callable[[Any], msgspec.Raw]:
    """Return a function that returns the text of the value at a path of a document, null if it has none.

    It raises an error of `INVALID_JSON` for a document that is no JSON.
    """
    readers = [_members_reader([name]) for name in parse_path(path)]

    def read(document: Any) -> msgspec.Raw:
        for reader in readers:
            document = reader(document).f0
        found: msgspec.Raw = document
        return found

    return read


def _members_reader(names: Sequence[str]) -> Callable[[Any], Any]:
    """Return a function that returns the texts of some members of an object, as the fields `f0`, `f1`, ...

    A member that it lacks is null, and what is no object has none. Nothing is built of other members.
    """
    places = [f"f{place}" for place in range(len(names))]
    object_ = msgspec.defstruct(
        "object",
        [(place, msgspec.Raw, msgspec.Raw(_NULL)) for place in places],
        rename=dict(zip(places, names, strict=True)),
    )
    decode = msgspec.json.Decoder(object_).decode
    no_members = object_()

    def read(text: Any) -> Any:
        try:
            return decode(text)
        except msgspec.ValidationError:  # it is no object, but may be no JSON either
            _any(text)
            return no_members

    return read


def comparable_of(text: bytes | msgspec.Raw) -> tuple[type, Any] | None:
    """Return the value of a text of JSON as `comparable` returns it; None for an object or an array."""
    try:
        value = _value(text)
    except ArithmeticError:  # a number that no decimal has
        return None
    return None if isinstance(value, dict | list) else comparable(value)
