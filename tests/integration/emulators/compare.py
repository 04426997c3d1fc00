"""Compare the responses of two endpoints, and describe how they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from integration.emulators.recorded_api import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.emulators.recorded_api import Outcome

SUCCESS = "success"
OUTCOME = "outcome"


@dataclass(frozen=True)
class Mismatch:
    """A difference between the embedded stream and an emulator.

    Attributes:
        call: The scenario and the call, as in "merging/GetRecords: all of 0".
        member: The path of a member of the response, as in "Records.0.Data", or OUTCOME. An outcome is
            SUCCESS, an error, or NOT_CALLED. Where outcomes differ, responses are not compared any further.
        ours: A description of the value of the embedded stream.
        theirs: A description of the value of the emulator.
    """

    call: str
    member: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.call}\n    {self.member}: {self.ours} | {self.theirs}"


def mismatches(scenario: str, ours: dict[str, Outcome], theirs: dict[str, Outcome]) -> Iterator[Mismatch]:
    """Yield all differences between two recordings of a scenario."""
    assert ours.keys() == theirs.keys(), f"{scenario}: the calls differ"
    for step, response in ours.items():
        call = f"{scenario}/{step}"
        outcomes = _outcome(response), _outcome(theirs[step])
        if outcomes == (SUCCESS, SUCCESS):
            for member, *values in _unequal(response, theirs[step], ()):
                yield Mismatch(call, member, *map(_describe, values))
        elif outcomes[0] != outcomes[1]:
            yield Mismatch(call, OUTCOME, *outcomes)


def _outcome(response: Outcome) -> str:
    return response if isinstance(response, str) else SUCCESS


def _unequal(ours: Any, theirs: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the paths at which two values differ, with both values."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ours | theirs:
            yield from _unequal(ours.get(name, ABSENT), theirs.get(name, ABSENT), (*path, name))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from _unequal(*pair, (*path, str(number)))
    elif ours != theirs and (ours, theirs) != (ABSENT, None):  # boto3 does not distinguish these two
        yield ".".join(path), ours, theirs


def _describe(value: Any) -> str:
    if isinstance(value, list):
        return f"list of {len(value)}"
    return "null" if value is None else "some" if isinstance(value, dict) else str(value)
