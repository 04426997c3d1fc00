"""The findings of the doctor's checks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    INFO = "info"
    """No action is needed."""
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check.

    Attributes:
        sentence: What was found, and what to do about it.
        shard: Shard id; None for the whole table or stream.
    """

    check: str
    level: Level
    sentence: str
    shard: str | None = None


def or_ok(check: str, findings: Iterable[Finding], sentence: str) -> Iterator[Finding]:
    """Yield the findings of a check, or one finding of level OK if there are none.

    Args:
        sentence: Text of the finding of level OK.
    """
    found = False
    for finding in findings:
        found = True
        yield finding
    if not found:
        yield Finding(check, Level.OK, sentence)


def facts_of_finding(stream: str, finding: Finding) -> dict[str, Any]:
    """Return a finding as the command prints it."""
    return {
        "stream": stream,
        "check": finding.check,
        "shard": finding.shard,
        "level": str(finding.level),
        "sentence": finding.sentence,
    }
