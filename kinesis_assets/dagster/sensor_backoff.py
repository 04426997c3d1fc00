"""Back-off: a shard whose runs fail one after the other is asked for again later and later.

Knows nothing of Dagster: what ended is told to it, and what it remembers goes into the sensor's cursor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

FIRST_WAIT = 30.0
"""Seconds after the first failure; doubled with each further one."""

LONGEST_WAIT = 900.0
"""Seconds that no wait goes beyond."""

OVERLAP = 300.0
"""Seconds for which ended runs are looked at again: the clocks of the machines that note the ends differ."""

_LONGEST_POWER = 10


class Failing(msgspec.Struct, frozen=True, array_like=True):
    """A shard whose last runs failed.

    Attributes:
        runs: How many in a row.
        until: It is not asked for before, seconds since the epoch.
        run_id: The last of them.
    """

    runs: int
    until: float
    run_id: str


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that succeeded or failed.

    Attributes:
        run_id: Its id.
        ended: When that was noted, seconds since the epoch.
        failed: The shards it was asked for and did not materialize.
        materialized: Those that it did.
    """

    run_id: str
    ended: float
    failed: Collection[str] = field(default=())
    materialized: Collection[str] = field(default=())


class Backoff(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered from tick to tick.

    Attributes:
        shards: By shard id; a shard whose last run materialized it is left out.
        newest: The latest end of a run that was counted, seconds since the epoch; None before the first.
        counted: The runs that ended within `OVERLAP` before that, by their end.
    """

    shards: dict[str, Failing] = {}
    newest: float | None = None
    counted: dict[str, float] = {}

    def since(self, now: float) -> float:
        """Runs that ended after this moment may not be counted yet; both in seconds since the epoch."""
        return (now if self.newest is None else self.newest) - OVERLAP

    def after(self, runs: Iterable[EndedRun], now: float) -> Backoff:
        """With some runs counted, each once; their waits begin now."""
        shards, counted = dict(self.shards), dict(self.counted)
        for run in sorted(runs, key=lambda run: run.ended):
            if run.run_id in counted:
                continue
            counted[run.run_id] = run.ended
            for shard_id in run.materialized:
                shards.pop(shard_id, None)
            for shard_id in run.failed:
                times = shards[shard_id].runs + 1 if shard_id in shards else 1
                shards[shard_id] = Failing(times, now + wait(times), run.run_id)
        newest = max([*counted.values(), *([] if self.newest is None else [self.newest])], default=None)
        if newest is not None:
            counted = {run_id: ended for run_id, ended in counted.items() if ended > newest - OVERLAP}
        return Backoff(shards, newest, counted)

    def of(self, shard_ids: Collection[str]) -> Backoff:
        """Without what is remembered of other shards."""
        kept = {shard_id: failing for shard_id, failing in self.shards.items() if shard_id in shard_ids}
        return msgspec.structs.replace(self, shards=kept)

    def waiting(self, now: float) -> dict[str, Failing]:
        """The shards that are not to be asked for yet."""
        return {shard_id: failing for shard_id, failing in self.shards.items() if failing.until > now}


def wait(failures: int) -> float:
    """Seconds to wait after so many failed runs in a row, at least one."""
    return min(FIRST_WAIT * 2.0 ** min(failures - 1, _LONGEST_POWER), LONGEST_WAIT)
