"""The state of a stream's sensor, for checks that are evaluated outside of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.evaluation import ChecksProgress
from kinesis_assets.dagster.dagster_internals import sensor_cursors
from kinesis_assets.dagster.sensor.sensor_cursor import Cursor

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dagster as dg

    from kinesis_assets.dagster.checks.derived_evaluation import DerivedProgress
    from kinesis_assets.dagster.stream_names import StreamNames

SENSOR_SILENT = 600.0
"""Seconds after its last tick from which the sensor counts as stopped."""


@dataclass(frozen=True)
class RememberedChecks:
    """The state of the sensor.

    Attributes:
        progress: What the checks remember of its last tick.
        waiting: The shards that wait to be read, see `Evaluation`.
        derived: What the checks of each derived table remember, by `CheckedTable.name`.
        failing: The shards whose last run failed, with a sentence about it.
    """

    progress: ChecksProgress = field(default_factory=ChecksProgress)
    waiting: frozenset[str] = frozenset()
    derived: Mapping[str, DerivedProgress] = field(default_factory=dict)
    failing: Mapping[str, str] = field(default_factory=dict)

    def is_recent(self, now: float) -> bool:
        """Return whether the sensor has ticked a short time before a time, in seconds since the epoch."""
        return self.progress.at is not None and abs(now - self.progress.at) < SENSOR_SILENT

    def failing_at(self, now: float) -> Mapping[str, str]:
        """Return `failing`; nothing if the sensor does not tick, because it would not know of later runs."""
        return self.failing if self.is_recent(now) else {}


def remembered_checks(instance: dg.DagsterInstance, names: StreamNames) -> RememberedChecks:
    """Return what the sensor of a stream remembers; nothing if it has never ticked.

    Args:
        instance: The instance whose daemon evaluates the sensor.
        names: The names of the stream's definitions.
    """
    cursors = [Cursor.parse(text) for text in sensor_cursors(instance, names.sensor) if text]
    newest = max(cursors, key=lambda cursor: cursor.checks.at or 0.0, default=None)
    if newest is None:
        return RememberedChecks()
    return RememberedChecks(
        newest.checks, frozenset(newest.waiting_to_be_read), newest.derived_checks, newest.backoff.reasons
    )
