"""Which unfinished runs are dead, by what the sensor sees of them from tick to tick.

A run shows that it lives by another status or another heartbeat than at the tick before. How long it has
shown nothing is measured by the sensor's own clock, so that no two clocks are compared. Of a long time
without a tick only a part counts: the machine may have been suspended, and its runs with it. Knows nothing
of Dagster: what is remembered goes into the sensor's cursor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.table.heartbeat import ENDED

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS_SILENT = 300.0
"""A run that had a heartbeat, which comes every 30 s, is dead after so long without another."""

SECONDS_TO_START = 1800.0
"""So is a run that was launched and does not start."""

SECONDS_TO_PLAN = 1800.0
"""So is one whose step has begun and that has no heartbeat, of which the first one follows the plan."""

_MOST_PER_TICK = 1 / 5
"""Of these times, at most so much passes from one tick to the next."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a tick sees of an unfinished run.

    Attributes:
        status: Its status.
        beat: Its last heartbeat, `ENDED` if that said so; None if there is none.
        patience: Without a heartbeat it is dead after so many seconds in that status.
    """

    status: str
    beat: str | None
    patience: float


class Sign(msgspec.Struct, frozen=True, array_like=True):
    """The last sign of life of a run.

    Attributes:
        status: Its status.
        beat: Its last heartbeat that was seen; None if there was none.
        since: When a tick first saw both, seconds since the epoch; later by the time that does not count.
        is_dead: It showed no other for too long.
    """

    status: str
    beat: str | None
    since: float
    is_dead: bool = False

    def after(self, seen: Seen, at: float, now: float) -> Sign:
        """The same at a later tick; the tick before was at a given time."""
        beat = seen.beat or self._beat_without_object()
        if seen.status != self.status or beat != self.beat or now < self.since:
            return Sign(seen.status, beat, now)
        if beat == ENDED:
            return self
        patience = seen.patience if beat is None else SECONDS_SILENT
        since = self.since + max(0.0, now - at - patience * _MOST_PER_TICK)
        return Sign(self.status, beat, since, self.is_dead or now - since >= patience)

    def _beat_without_object(self) -> str | None:
        """What the heartbeat is if there is no object (any more).

        One is deleted an hour after it ended, or by maintenance a day after a run's death.
        """
        return self.beat if self.beat is None or self.is_dead else ENDED


class Liveness(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered of the unfinished runs.

    Attributes:
        signs: By run id.
        at: When the last tick was, seconds since the epoch; None if it saw no run.
    """

    signs: dict[str, Sign] = {}
    at: float | None = None

    @property
    def dead(self) -> frozenset[str]:
        """The runs that show no sign of life."""
        return frozenset(run_id for run_id, sign in self.signs.items() if sign.is_dead)

    @property
    def over(self) -> frozenset[str]:
        """The runs of which nothing is committed any more: the dead, and those whose heartbeat ended."""
        return self.dead | {run_id for run_id, sign in self.signs.items() if sign.beat == ENDED}

    def after(self, runs: Mapping[str, Seen], now: float) -> Liveness:
        """At a later tick, with the unfinished runs that it sees; all others are forgotten."""
        at = now if self.at is None else self.at
        return Liveness(
            {
                run_id: self.signs[run_id].after(seen, at, now)
                if run_id in self.signs
                else Sign(seen.status, seen.beat, now)
                for run_id, seen in runs.items()
            },
            now if runs else None,
        )
