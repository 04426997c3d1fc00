"""A difference between an emulator and the embedded stream, with the errors that differences name."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from integration.emulators.compare import Mismatch

ACCESS_DENIED = "AccessDeniedException (400)"
DRY_RUN = "DryRunOperationException (400)"
EXPIRED = "ExpiredNextTokenException (400)"
IN_USE = "ResourceInUseException (400)"
INVALID = "InvalidArgumentException (400)"
LIMIT = "LimitExceededException (400)"
NOT_FOUND = "ResourceNotFoundException (400)"
NO_OPERATION = "UnknownOperationException (400)"
SERIALIZATION = "SerializationException (400)"
VALIDATION = "ValidationException (400)"


class Pattern(NamedTuple):
    """Patterns for the fields of a `Mismatch`; * matches any text."""

    call: str
    member: str
    ours: str
    theirs: str

    def covers(self, mismatch: Mismatch) -> bool:
        """Return whether this pattern matches."""
        found = (mismatch.call, mismatch.member, mismatch.ours, mismatch.theirs)
        return all(map(fnmatchcase, found, self))


@dataclass(frozen=True)
class Difference:
    """The reason for a difference.

    Attributes:
        correct: Whose behavior is correct.
        reason: The reason.
        patterns: The mismatches that it explains.
    """

    correct: Literal["embedded", "emulator", "either"]
    reason: str
    patterns: list[Pattern]
