"""The check of the mirror of a raw table's positions in a lease table.

It trusts what runs have recorded in the table's folder. So a tick calls nothing but the store of the table,
and needs no permission for the lease table.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.checks.results import CheckResult, duration
from kinesis_assets.errors import without_secrets
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.run_files.states import MirrorState, read_mirror_state

if TYPE_CHECKING:
    from kinesis_assets.dagster.settings.check_settings import LeaseTableCheck
    from kinesis_assets.table.table import PositionedTable

MAX_FAILED = 3
"""Attempts in a row that may fail before the check does: one that fails is often throttled."""

_UNTIL_THEN = (
    "No run depends on the mirror, but what reads it sees old positions until the next run has written it"
)


class LateMirror(msgspec.Struct, frozen=True, array_like=True):
    """A mirror that has not the newest positions.

    Attributes:
        commit_id: The newest commit that it has, as far as known.
        since: Since when a later commit is known, in seconds since the epoch.
    """

    commit_id: int | None
    since: float


def recorded_state(table: PositionedTable, lease_table: str, late: LateMirror | None) -> MirrorState:
    """Return the state of the mirror. If it cannot be read, it is as it was, with the reason."""
    try:
        return read_mirror_state(table, lease_table)
    except OSError as error:
        commit_id = None if late is None else late.commit_id
        reason = f"the state that runs have recorded cannot be read: {error}"
        return MirrorState(lease_table=lease_table, commit_id=commit_id, error=reason)


def lateness(state: MirrorState, newest: int, before: LateMirror | None, now: float) -> LateMirror | None:
    """Return whether the mirror is late, and since when; None if it has the newest commit.

    Commits may follow each other faster than the mirror, so it is late from the first one that it has not.
    """
    if state.has(newest):
        return None
    if before is not None and before.commit_id == state.commit_id:
        return before
    return LateMirror(state.commit_id, now if state.commit_id is None else min(now, time_of_id(newest)))


def check_lease_table(
    check: LeaseTableCheck, state: MirrorState, late: LateMirror | None, now: float
) -> CheckResult:
    """Check that the mirror is not late, and that its last attempts have not all failed."""
    seconds = 0.0 if late is None else max(0.0, now - late.since)
    failing = state.failed >= MAX_FAILED
    passed = not failing and seconds <= check.max_seconds
    behind = f"{state.lease_table} has not had the newest positions for {duration(seconds)}"
    if passed:
        description = f"{state.lease_table} has the newest positions" if late is None else behind
    else:
        found = f"the last {state.failed} attempts to write {state.lease_table} failed" if failing else behind
        reason = state.error or (
            "no run has recorded that it wrote them. If no run has ended since, run a shard; otherwise see "
            "the logs of the runs"
        )
        description = f"{found}: {without_secrets(reason).rstrip('.')}. {_UNTIL_THEN}"
    facts: dict[str, str | float | int] = {"lag (s)": round(seconds, 1), "failed attempts": state.failed}
    if state.commit_id is not None:
        facts["mirrored up to"] = (
            f"{datetime.fromtimestamp(time_of_id(state.commit_id), UTC):%Y-%m-%dT%H:%M:%SZ}"
        )
    return CheckResult("lease_table", passed, check.severity, description, facts)
