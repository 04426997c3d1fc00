"""What the daemon stores about a sensor in a Dagster instance on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    SensorInstigatorData,
)

from kinesis_assets.dagster.sensor.sensor_cursor import Cursor
from kinesis_assets.dagster.sensor.sensor_runs import Liveness, SignOfLife
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.table.run_files.heartbeat import Heartbeat, heartbeats
from support.daemon import repository_origin

if TYPE_CHECKING:
    import dagster as dg

    from kinesis_assets.table.raw_table import PositionedTable


def record_tick(
    instance: dg.DagsterInstance,
    stream: str,
    at: float | None,
    *,
    code_location: str = "kinesis_assets",
    cursor: str | None = None,
) -> None:
    """Store a tick of the stream's sensor in a code location."""
    origin = repository_origin(code_location).get_instigator_origin(StreamNames(stream).sensor)
    instance.add_instigator_state(
        InstigatorState(
            origin,
            InstigatorType.SENSOR,
            InstigatorStatus.DECLARED_IN_CODE,
            SensorInstigatorData(min_interval=30, cursor=cursor, last_tick_start_timestamp=at),
        )
    )


def record_dead_run(
    instance: dg.DagsterInstance, stream: str, table: PositionedTable, run: dg.DagsterRun
) -> None:
    """Write a heartbeat of a run, and store that the stream's sensor considers the run dead since then."""
    Heartbeat(table, run.run_id, seconds=60)._beat()
    sign = SignOfLife("STARTED", heartbeats(table)[run.run_id], 0.0, is_dead=True)
    record_tick(instance, stream, None, cursor=Cursor(liveness=Liveness({run.run_id: sign}, 0.0)).encode())
