"""The checks of what runs record in the folder of a raw table: of its mirror, and of its consumer.

A mirror has the positions of the table in a lease table. A consumer is what continuous runs read by, instead
of GetRecords. A tick that evaluates these checks calls nothing but the store of the table, and needs no
permission for the lease table.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.checks.results import CheckResult, counted, duration, worst
from kinesis_assets.errors import reason_of, without_secrets
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.run_files.states import (
    MirrorState,
    read_consumer_state,
    read_mirror_state,
    write_consumer_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kinesis_assets.dagster.settings.check_settings import ConsumerCheck, LeaseTableCheck
    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.table.raw_table import PositionedTable

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


_NO_RATES = "Nothing is lost, but these shards have no rates of their own, and may be late"


def check_consumer(
    check: ConsumerCheck, table: PositionedTable, consumer: str, shard_ids: Collection[str], now: float
) -> CheckResult:
    """Check that none of the shards that can be read is read with GetRecords for long."""
    try:
        state = read_consumer_state(table, consumer)
    except OSError as error:
        reason = f"what runs have recorded about consumer {consumer} cannot be read: {error}"
        return CheckResult("consumer", False, check.severity, without_secrets(reason))
    shards = {shard_id: each for shard_id, each in state.shards.items() if shard_id in shard_ids}
    oldest = sorted((each.since, shard_id) for shard_id, each in shards.items())
    late = [shard_id for since, shard_id in oldest if now - since > check.max_seconds]
    if late:
        first = shards[late[0]]
        description = (
            f"GetRecords reads {counted(len(shards), 'shard')} of {len(shard_ids)} instead of consumer "
            f"{consumer}, {late[0]} for {duration(now - first.since)}: "
            f"{without_secrets(first.reason).rstrip('.')}. {_NO_RATES}"
        )
    elif oldest:
        description = f"GetRecords reads {counted(len(shards), 'shard')}, for a short time so far"
    else:
        description = f"no run reads with GetRecords instead of consumer {consumer}"
    rows = [
        {"shard": shard_id, "for": duration(now - since), "reason": without_secrets(shards[shard_id].reason)}
        for since, shard_id in oldest
    ]
    facts = {"shards read with GetRecords": len(shards), **worst(rows)}
    return CheckResult("consumer", not late, check.severity, description, facts)


INTERVAL = 60.0
"""Seconds after which the record is compared with that in the table's folder, which other runs change too."""


class ConsumerRecord:
    """The record of the shards that one run reads with GetRecords.

    Args:
        warn: Called with a sentence, once, if the record cannot be written.

    Attributes:
        reasons: Why shards are read with GetRecords, by shard id.
    """

    def __init__(
        self, table: PositionedTable, consumer: str, clock: Clock, warn: Callable[[str], object]
    ) -> None:
        self.reasons: dict[str, str] = {}
        self._table = table
        self._consumer = consumer
        self._clock = clock
        self._warn = warn
        self._written_at = -inf
        self._has_warned = False

    def note(self, reasons: Mapping[str, str | None]) -> None:
        """Record a landing, see `landing_by_subscriptions`."""
        before = self.reasons
        known = {**before, **reasons}
        self.reasons = {shard_id: reason for shard_id, reason in known.items() if reason is not None}
        if self.reasons.keys() == before.keys() and self._clock.monotonic() < self._written_at + INTERVAL:
            return
        self._written_at = self._clock.monotonic()
        try:
            state = read_consumer_state(self._table, self._consumer)
            after = state.after(reasons, self._clock.time())
            if after != state:
                write_consumer_state(self._table, after)
        except OSError as error:  # no run depends on the record
            if not self._has_warned:
                self._has_warned = True
                self._warn(f"consumer {self._consumer}: cannot record what is read by it: {reason_of(error)}")
