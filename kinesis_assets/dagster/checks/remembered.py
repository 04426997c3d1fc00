"""What a stream's sensor remembers, for checks that are evaluated outside of it.

It is the only module below the sensor that imports from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.dagster.dagster_internals import sensor_cursors
from kinesis_assets.dagster.sensor.sensor_cursor import Cursor

if TYPE_CHECKING:
    import dagster as dg

    from kinesis_assets.dagster.stream_names import StreamNames


def sensor_memory(instance: dg.DagsterInstance, names: StreamNames) -> Cursor:
    """Return the newest cursor of a stream's sensor; an empty one if it has never ticked."""
    cursors = [Cursor.parse(text) for text in sensor_cursors(instance, names.sensor) if text]
    return max(cursors, key=lambda cursor: cursor.checks.at or 0.0, default=Cursor())
