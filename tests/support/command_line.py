"""How a command ended, and what it printed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    exit_code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def by_shard(self) -> dict[str, dict[str, Any]]:
        """The JSON lines, one a shard."""
        found = {line["shard"]: line for line in self.lines}
        assert len(found) == len(self.lines)
        return found


class Run(Protocol):
    """Runs a command to its end."""

    def __call__(self, *arguments: str) -> Done: ...


def one_line(text: str) -> str:
    """The error, which is told in one line."""
    assert re.fullmatch(r"Error: .+\n", text), text
    return text
