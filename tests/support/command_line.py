"""The result of a command of `kinesis-assets`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class CommandResult:
    """The exit code of a command, and what it printed."""

    exit_code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The printed JSON objects, one per line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def by_shard(self) -> dict[str, dict[str, Any]]:
        """The printed JSON objects by shard; there is one per shard."""
        found = {line["shard"]: line for line in self.lines}
        assert len(found) == len(self.lines)
        return found


class RunCommand(Protocol):
    """Runs a command until it exits."""

    def __call__(self, *arguments: str) -> CommandResult: ...


def single_line_error(text: str) -> str:
    """Assert that an error is printed in one line, and return it."""
    assert re.fullmatch(r"Error: .+\n", text), text
    return text
