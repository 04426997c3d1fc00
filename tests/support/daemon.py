"""Evaluate a stream's sensor as Dagster's daemon does, without launching the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import dagster as dg
import msgspec
from dagster._core.definitions.assets.job.asset_job import IMPLICIT_ASSET_JOB_NAME
from dagster._core.events import AssetObservationData, StepMaterializationData
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from kinesis_assets.dagster.events.metadata import exact_values
from kinesis_assets.dagster.sensor.sensor import evaluate
from kinesis_assets.ingest.plan import plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit import commit, freeze

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from dagster._core.definitions.sensor_definition import SensorExecutionData

    from kinesis_assets.dagster.derived_tables import CheckedTable
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.dagster.stream_project import StreamProject
    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.table.positions.positions import StreamPositions

NOON = 1_790_000_000.0
PARTITION = "dagster/partition"
FIRST, LAST = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
Status = dg.DagsterRunStatus


class Daemon:
    """Evaluates a stream's sensor as Dagster's daemon does, without launching the runs.

    Attributes:
        project: The definitions of the stream.
        instance: The instance of the deployment.
        cursor: The cursor of the sensor.
        clock: The clock of the ticks; this machine's by default.
        derived: The derived tables that continuous runs include. By this machine's clock, the sensor finds
            them in the definitions.
        tables: The paths of all derived tables, likewise.
        checked: The derived tables with checks, likewise.
    """

    def __init__(self, project: StreamProject, instance: dg.DagsterInstance) -> None:
        self.project = project
        self.instance = instance
        self.cursor: str | None = None
        self.clock: Callable[[], float] | None = None
        self.derived: Collection[dg.AssetKey] = ()
        self.tables: Mapping[dg.AssetKey, str] = {}
        self.checked: Sequence[CheckedTable] = ()
        (self.sensor,) = (
            sensor for sensor in project.definitions.sensors or () if sensor.name == project.names.sensor
        )

    @property
    def opened(self) -> OpenStream:
        """The stream, of the I/O manager as it is configured: Dagster would make an instance for each use."""
        manager: Any = (self.project.definitions.resources or {})[self.project.names.io_manager_key]
        opened: OpenStream = manager.opened
        return opened

    def tick(self) -> SensorExecutionData | dg.SensorResult:
        """Evaluate the sensor, add the partitions and events that it returns, and keep its cursor."""
        data = self._evaluate() if self.clock is None else self._evaluate_by(self.clock)
        for request in data.dynamic_partitions_requests or ():
            self.instance.add_dynamic_partitions(
                request.partitions_def_name, list(request.partition_keys or ())
            )
        for event in data.asset_events:
            self.instance.report_runless_asset_event(event)
        self.cursor = data.cursor
        return data

    def _evaluate_by(self, clock: Callable[[], float]) -> dg.SensorResult:
        return evaluate(
            self.opened,
            self.instance,
            self.cursor,
            clock,
            derived=self.derived,
            tables=self.tables,
            checked=self.checked,
        )

    def _evaluate(self) -> SensorExecutionData:
        assert isinstance(self.sensor, dg.SensorDefinition)
        with dg.build_sensor_context(
            self.instance,
            self.cursor,
            definitions=self.project.definitions,
            resources=dict(self.project.definitions.resources or {}),
        ) as context:
            return self.sensor.evaluate_tick(context)

    def requested_ranges(self) -> list[Sequence[str]]:
        """Return the partition ranges of the runs that a tick requests: (only,) or (first, last)."""
        return [_partition_range(request.tags) for request in self.tick().run_requests or ()]

    def add_partitions(self, *shard_ids: str) -> None:
        self.instance.add_dynamic_partitions(str(self.partitions.name), list(shard_ids))

    @property
    def partitions(self) -> dg.DynamicPartitionsDefinition:
        return self.project.names.partitions

    def partition_keys(self) -> list[str]:
        return list(self.partitions.get_partition_keys(dynamic_partitions_store=self.instance))

    def run(self, tags: dict[str, str], status: Status = Status.STARTED) -> dg.DagsterRun:
        """Store a run over the raw asset with given tags and status.

        Creating one for the job would also plan its execution, which takes longer than most tests.
        """
        run = dg.DagsterRun(
            IMPLICIT_ASSET_JOB_NAME,
            run_id=str(uuid4()),
            tags=tags,
            status=status,
            asset_selection=frozenset({self.project.names.raw_key}),
            remote_job_origin=origin_of(IMPLICIT_ASSET_JOB_NAME),
        )
        return self.instance.add_run(run)

    def report_event(self, run: dg.DagsterRun, event: dg.AssetMaterialization | dg.AssetObservation) -> None:
        """Record an event of a run."""
        if isinstance(event, dg.AssetMaterialization):
            kind, data = dg.DagsterEventType.ASSET_MATERIALIZATION, StepMaterializationData(event)
        else:
            kind, data = dg.DagsterEventType.ASSET_OBSERVATION, AssetObservationData(event)
        dagster_event = dg.DagsterEvent(kind.value, run.job_name, event_specific_data=data)
        self.instance.report_dagster_event(dagster_event, run.run_id)

    def end(self, run: dg.DagsterRun, status: Status) -> None:
        """End a run with a status."""
        if status is Status.FAILURE:
            self.instance.report_run_failed(run)
        elif status is Status.CANCELED:
            self.instance.report_run_canceled(run)
        else:
            end = dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, run.job_name)
            self.instance.report_dagster_event(end, run.run_id)
        found = self.instance.get_run_by_id(run.run_id)
        assert found is not None
        assert found.status is status

    def finish(self, *shard_ids: str, at: datetime | None = None) -> None:
        """Record in the table that closed shards have been read to their end, at some time."""
        client, table = self.opened.client, self.opened.table
        listing = client.listing()
        assert set(shard_ids) <= {shard.shard_id for shard in listing.shards if shard.closed}
        starts = {shard.shard_id: Position(PositionKind.TRIM_HORIZON) for shard in listing.shards}
        expected = freeze(table, listing, starts).with_listing(listing)
        moved = {
            shard_id: msgspec.structs.replace(expected.shards[shard_id], finished=True, tip_time=at)
            for shard_id in shard_ids
        }
        result = commit(
            table, expected=expected, listing=listing, batch_id=new_id(), moved=moved, files=[], added={}
        )
        assert not result.conflicts

    @property
    def positions(self) -> StreamPositions:
        """The table's positions of the stream."""
        opened = self.opened
        found = opened.table.snapshot().positions(opened.client.describe().identity)
        assert found is not None
        return found

    def commit(self, shard_ids: Sequence[str], by: str | None) -> RunResult:
        """Execute a run without recording its events."""
        opened = self.opened
        client, table, policy = opened.client, opened.table, opened.policy
        plan = plan_run(client, table, asked=shard_ids, policy=policy)
        return execute_run(land_group, client, table, plan, by=by, tip_refresh=opened.tip_refresh)

    def materializations(self) -> list[dict[str, Any]]:
        """Return the exact values of the materializations of shards in the raw table, newest first."""
        records = self.instance.fetch_materializations(self.project.names.raw_key, limit=100).records
        events = [record.asset_materialization for record in records if record.partition_key is not None]
        return [exact_values(event) for event in events if event]


