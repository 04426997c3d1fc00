"""Which unfinished runs are dead, by what the sensor sees of them from tick to tick.

A run shows that it lives by another status or another heartbeat than at the tick before. How long it has
shown nothing is measured by the sensor's own clock, so that no two clocks are compared. Knows nothing of
Dagster: what is remembered goes into the sensor's cursor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS_SILENT = 300.0
"""A run that had a heartbeat, which comes every 30 s, is dead after so long without another."""

SECONDS_TO_START = 1800.0
"""So is a run that was launched and does not start."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a tick sees of an unfinished run.

    Attributes:
        status: Its status.
        beat: Its last heartbeat; None if there is none.
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
        since: When a tick first saw both, seconds since the epoch.
        is_dead: It showed no other for too long.
    """

    status: str
    beat: str | None
    since: float
    is_dead: bool = False

    def after(self, seen: Seen, now: float) -> Sign:
        """The same at a later tick."""
        # A heartbeat that is gone is no sign of life: maintenance deletes those of the dead.
        beat = seen.beat or self.beat
        if seen.status != self.status or beat != self.beat or now < self.since:
            return Sign(seen.status, beat, now)
        patience = seen.patience if beat is None else SECONDS_SILENT
        return Sign(self.status, beat, self.since, self.is_dead or now - self.since >= patience)


class Liveness(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered of the unfinished runs.

    Attributes:
        signs: By run id.
    """

    signs: dict[str, Sign] = {}

    @property
    def dead(self) -> frozenset[str]:
        """The runs that show no sign of life."""
        return frozenset(run_id for run_id, sign in self.signs.items() if sign.is_dead)

    def after(self, runs: Mapping[str, Seen], now: float) -> Liveness:
        """At a later tick, with the unfinished runs that it sees; all others are forgotten."""
        return Liveness(
            {
                run_id: self.signs[run_id].after(seen, now)
                if run_id in self.signs
                else Sign(seen.status, seen.beat, now)
                for run_id, seen in runs.items()
            }
        )
