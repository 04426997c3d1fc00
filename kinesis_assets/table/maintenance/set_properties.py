"""The properties of a table that an operator may set, through the library that commits to it.

What other properties do depends on the engine: some make delta-rs refuse its own commits, some forget where
the positions are. So a property that is not known to be safe is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.errors import InvalidInput
from kinesis_assets.table.intervals import parse_interval
from kinesis_assets.table.maintenance.steps import State, Step
from kinesis_assets.table.properties import HISTORY_RETENTION
from kinesis_assets.table.upkeep import Upkeep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.table.table import PositionedTable

_INTERVALS = {
    "delta.logRetentionDuration": "older versions of the table must stay readable for so long",
    "delta.deletedFileRetentionDuration": "a VACUUM goes by it, and a run may have yet to commit its files",
}
"""Not shorter than `HISTORY_RETENTION`, and why."""

_CHECKPOINT_INTERVAL = "delta.checkpointInterval"

_REFUSED = {
    "delta.appendOnly": "retention, seek and compaction delete rows and files",
    "delta.setTransactionRetentionDuration": "the positions are found by a transaction identifier, which it "
    "would delete",
    "delta.dataSkippingStatsColumns": "replay and doctor skip files by the statistics that it lists",
    "delta.dataSkippingNumIndexedCols": "replay and doctor skip files by these statistics",
    "delta.randomizeFilePrefixes": "files are found by the folder of their arrival date",
    "delta.isolationLevel": "runs on different shards would fail each other",
}
"""Why some must not be set."""

_FEATURES = (
    "delta.columnMapping",
    "delta.enable",
    "delta.checkpointPolicy",
    "delta.feature.",
    "delta.min",
    "delta.universalFormat",
    "delta.constraints.",
    "delta.coordinatedCommits",
)
"""Beginnings of those that change the table's protocol."""

SETTABLE = (*_INTERVALS, _CHECKPOINT_INTERVAL)
"""The properties that can be set."""


def parse_property(text: str) -> tuple[str, str]:
    """A property as `name=value`.

    Raises:
        InvalidInput: It is malformed, must not be set, or not to that value.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        raise InvalidInput(f"invalid property {text[:200]!r}: give name=value")
    if name not in SETTABLE:
        raise InvalidInput(
            f"property {name[:200]!r} cannot be set: {_why(name)}. Only {', '.join(SETTABLE)} can"
        )
    if name == _CHECKPOINT_INTERVAL:
        if not (value.isascii() and value.isdecimal() and 1 <= len(value) <= 6 and int(value) > 0):  # noqa: PLR2004  # a bound
            raise InvalidInput(f"{name}={value[:200]}: give a number of commits, 1 or more")
        return name, value
    interval = parse_interval(value)
    if interval is None:
        raise InvalidInput(f"{name}={value[:200]}: give an interval, as in {name}='interval 7 days'")
    if interval < HISTORY_RETENTION:
        raise InvalidInput(
            f"{name}={value}: at least {HISTORY_RETENTION.days} day, because {_INTERVALS[name]}"
        )
    return name, value


def set_properties(table: PositionedTable, properties: Mapping[str, str], *, dry_run: bool = False) -> Step:
    """Set properties that `parse_property` gave, by one commit.

    Raises:
        CommitFailed: Another commit was in the way; nothing was changed.
        TableError: The table cannot be used.
    """
    of = ", ".join(f"{name}={value}" for name, value in properties.items())
    if not dry_run:
        Upkeep(table).set_properties(properties)
    return Step("set properties", of, State.PLANNED if dry_run else State.DONE)


def _why(name: str) -> str:
    if name.startswith(_FEATURES):
        return "it changes the table's protocol, and the library that commits here may not write it"
    return _REFUSED.get(name, "it is not known to be safe here")
