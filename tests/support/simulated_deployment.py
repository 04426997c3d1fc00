"""A continuous run and the ticks of its sensor over a simulated stream, in virtual time.

The run and the ticks are those of Dagster. The stream is in memory, and no Spark is started.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.dagster.partition_ranges import continuous_run_tags
from kinesis_assets.dagster.sensor.sensor import evaluate
from kinesis_assets.dagster.steps import continuous_step
from kinesis_assets.dagster.stream import OpenStream
from kinesis_assets.ingest.plan import plan_run
from kinesis_assets.table.run_files.heartbeat import HEARTBEATS_FOLDER, INTERVAL
from kinesis_assets.table.store.storage import write_new
from support.timing import set_timing
from support.virtual_time import VirtualTime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from benchmarks.data.simulated_stream import SimulatedStream
    from kinesis_assets.dagster.stream_project import StreamProject
    from kinesis_assets.ingest.manifest import Landing
    from kinesis_assets.ingest.plan import RunPlan
    from kinesis_assets.ingest.task import LandingJob
    from kinesis_assets.kinesis.reading.range import Allowance, ShardRange


class Timetable(VirtualTime):
    """A clock that starts at this machine's time, and calls functions at intervals while somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.now = time.time()
        self._due: list[tuple[float, float, Callable[[], object]]] = []

    def every(self, seconds: float, call: Callable[[], object]) -> None:
        """Call a function at an interval from now on."""
        self._due.append((self.now + seconds, seconds, call))

    def sleep(self, seconds: float) -> None:
        end = self.now + seconds
        while self._due and (due := min(self._due, key=lambda each: each[0]))[0] <= end:
            at, interval, call = due
            self._due.remove(due)
            self._due.append((at + interval, interval, call))
            self.now = at
            call()
        self.now = end


class SimulatedDeployment:
    """A sensor and a continuous run over all shards of a simulated stream.

    Args:
        project: The definitions of a stream with the name of the simulated one and with `follow_for`.
        instance: The instance that stores the run and the events.
        monkeypatch: Replaces the landing of the runs by that of the simulated stream.

    Attributes:
        opened: The stream and its table.
        ticks: Number of ticks.
    """

    def __init__(
        self,
        project: StreamProject,
        instance: dg.DagsterInstance,
        stream: SimulatedStream,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.opened = _opened(project, stream)
        self.stream = stream
        self.ticks = 0
        self._instance = instance
        self._project = project
        self._cursor: str | None = None
        self._clock = clock = Timetable()
        set_timing(stream, clock=clock)
        clock.every(1.0, lambda: stream.pass_time(1.0))
        clock.every(INTERVAL, self._beat)

        def land(_: object, job: LandingJob, ranges: Sequence[ShardRange], allowance: Allowance) -> Landing:
            return stream.land(job, ranges, allowance)

        monkeypatch.setattr(continuous_step, "land", land)

    def tick(self) -> None:
        """Evaluate the sensor, and add the partitions and events that it returns."""
        self.ticks += 1
        result = evaluate(self.opened, self._instance, self._cursor, self._clock.time)
        self._cursor = result.cursor
        for request in result.dynamic_partitions_requests or ():
            self._instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        for event in result.asset_events:
            self._instance.report_runless_asset_event(event)

    def run(self, seconds: float) -> None:
        """Execute a continuous run over all shards, with the ticks of the sensor during the run."""
        self._clock.every(self._interval, self.tick)
        names = self._project.names
        definitions = self._project.definitions
        ours = dg.Definitions(
            assets=definitions.assets,
            asset_checks=definitions.asset_checks,
            resources={names.io_manager_key: _Manager(self.opened)},
        )
        job = ours.resolve_implicit_global_asset_job_def()
        tags = continuous_run_tags(self.stream.shard_ids, seconds, 0.0)
        assert job.execute_in_process(
            instance=self._instance, tags=tags, asset_selection=[names.raw_key]
        ).success

    def events(self) -> int:
        """Return the number of events of all runs."""
        runs = self._instance.get_runs()
        return sum(len(self._instance.get_records_for_run(run.run_id).records) for run in runs)

    @property
    def _interval(self) -> float:
        """Seconds between two ticks of the sensor."""
        (sensor,) = (
            sensor
            for sensor in self._project.definitions.sensors or ()
            if sensor.name == self._project.names.sensor
        )
        return float(sensor.minimum_interval_seconds or 0)

    def _beat(self) -> None:
        """Write the heartbeat of each run as the run does, by the virtual time."""
        for run in self._instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
            write_new(self.opened.table.files, f"{HEARTBEATS_FOLDER}/{run.run_id}").close()


class _Manager(dg.IOManager):
    """Plans the ranges of a run, as the stream's I/O manager does."""

    def __init__(self, opened: OpenStream) -> None:
        self.opened = opened

    def load_input(self, context: dg.InputContext) -> RunPlan:
        opened = self.opened
        return plan_run(
            opened.client, opened.table, asked=sorted(context.asset_partition_keys), policy=opened.policy
        )

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        raise NotImplementedError  # a continuous run has no output


class _WithoutSpark(OpenStream):
    def start_spark(self) -> Any:
        return None


def _opened(project: StreamProject, stream: SimulatedStream) -> OpenStream:
    manager: Any = (project.definitions.resources or {})[project.names.io_manager_key]
    given = manager.opened
    opened = _WithoutSpark(given.settings, given.kinesis, given.names, checks=given.checks)
    opened.client = opened.tick_client = stream
    return opened
