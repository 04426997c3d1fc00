"""What a table's log says about its versions, in any format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One version of the table.

    Attributes:
        operation: The operation's name, as its writer stored it, such as RESTORE; empty if it is unknown.
        mode: The mode of a write, such as Overwrite; empty for other operations.
        at: When the version was written, by the writer's clock; None if that is unknown.
        transactions: The transactions that it sets: version by application id.
        changes_rows: Whether it adds or removes rows. A compaction does not.
        changes_table: Whether it changes the columns, the properties or the protocol.
    """

    version: int
    operation: str
    mode: str
    at: datetime | None
    transactions: Mapping[str, int]
    changes_rows: bool
    changes_table: bool


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A version that replaced rows of the table.

    Attributes:
        operation: The operation's name, as its writer stored it.
        at: When the version was written, by the writer's clock; None if the writer did not store a time.
    """

    version: int
    operation: str
    at: datetime | None

    def __str__(self) -> str:
        at = "" if self.at is None else f", {self.at:%Y-%m-%dT%H:%M:%SZ}"
        return f"version {self.version} ({self.operation}{at})"
