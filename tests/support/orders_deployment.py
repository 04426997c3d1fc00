"""The orders example as it is deployed: a stream, a Spark server, and Dagster's web server and daemon."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster._core.scheduler.instigation import InstigatorStatus
from deltalake import DeltaTable

import kinesis_assets
from benchmarks.harness.waiting import wait_until
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.demo.orders import STREAM, put_orders
from kinesis_assets.demo.run import embedded_stream
from kinesis_assets.spark.server import SparkServer
from kinesis_assets.testing import Faults, LocalKinesis
from support.shifted_clock import ShiftedClock
from support.stream_names import raw_key
from support.webserver import Webserver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RAW = raw_key(STREAM)
REVENUE = dg.AssetKey("revenue_by_day")
SHARDS = [f"shardId-{number:012d}" for number in range(4)]
EIGHT_SHARDS = [f"shardId-{number:012d}" for number in range(8)]

_LOCATION = "shop"
_REPOSITORY = {"repositoryName": "__repository__", "repositoryLocationName": _LOCATION}
_DEFINITIONS = """
import dagster as dg

from kinesis_assets import build_kinesis_stream
from kinesis_assets.demo.tables import build_order_tables

defs = dg.Definitions.merge(
    build_kinesis_stream(
        "orders",
        table={table!r},
        description="Orders of the web shop, as the checkout sends them.",
        sensor_interval_seconds=1,
        max_idle_seconds=60,
        checks={{"lag": {{"max_seconds": 300, "severity": "ERROR"}}}},
    ),
    {tables},
    dg.Definitions(executor=dg.in_process_executor),
)
"""
_WORKSPACE = "load_from: [{python_file: {relative_path: shop.py, location_name: shop}}]\n"
_RUN_QUEUE = "run_queue: {dequeue_interval_seconds: 1}  # the default is 5\n"
_REEXECUTE = """mutation ($parent: String!) {
    launchRunReexecution(reexecutionParams: {parentRunId: $parent, strategy: ALL_STEPS}) {
        __typename ... on LaunchRunSuccess {run {id}}}}"""
_START = "mutation ($sensor: SensorSelector!) {startSensor(sensorSelector: $sensor) {__typename}}"
_TERMINATE = "mutation ($run: String!) {terminateRun(runId: $run) {__typename}}"
_PROJECT = Path(kinesis_assets.__file__).parents[1]


@dataclass
class OrdersDeployment:
    """The running example. Its sensors are off, so that a run starts only if somebody launches it.

    Attributes:
        kinesis: A client of the stream's endpoint.
        faults: The faults of the endpoint.
        clock: The service's clock.
        web: The web server.
        instance: The instance of the web server and the daemon.
        table: The raw table.
        acknowledged: The sequence numbers of the records that were put, by shard id.
    """

    kinesis: Any
    faults: Faults
    clock: ShiftedClock
    web: Webserver
    instance: dg.DagsterInstance
    table: Path
    acknowledged: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def put(self, count: int) -> None:
        """Put orders, which are spread over all shards."""
        first = sum(len(numbers) for numbers in self.acknowledged.values())
        for batch in put_orders(self.kinesis, first, count):
            for shard_id, sequence_number, _ in batch:
                self.acknowledged[shard_id].append(sequence_number)

    def landed(self) -> dict[str, list[str]]:
        """Return the sequence numbers in the raw table by shard id, in the order of the stream."""
        found: dict[str, list[str]] = defaultdict(list)
        rows = DeltaTable(self.table).to_pyarrow_table(columns=["shard_id", "sequence_number"]).to_pylist()
        for row in sorted(rows, key=lambda row: int(row["sequence_number"])):
            found[row["shard_id"]].append(row["sequence_number"])
        return found

    def first_run(self) -> dg.DagsterRun:
        """Return the run that was created first: the sensor requested it, over all shards."""
        return self.instance.get_runs(limit=1, ascending=True)[0]

    def run_again(self) -> dg.DagsterRun:
        """Execute the first run again, and return the new one when it has ended."""
        parent = self.first_run().run_id
        launched = self.web.query(_REEXECUTE, parent=parent)["launchRunReexecution"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        run = self.instance.get_run_by_id(launched["run"]["id"])
        assert run is not None
        return self.ended_run(run)

    def start_sensor(self) -> None:
        """Turn the stream's sensor on. It stays on, since the daemon may turn a sensor on that is stopped.

        A tick that begins writes the state of its sensor as it was read a moment before.
        """
        sensor = {**_REPOSITORY, "sensorName": StreamNames(STREAM).sensor}
        started = self.web.query(_START, sensor=sensor)["startSensor"]
        assert started["__typename"] == "Sensor", started

    def latest_run(self) -> dg.DagsterRun:
        """Return the run that was created last."""
        return self.instance.get_runs(limit=1)[0]

    def new_run(self, latest: dg.DagsterRun) -> dg.DagsterRun:
        """Wait for a run that is created after another one, and return it."""
        wait_until(lambda: self.latest_run().run_id != latest.run_id)
        return self.latest_run()

    def ended_run(self, run: dg.DagsterRun) -> dg.DagsterRun:
        """Wait for the end of a run, and return it."""

        def ended() -> dg.DagsterRun | None:
            found = self.instance.get_run_by_id(run.run_id)
            return found if found is not None and found.is_finished else None

        return wait_until(ended)

    def terminate_latest_run(self) -> None:
        """Terminate the run that was created last, as the button on its page does."""
        done = self.web.query(_TERMINATE, run=self.latest_run().run_id)["terminateRun"]
        assert done["__typename"] == "TerminateRunSuccess", done

    def materialized_rows(self, run: dg.DagsterRun) -> dict[str, int]:
        """Return the rows that the events of a run report, by shard id."""
        of_type = dg.DagsterEventType.ASSET_MATERIALIZATION
        records = self.instance.get_records_for_run(run.run_id, of_type=of_type).records
        events = [record.event_log_entry.asset_materialization for record in records]
        of_shards = [event for event in events if event.partition is not None]
        return {event.partition: event.metadata["rows"].value for event in of_shards}

    def wait_until_idle(self) -> None:
        """Wait until all runs have ended."""
        wait_until(lambda: all(run.is_finished for run in self.instance.get_runs()))


@contextmanager
def deployed(
    folder: Path, shards: Sequence[str] = SHARDS, last: dg.AssetKey = REVENUE
) -> Iterator[OrdersDeployment]:
    """Run the example until the end of the block. Its sensors have materialized some orders.

    Args:
        folder: A folder for everything that it writes.
        shards: The shards of the stream.
        last: The table that they have materialized last; if it is the raw table, there is no other one.
    """
    table, home = folder / "orders", folder / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text((_PROJECT / "dagster.yaml").read_text() + _RUN_QUEUE)
    tables = f"build_order_tables({str(folder / 'derived')!r})" if last == REVENUE else "dg.Definitions()"
    text = _DEFINITIONS.format(table=str(table), tables=tables)
    (folder / f"{_LOCATION}.py").write_text(text)
    (folder / "workspace.yaml").write_text(_WORKSPACE)
    faults, clock = Faults(), ShiftedClock()
    with (
        LocalKinesis(now=clock.time, wrap=faults.around) as local,
        embedded_stream(local, table) as kinesis,
        SparkServer(folder / "spark.log", preload=["kinesis_assets.operations.replay.task"]) as spark,
        dg.DagsterInstance.from_config(str(home)) as instance,
    ):
        kinesis.create_stream(StreamName=STREAM, ShardCount=len(shards))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        found = OrdersDeployment(kinesis, faults, clock, Webserver(port), instance, table)
        found.put(400)
        environment, log = {"DAGSTER_HOME": str(home), "SPARK_REMOTE": spark.url}, folder / "dagster.log"
        with _dagster(folder, port, environment) as process:
            wait_until(lambda: instance.get_latest_materialization_event(last), process, failure=log)
            found.wait_until_idle()
        _stop_all(instance)
        with _dagster(folder, port, environment) as process:
            wait_until(found.web.version, process, failure=log)
            yield found


def _stop_all(instance: dg.DagsterInstance) -> None:
    """Turn the sensors off, and cancel what they requested last. No daemon runs, which could undo it."""
    for sensor in instance.all_instigator_state():
        instance.update_instigator_state(sensor.with_status(InstigatorStatus.STOPPED))
    for run in instance.get_runs():
        if not run.is_finished:
            instance.report_run_canceled(run)


@contextmanager
def _dagster(folder: Path, port: int, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run Dagster's web server and daemon."""
    options = ["-w", "workspace.yaml", "-h", "127.0.0.1", "-p", str(port)]
    with (
        (folder / "dagster.log").open("ab") as output,
        subprocess.Popen(
            [sys.executable, "-m", "dagster", "dev", *options],
            cwd=folder,
            env=os.environ | environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
