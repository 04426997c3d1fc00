"""The check of the consumer of a raw table: whether runs read by it, or call GetRecords.

As that of the mirror, it trusts what runs record in the table's folder.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.results import CheckResult, counted, duration, worst
from kinesis_assets.errors import reason_of, without_secrets
from kinesis_assets.table.run_files.states import read_consumer_state, write_consumer_state

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kinesis_assets.dagster.settings.check_settings import ConsumerCheck
    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.table.table import PositionedTable

_ADVICE = "Nothing is lost, but these shards have no rates of their own, and may be late"


def check_consumer(
    check: ConsumerCheck, table: PositionedTable, consumer: str, shard_ids: Collection[str], now: float
) -> CheckResult:
    """Check that no shard is read with GetRecords for long.

    Args:
        consumer: Its name or ARN in the settings.
        shard_ids: The shards that can be read.
        now: The time, in seconds since the epoch.
    """
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
            f"{without_secrets(first.reason).rstrip('.')}. {_ADVICE}"
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
        consumer: The name or ARN of the consumer.
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
