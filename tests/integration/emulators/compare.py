"""How the answers of two endpoints differ, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from integration.emulators.talk import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.emulators.talk import Said

ANSWERED = "answered"
OUTCOME = "outcome"


@dataclass(frozen=True)
class Contrast:
    """What the embedded stream and an emulator say differently.

    Attributes:
        call: The conversation and the call, as in "merging/GetRecords: all of 0".
        what: The path of a member of the answer, as in "Records.0.Data"; or OUTCOME, which is ANSWERED, an
            error or that it was not asked, and then the answers are not compared any further.
        ours: The embedded stream's value, in words.
        theirs: The emulator's.
    """

    call: str
    what: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.call}\n    {self.what}: {self.ours} | {self.theirs}"


def contrasts(conversation: str, ours: dict[str, Said], theirs: dict[str, Said]) -> Iterator[Contrast]:
    """Everything in which two sides of a conversation differ."""
    assert ours.keys() == theirs.keys(), f"{conversation}: other calls were made"
    for step, answer in ours.items():
        call = f"{conversation}/{step}"
        outcomes = _outcome(answer), _outcome(theirs[step])
        if outcomes == (ANSWERED, ANSWERED):
            for what, *values in _unequal(answer, theirs[step], ()):
                yield Contrast(call, what, *map(_in_words, values))
        elif outcomes[0] != outcomes[1]:
            yield Contrast(call, OUTCOME, *outcomes)


def _outcome(answer: Said) -> str:
    return answer if isinstance(answer, str) else ANSWERED


def _unequal(ours: Any, theirs: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any, Any]]:
    """The paths at which two values differ, and what is there."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ours | theirs:
            yield from _unequal(ours.get(name, NOTHING), theirs.get(name, NOTHING), (*path, name))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from _unequal(*pair, (*path, str(number)))
    elif ours != theirs:
        yield ".".join(path), ours, theirs


def _in_words(value: Any) -> str:
    if isinstance(value, list):
        return f"list of {len(value)}"
    return "null" if value is None else "some" if isinstance(value, dict) else str(value)
