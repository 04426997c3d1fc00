"""Sets the table properties that an operator may change, through delta-rs.

Other properties have effects that depend on the engine: some make delta-rs refuse to commit, and some delete
the pointer to the positions. So every property that is not known to be safe is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.errors import InvalidInput
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.maintenance.steps import State, Step
from kinesis_assets.table.policy import HISTORY_RETENTION, parse_interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.table.raw_table import PositionedTable

_INTERVALS = {
    "delta.logRetentionDuration": "older versions of the table must stay readable for that long",
    "delta.deletedFileRetentionDuration": "VACUUM applies it also to files that a run has yet to commit",
}
"""The properties that must not be shorter than `HISTORY_RETENTION`, with the reason."""

_CHECKPOINT_INTERVAL = "delta.checkpointInterval"

_REFUSED = {
    "delta.appendOnly": "retention, seek and compaction delete rows and files",
    "delta.setTransactionRetentionDuration": "it would delete the transaction identifier that points at the "
    "positions",
    "delta.dataSkippingStatsColumns": "replay and doctor skip files by the statistics that it lists",
    "delta.dataSkippingNumIndexedCols": "replay and doctor skip files by these statistics",
    "delta.randomizeFilePrefixes": "files are found by the folder of their arrival date",
    "delta.isolationLevel": "runs on different shards would fail each other",
}
"""Properties that must not be set, with the reason."""

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
"""Prefixes of properties that change the table's protocol."""

SETTABLE = (*_INTERVALS, _CHECKPOINT_INTERVAL)
"""The properties that can be set."""


def parse_property(text: str) -> tuple[str, str]:
    """Parse a property given as `name=value`.

    Raises:
        InvalidInput: The text is malformed, or the property must not be set, or not to that value.
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
    """Set properties that `parse_property` returned, in one commit.

    Raises:
        CommitFailed: Another commit conflicted with this one; nothing was changed.
        TableError: The table cannot be used.
    """
    of = ", ".join(f"{name}={value}" for name, value in properties.items())
    if not dry_run:
        DeltaOperations(table).set_properties(properties)
    return Step("set properties", of, State.PLANNED if dry_run else State.DONE)


def _why(name: str) -> str:
    if name.startswith(_FEATURES):
        return "it changes the table's protocol, and delta-rs may be unable to write to the table afterwards"
    return _REFUSED.get(name, "it is not known to be safe here")
