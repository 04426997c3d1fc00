"""Runs over a derived table in processes of their own: killed ones are ended, without run monitoring."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable

from benchmarks.harness.waiting import wait_until
from kinesis_assets import derived_table
from kinesis_assets.dagster.sensor.sensor_runs import SECONDS_SILENT
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.table.run_files.heartbeat import heartbeats
from support.daemon import Daemon, SensorClock, Status
from support.dagster_runs import execute
from support.shard_ids import A
from support.stream_names import raw_key

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.usefixtures("spark"),
    pytest.mark.filterwarnings("ignore:Parameter `include_sources`"),
]

NUMBERS = dg.AssetKey("numbers")


class Deployment:
    """A stream with a derived table, whose runs have processes of their own.

    Attributes:
        clock: The clock of the stream's sensor.
    """

    def __init__(self, project: StreamProject, instance: dg.DagsterInstance, folder: Path) -> None:
        self.instance = instance
        self._folder = folder
        self._table = str(folder / "numbers")
        self._stream = project

        @derived_table(source=project.stream, table=self._table)
        def numbers(new: Any) -> Any:
            return new.selectExpr("CAST(CAST(data AS STRING) AS INT) AS number")

        definitions = dg.Definitions.merge(project.definitions, dg.Definitions(assets=[numbers]))
        self._project = StreamProject(project.stream, definitions)
        daemon = Daemon(self._project, instance)
        daemon.tables = {NUMBERS: self._table}
        self.clock = SensorClock(daemon)
        self._cursor: Any = None

    @contextmanager
    def running(self) -> Iterator[dg.DagsterRun]:
        """Start a run over the table, yield it when it transforms rows, and kill all of its processes."""
        with self._stream.open_stream() as opened:
            stream = {
                "stream": opened.name,
                "table": opened.settings.table,
                "endpoint_url": opened.kinesis.endpoint_url,
            }
        places = {"stream": stream, "numbers": self._table, "released": str(self._folder / "released")}
        path = os.pathsep.join([*sys.path, str(Path(__file__).parents[2])])
        log = self._folder / "log"
        definitions = Path(__file__).with_name("waiting_derivation.py")
        program = [sys.executable, "-m", "dagster", "asset", "materialize"]
        with log.open("ab") as file:
            process = subprocess.Popen(
                [*program, "-f", str(definitions), "--select", "numbers"],
                env=os.environ | {"WAITING_DERIVATION": json.dumps(places), "PYTHONPATH": path},
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        try:
            wait_until(self.beats, process, failure=log)
            (run,) = self.instance.get_runs(dg.RunsFilter(statuses=[Status.STARTED]))
            yield run
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def release(self) -> None:
        """Let the runs transform their rows."""
        (self._folder / "released").touch()

    def beats(self) -> dict[str, str]:
        """Return the heartbeats of the table's runs."""
        return heartbeats(DerivedTable(self._table))

    def status(self, run: dg.DagsterRun) -> Status:
        found = self.instance.get_run_by_id(run.run_id)
        assert found is not None
        return found.status

    def land(self) -> None:
        """Land what the stream has."""
        assert execute(self._project, self.instance, A).success

    def requested(self) -> set[dg.AssetKey]:
        """Evaluate the automation conditions, and return the derived tables that are requested."""
        result = dg.evaluate_automation_conditions(
            self._project.definitions, self.instance, cursor=self._cursor
        )
        self._cursor = result.cursor
        raw = raw_key(self._project.stream)
        return {each.key for each in result.results if each.true_subset.size and each.key != raw}

    def derive(self) -> None:
        """Run the derived table in this process."""
        job = self._project.definitions.resolve_implicit_global_asset_job_def()
        assert job.execute_in_process(instance=self.instance, asset_selection=[NUMBERS]).success

    @property
    def numbers(self) -> list[int]:
        """The rows of the table."""
        return sorted(DeltaTable(self._table).to_pyarrow_table()["number"].to_pylist())


@pytest.fixture
def deployment(project: StreamProject, home: dg.DagsterInstance, tmp_path: Path) -> Deployment:
    return Deployment(project, home, tmp_path)


def test_a_killed_run_over_a_derived_table_is_ended_and_the_table_is_requested_again(source, deployment):
    source.create(1)
    assert deployment.requested() == set()
    source.put(A, 3)
    deployment.land()
    assert deployment.requested() == {NUMBERS}
    with deployment.running() as run:
        pass
    source.put(A, 2)
    deployment.land()
    assert deployment.requested() == set()
    assert deployment.status(run) is Status.STARTED

    deployment.clock.ranges_after(0)
    deployment.clock.ranges_after(SECONDS_SILENT)

    assert deployment.status(run) is Status.FAILURE
    assert deployment.requested() == {NUMBERS}
    deployment.derive()
    assert deployment.numbers == [0, 0, 1, 1, 2]


def test_a_slow_run_over_a_derived_table_is_not_ended(source, deployment):
    source.create(1)
    source.put(A, 3)
    deployment.land()
    with deployment.running() as run:
        before = deployment.beats()
        deployment.clock.ranges_after(SECONDS_SILENT - 1)
        wait_until(lambda: deployment.beats() != before)
        deployment.clock.ranges_after(SECONDS_SILENT - 1)
        assert deployment.status(run) is Status.STARTED
        deployment.release()
        wait_until(lambda: deployment.status(run) is not Status.STARTED)
    assert deployment.status(run) is Status.SUCCESS
    assert deployment.numbers == [0, 1, 2]