class SensorClock:
    """The clock of a sensor, which the test advances."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.now = NOON
        daemon.clock = lambda: self.now

    def ranges_after(self, seconds: float) -> list[tuple[str, ...]]:
        """Return the partition ranges that a tick requests some seconds later, after ticks in between."""
        start = self.now
        for fifths in range(1, 5) if seconds else ():
            self.now = start + seconds * fifths / 5
            self.daemon.tick()
        self.now = start
        return self.ranges_after_pause(seconds)

    def ranges_after_pause(self, seconds: float) -> list[tuple[str, ...]]:
        """Return the partition ranges that the next tick requests, which happens some seconds later."""
        self.now += seconds
        return [tuple(each) for each in self.daemon.requested_ranges()]


def origin_of(job: str) -> RemoteJobOrigin:
    """Return the origin of a job, which Dagster requires of queued runs."""
    return RemoteJobOrigin(repository_origin("kinesis_assets"), job)


def repository_origin(code_location: str) -> RemoteRepositoryOrigin:
    """Return the origin of the definitions in a code location."""
    target = LoadableTargetOrigin(module_name="kinesis_assets.definitions")
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, location_name=code_location)
    return RemoteRepositoryOrigin(location, repository_name="__repository__")


def _partition_range(tags: dict[str, str]) -> Sequence[str]:
    if PARTITION in tags:
        assert not {FIRST, LAST} & tags.keys()
        return (tags[PARTITION],)
    return (tags[FIRST], tags[LAST])
