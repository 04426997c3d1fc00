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


@dataclass(frozen=True)
class RememberedChecks:
    """The state of the sensor.

    Attributes:
        progress: What the checks remember of its last tick.
        waiting: The shards that wait to be read, see `Evaluation`.
        derived: What the checks of each derived table remember, by `CheckedTable.name`.
    """

    progress: ChecksProgress = field(default_factory=ChecksProgress)
    waiting: frozenset[str] = frozenset()
    derived: Mapping[str, DerivedProgress] = field(default_factory=dict)


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
    return RememberedChecks(newest.checks, frozenset(newest.waiting_to_be_read), newest.derived_checks)
