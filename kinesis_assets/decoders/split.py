"""Records of several documents: lines, documents one after the other, or the elements of an array.

Definitions load this module, so it loads neither Spark nor Arrow.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import msgspec

from kinesis_assets.decoders.decoder import INVALID_JSON, BytesDecoder, Decoding, Undecodable
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kinesis_assets.decoders.decoder import Step

SplitMode = Literal["lines", "documents", "array"]

_WHITESPACE = b" \t\r\n"

IN_MEMORY = 4 << 20
"""The size of an array up to which all of its elements are found at once, in up to 32 times its memory."""

_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = rb'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"'
_SCALAR = re.compile(rb'%s|[^ \t\r\n"{}\[\]]++' % _STRING)
_WITHOUT_BRACKETS = re.compile(rb'[^"{}\[\]]*+(?:%s[^"{}\[\]]*+)*+' % _STRING)
"""What is before the next bracket that is in no string. A string ends in its line."""
_WITHOUT_COMMAS = re.compile(rb'[^",{}\[\]]*+(?:%s[^",{}\[\]]*+)*+' % _STRING)

_CLOSING = {b"{": b"}", b"[": b"]"}


@dataclass(frozen=True)
class Split(BytesDecoder):
    """Split records into documents, each of which is decoded on its own.

    A byte order mark before the first document is left out, as is whitespace around documents.

    Attributes:
        mode: "lines" for one document a line, as the Kinesis Agent writes them: empty lines are none.
            "documents" for JSON documents one after the other, with or without whitespace between them;
            an invalid one ends at the end of its line. "array" for the elements of a JSON array.
    """

    mode: SplitMode
    multiplies: ClassVar[bool] = True
    name: ClassVar[str] = "split"

    def __post_init__(self) -> None:
        if self.mode not in get_args(SplitMode):
            raise InvalidInput(f"Split takes {', '.join(get_args(SplitMode))}, not {self.mode!r}")

    def make_step(self) -> Step:
        """See `Decoder`."""
        split = {"lines": _lines, "documents": _documents, "array": _elements}[self.mode]

        def step(decoding: Decoding) -> Iterable[Decoding]:
            return map(decoding.part, split(decoding.value.removeprefix(BOM_UTF8)))

        return step


def _lines(text: bytes) -> Iterator[bytes]:
    for line in BytesIO(text):  # which finds them one by one
        if line.strip(_WHITESPACE):
            yield line[:-2] if line.endswith(b"\r\n") else line.removesuffix(b"\n")


def _documents(text: bytes) -> Iterator[bytes]:
    brackets = _Brackets(text)
    whole = memoryview(text)
    place = line_end = 0
    while (place := _end_of(_SPACE, text, place)) < len(text):
        if line_end <= place:
            line_end = _line_end(text, place)
        if is_json(whole[place:line_end]):
            end = line_end
        elif text[place : place + 1] in _CLOSING:
            found = brackets.end(place)
            end = _line_end(text, place) if found is None else found
        else:
            end = max(_end_of(_SCALAR, text, place), place)
        if not is_json(whole[place:end]):
            end = _line_end(text, end)
        yield text[place:end].rstrip(_WHITESPACE)
        place = end


def _elements(text: bytes) -> Iterable[bytes]:
    if len(text) <= IN_MEMORY:
        try:
            return map(bytes, _array(text))
        except INVALID_JSON:
            pass  # one of the elements may be the reason
    start = _end_of(_SPACE, text, 0)
    end = _Brackets(text).end(start) if text[start : start + 1] == b"[" else None
    if end is None or text[end:].strip(_WHITESPACE):
        raise Undecodable("it is no JSON array from its beginning to its end")
    return elements_between(text, start + 1, end - 1)


def elements_between(text: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield the elements of an array whose brackets match, one by one.

    Args:
        start: The place after its bracket.
        end: The place of the bracket that closes it.
    """
    if _end_of(_SPACE, text, start) == end:
        return
    place, depth = start, 0
    while (place := _end_of(_WITHOUT_BRACKETS if depth else _WITHOUT_COMMAS, text, place)) < end:
        sign = text[place : place + 1]
        if sign == b"," and not depth:
            yield text[start:place].strip(_WHITESPACE)
            start = place + 1
        depth += (sign in (b"{", b"[")) - (sign in (b"}", b"]"))
        place += 1
    yield text[start:end].strip(_WHITESPACE)


class _Brackets:
    """The brackets of a text that are in no string.

    Where they do not match, those before are remembered, so that a text of many open ones is read once.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._ends: dict[int, int | None] = {}

    def end(self, start: int) -> int | None:
        """Return the place after the bracket that closes the one at a place; None if none does."""
        if start in self._ends:
            return self._ends[start]
        is_open, ends = [start], dict[int, int | None]()
        place = start + 1
        while is_open:
            place = _end_of(_WITHOUT_BRACKETS, self._text, place)
            sign = self._text[place : place + 1]
            opened = is_open[-1]
            if sign in _CLOSING:
                is_open.append(place)
            elif sign == _CLOSING[self._text[opened : opened + 1]]:
                ends[is_open.pop()] = place + 1
            else:
                self._ends |= ends | dict.fromkeys(is_open)
                return None
            place += 1
        return place


_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_raw = msgspec.json.Decoder(msgspec.Raw).decode


def is_json(text: str | memoryview) -> bool:
    """Return whether a text is one JSON document. UTF-8 within its strings is not validated."""
    try:
        _raw(text)
    except INVALID_JSON:
        return False
    return True


def _line_end(text: bytes, place: int) -> int:
    found = text.find(b"\n", place)
    return len(text) if found < 0 else found


def _end_of(pattern: re.Pattern[bytes], text: bytes, place: int) -> int:
    """Return the place after a pattern that is at a place; that place if the pattern is not there."""
    match = pattern.match(text, place)
    return place if match is None else match.end()
