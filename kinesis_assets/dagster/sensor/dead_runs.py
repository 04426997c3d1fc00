"""The runs that a stream's sensor considers dead, for commands that inspect an instance only once.

Whether a run is silent can only be observed over several ticks. The observations are in the sensor's cursor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.dagster.dagster_internals import sensor_cursors
from kinesis_assets.dagster.sensor.sensor_cursor import Cursor
from kinesis_assets.dagster.sensor.sensor_runs import unfinished_runs
from kinesis_assets.table.run_files.heartbeat import heartbeats

if TYPE_CHECKING:
    import dagster as dg

    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.table.table import PositionedTable


def dead_runs(instance: dg.DagsterInstance, names: StreamNames, table: PositionedTable) -> set[str]:
    """Return the unfinished runs that were dead at the sensor's last tick and have had no heartbeat since.

    Args:
        instance: The instance with the runs and the sensor.
        names: The names of the stream's definitions.
        table: The stream's table, which holds the heartbeats.

    Raises:
        OSError: The heartbeats cannot be listed.
    """
    signs = {
        run_id: sign
        for cursor in sensor_cursors(instance, names.sensor)
        for run_id, sign in Cursor.parse(cursor).liveness.signs.items()
        if sign.is_dead
    }
    if not signs:
        return set()
    beats = heartbeats(table)
    unfinished = {record.dagster_run.run_id for record in unfinished_runs(instance, names)}
    return {
        run_id
        for run_id, sign in signs.items()
        if run_id in unfinished and beats.get(run_id, sign.beat) == sign.beat
    }
