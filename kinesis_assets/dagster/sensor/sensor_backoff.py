"""Back-off: the sensor waits longer after each failed run of a shard before it requests the shard again.

This module does not depend on Dagster. Its state is stored in the sensor's cursor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets import retry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

WAITS = retry.Backoff(first=30.0, longest=900.0)
"""The wait after consecutive failed runs of a shard."""

OVERLAP = 300.0
"""Seconds for which ended runs are read again, because the clocks of the machines that record them differ."""


class Failing(msgspec.Struct, frozen=True, array_like=True):
    """The failures of a shard.

    Attributes:
        runs: The number of consecutive failed runs.
        until: The time before which the shard is not requested, in seconds since the epoch.
        run_id: The id of the last failed run.
    """

    runs: int
    until: float
    run_id: str


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that succeeded or failed.

    Attributes:
        run_id: The run's id.
        ended: When the end was recorded, in seconds since the epoch.
        failed: The shards that the run was requested for and did not materialize.
        materialized: The shards that it materialized.
    """

    run_id: str
    ended: float
    failed: Collection[str] = field(default=())
    materialized: Collection[str] = field(default=())


class ShardBackoff(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of the back-off from tick to tick.

    Attributes:
        shards: The failures by shard id, without the shards whose last run materialized them.
        newest: The latest end of a counted run, in seconds since the epoch; None before the first.
        counted: The end of each run that ended within `OVERLAP` before that, by run id.
    """

    shards: dict[str, Failing] = {}
    newest: float | None = None
    counted: dict[str, float] = {}

    def since(self, now: float) -> float:
        """Return the time after which runs may have ended uncounted. Times are in seconds since the epoch."""
        return (now if self.newest is None else self.newest) - OVERLAP

    def after(self, runs: Iterable[EndedRun], now: float) -> ShardBackoff:
        """Return the state with some runs counted, each only once. Their waits start now."""
        shards, counted = dict(self.shards), dict(self.counted)
        for run in sorted(runs, key=lambda run: run.ended):
            if run.run_id in counted:
                continue
            counted[run.run_id] = run.ended
            for shard_id in run.materialized:
                shards.pop(shard_id, None)
            for shard_id in run.failed:
                failures = shards[shard_id].runs + 1 if shard_id in shards else 1
                shards[shard_id] = Failing(failures, now + WAITS.wait(failures), run.run_id)
        newest = max([*counted.values(), *([] if self.newest is None else [self.newest])], default=None)
        if newest is not None:
            counted = {run_id: ended for run_id, ended in counted.items() if ended > newest - OVERLAP}
        return ShardBackoff(shards, newest, counted)

    def of(self, shard_ids: Collection[str]) -> ShardBackoff:
        """Return the state of the given shards only."""
        kept = {shard_id: failing for shard_id, failing in self.shards.items() if shard_id in shard_ids}
        return msgspec.structs.replace(self, shards=kept)

    @property
    def reasons(self) -> dict[str, str]:
        """The shards whose last run failed, with a sentence about it."""
        return {
            shard_id: f"{shard_id}: its last run failed, see run {failing.run_id}"
            for shard_id, failing in self.shards.items()
        }

    def waiting(self, now: float) -> dict[str, Failing]:
        """Return the failures of the shards that must not be requested yet."""
        return {shard_id: failing for shard_id, failing in self.shards.items() if failing.until > now}
