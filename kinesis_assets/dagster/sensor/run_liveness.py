"""Detect unfinished runs whose process has died, from what the sensor observes from tick to tick.

A run shows that it is alive by a status or a heartbeat that differs from the previous tick. The sensor
measures the silence with its own clock, so that no two clocks are compared. Of a long interval between two
ticks only a part counts, because the machine may have been suspended together with its runs. This module does
not depend on Dagster. Its state is stored in the sensor's cursor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.table.run_files.heartbeat import ENDED

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS_SILENT = 300.0
"""A run that has written a heartbeat is dead after this time without another one. One is due every 30 s."""

SECONDS_TO_START = 1800.0
"""A launched run is dead if it has not started after this time."""

SECONDS_TO_PLAN = 1800.0
"""A run whose step has started is dead after this time without a heartbeat. The first follows the plan."""

_MAX_FRACTION_PER_TICK = 1 / 5
"""The maximum fraction of these times that counts between two ticks."""


@dataclass(frozen=True, slots=True)
class RunObservation:
    """The state of an unfinished run at a tick.

    Attributes:
        status: The run's status.
        beat: Its last heartbeat; `ENDED` if that marked the end; None if there is none.
        timeout: Seconds in this status after which a run without a heartbeat is dead.
    """

    status: str
    beat: str | None
    timeout: float


class SignOfLife(msgspec.Struct, frozen=True, array_like=True):
    """The last sign of life of a run.

    Attributes:
        status: The run's status.
        beat: The last heartbeat that was observed; None if there was none.
        since: When a tick first observed both, in seconds since the epoch, plus the time that does not count.
        is_dead: Whether the run has shown no other sign for too long.
    """

    status: str
    beat: str | None
    since: float
    is_dead: bool = False

    def after(self, seen: RunObservation, at: float, now: float) -> SignOfLife:
        """Return the sign after a later tick.

        Args:
            seen: What the tick observes.
            at: The time of the previous tick, in seconds since the epoch.
            now: The time of this tick.
        """
        beat = seen.beat or self._beat_without_object()
        if seen.status != self.status or beat != self.beat or now < self.since:
            return SignOfLife(seen.status, beat, now)
        if beat == ENDED:
            return self
        timeout = seen.timeout if beat is None else SECONDS_SILENT
        since = self.since + max(0.0, now - at - timeout * _MAX_FRACTION_PER_TICK)
        return SignOfLife(self.status, beat, since, self.is_dead or now - since >= timeout)

    def _beat_without_object(self) -> str | None:
        """Return the heartbeat of a run whose heartbeat object does not exist, or no longer.

        The object is deleted an hour after the run ended, and by maintenance a day after the run died.
        """
        return self.beat if self.beat is None or self.is_dead else ENDED


class Liveness(msgspec.Struct, frozen=True, omit_defaults=True):
    """The sensor's memory of the unfinished runs.

    Attributes:
        signs: The last sign of life by run id.
        at: The time of the last tick, in seconds since the epoch; None if it observed no run.
    """

    signs: dict[str, SignOfLife] = {}
    at: float | None = None

    @property
    def dead(self) -> frozenset[str]:
        """The ids of the runs that show no sign of life."""
        return frozenset(run_id for run_id, sign in self.signs.items() if sign.is_dead)

    @property
    def ended(self) -> frozenset[str]:
        """The ids of the runs that commit nothing more: dead ones, and those whose heartbeat has ended."""
        return self.dead | {run_id for run_id, sign in self.signs.items() if sign.beat == ENDED}

    def after(self, runs: Mapping[str, RunObservation], now: float) -> Liveness:
        """Return the state after a later tick. Runs that the tick does not observe are forgotten.

        Args:
            runs: What the tick observes, by run id.
            now: The time of the tick, in seconds since the epoch.
        """
        at = now if self.at is None else self.at
        return Liveness(
            {
                run_id: self.signs[run_id].after(seen, at, now)
                if run_id in self.signs
                else SignOfLife(seen.status, seen.beat, now)
                for run_id, seen in runs.items()
            },
            now if runs else None,
        )
