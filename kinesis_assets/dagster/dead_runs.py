"""The runs that a stream's sensor considers dead, for commands that see an instance at one moment only.

Whether a run is silent shows from tick to tick; what the ticks saw is in the sensor's cursor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster._core.scheduler.instigation import InstigatorType, SensorInstigatorData

from kinesis_assets.dagster.names import sensor_name
from kinesis_assets.dagster.sensor import Cursor
from kinesis_assets.dagster.sensor_runs import unfinished_runs
from kinesis_assets.table.heartbeat import heartbeats

if TYPE_CHECKING:
    import dagster as dg

    from kinesis_assets.table.table import PositionedTable


def dead_runs(instance: dg.DagsterInstance, stream: str, table: PositionedTable) -> set[str]:
    """The unfinished runs that were dead at the sensor's last tick and have had no heartbeat since.

    Args:
        instance: Where the runs and the sensor are.
        stream: The stream's name.
        table: Its table, with the heartbeats.

    Raises:
        OSError: The heartbeats cannot be listed.
    """
    if instance.schedule_storage is None:
        return set()  # an instance in memory: no sensor ticks there
    signs = {
        run_id: sign
        for state in instance.all_instigator_state(instigator_type=InstigatorType.SENSOR)
        if state.instigator_name == sensor_name(stream)
        and isinstance(state.instigator_data, SensorInstigatorData)
        for run_id, sign in Cursor.parse(state.instigator_data.cursor).liveness.signs.items()
        if sign.is_dead
    }
    if not signs:
        return set()
    beats = heartbeats(table)
    unfinished = {record.dagster_run.run_id for record in unfinished_runs(instance, stream)}
    return {
        run_id
        for run_id, sign in signs.items()
        if run_id in unfinished and beats.get(run_id, sign.beat) == sign.beat
    }
