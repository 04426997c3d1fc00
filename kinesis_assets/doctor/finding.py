"""The findings of the doctor's checks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    INFO = "info"
    """Worth knowing; nothing to do."""
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found.

    Attributes:
        check: Which check.
        level: How bad it is.
        sentence: What was found, and what to do.
        shard: Which shard; None for the whole table or stream.
    """

    check: str
    level: Level
    sentence: str
    shard: str | None = None


def row(stream: str, finding: Finding) -> dict[str, Any]:
    """A finding as the command prints it."""
    return {
        "stream": stream,
        "check": finding.check,
        "shard": finding.shard,
        "level": str(finding.level),
        "sentence": finding.sentence,
    }


def or_ok(check: str, findings: Iterable[Finding], sentence: str) -> Iterator[Finding]:
    """The findings; where there is no problem and nothing else to know, that all is well."""
    found = False
    for finding in findings:
        found = True
        yield finding
    if not found:
        yield Finding(check, Level.OK, sentence)
