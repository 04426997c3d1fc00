"""The sensors of docs/alerts.md notify once for each failure, and its script finds what stops them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.scheduler.instigation import InstigatorType, TickData, TickStatus
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.types import DaemonHeartbeat
from dagster_graphql.test.utils import execute_dagster_graphql
from dagster_shared.error import SerializableErrorInfo

from kinesis_assets.dagster.settings.check_settings import Checks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dagster._core.remote_representation.external import RemoteSensor
    from dagster._core.workspace.context import WorkspaceRequestContext

HOUR = 3600.0
PAGE = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def page() -> dict[str, Any]:
    """What the blocks define, with a `notify` that adds to `notified`."""
    found: dict[str, Any] = {}
    for block in BLOCKS:
        exec(block, found)  # noqa: S102  # the page's own lines
    found["notified"] = []
    found["notify"] = found["notified"].append
    return found


def evaluate(page: dict[str, Any], instance: dg.DagsterInstance, cursor: str | None) -> str | None:
    with dg.build_sensor_context(instance, cursor=cursor) as context:
        page["failed_checks"](context)
        return context.cursor


def report(page: dict[str, Any], instance: dg.DagsterInstance, *, passed: bool) -> None:
    evaluation = dg.AssetCheckEvaluation(
        asset_key=page["RAW"], check_name="time_to_loss", passed=passed, description="shard 0 loses records"
    )
    instance.report_runless_asset_event(evaluation)


def test_the_checks_exist_and_are_errors(page: dict[str, Any]) -> None:
    assert all(getattr(Checks(), check.name).severity == "ERROR" for check in page["CHECKS"])


def test_a_failing_check_notifies_once_until_it_has_passed(page: dict[str, Any]) -> None:
    notified = page["notified"]
    with dg.DagsterInstance.ephemeral() as instance:
        cursor = evaluate(page, instance, None)
        assert notified == []
        report(page, instance, passed=False)
        for _ in range(2):
            cursor = evaluate(page, instance, cursor)
        assert len(notified) == 1
        assert notified[0].endswith("shard 0 loses records")
        for passed in (True, False):
            report(page, instance, passed=passed)
            cursor = evaluate(page, instance, cursor)
        assert len(notified) == 2


def test_a_failed_run_is_reported_with_its_reason(page: dict[str, Any]) -> None:
    @dg.op
    def fail() -> None:
        raise dg.Failure("shard 0: records have expired")

    @dg.job
    def job() -> None:
        fail()

    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance, raise_on_error=False)
        context = dg.build_run_status_sensor_context(
            "failed_runs",
            result.get_run_failure_event(),
            instance,
            result.dagster_run,
        ).for_run_failure()
        page["failed_runs"](context)
    (notified,) = page["notified"]
    assert "records have expired" in notified


# The script that asks from outside


class Deployment:
    """A project with the sensors of the page, as Dagster's web server shows it.

    Attributes:
        page: What the page defines.
        file: The file of the project.
        now: The time of the script.
    """

    def __init__(self, page: dict[str, Any], instance: dg.DagsterInstance, folder: Path) -> None:
        self.now = time.time()
        self.file = folder / "project.py"
        table = str(folder / "table")
        self.file.write_text(
            "import kinesis_assets\n"
            + "\n".join(BLOCKS[:2])
            + "\ndefs = dg.Definitions.merge(kinesis_assets.build_kinesis_stream('clicks', "
            f"table={table!r}, maintenance_schedule=None), "
            "dg.Definitions(sensors=[failed_checks, failed_runs]))"
        )
        self.page = page
        self._instance = instance

    def problems(self) -> list[str]:
        """Return what the script finds."""
        with self._web_server() as context:
            result = execute_dagster_graphql(context, self.page["QUERY"])
        assert not result.errors
        return [*self.page["problems"](result.data, self.now)]

    def tick(self, status: TickStatus = TickStatus.SKIPPED, *, ago: float = 0.0) -> None:
        """Record a tick of each sensor, and a heartbeat of each daemon, some seconds ago."""
        at = self.now - ago
        error = SerializableErrorInfo("denied", [], None) if status is TickStatus.FAILURE else None
        for sensor in self._sensors():
            origin, kind = sensor.get_remote_origin_id(), InstigatorType.SENSOR
            self._instance.create_tick(
                TickData(origin, sensor.name, kind, status, at, error=error, selector_id=sensor.selector_id)
            )
        for daemon in self._instance.get_required_daemon_types():
            self._instance.add_daemon_heartbeat(DaemonHeartbeat(at, daemon, "daemon"))

    def stop_sensor(self, name: str) -> None:
        (sensor,) = (sensor for sensor in self._sensors() if sensor.name == name)
        self._instance.stop_sensor(sensor.get_remote_origin_id(), sensor.selector_id, sensor)

    def _sensors(self) -> list[RemoteSensor]:
        with self._web_server() as context:
            (location,) = context.code_locations
            return [
                sensor
                for repository in location.get_repositories().values()
                for sensor in repository.get_sensors()
            ]

    @contextmanager
    def _web_server(self) -> Iterator[WorkspaceRequestContext]:
        """Load the project as a code location."""
        target = LoadableTargetOrigin(python_file=str(self.file), executable_path=sys.executable)
        origin = InProcessCodeLocationOrigin(target, location_name="project")
        with WorkspaceProcessContext(self._instance, InProcessWorkspaceLoadTarget(origin)) as context:
            yield context.create_request_context()


@pytest.fixture
def deployment(page: dict[str, Any], instance: dg.DagsterInstance, tmp_path: Path) -> Deployment:
    return Deployment(page, instance, tmp_path)


def test_the_script_finds_nothing_in_a_deployment_that_is_well(deployment: Deployment) -> None:
    deployment.tick()
    assert deployment.problems() == []


def test_the_script_finds_a_stopped_sensor(deployment: Deployment) -> None:
    deployment.tick()
    deployment.stop_sensor("kinesis__clicks_raw_sensor")
    assert deployment.problems() == ["sensor kinesis__clicks_raw_sensor is stopped"]


def test_the_script_finds_ticks_that_fail(deployment: Deployment) -> None:
    deployment.tick(ago=HOUR)
    deployment.tick(TickStatus.FAILURE)
    assert deployment.problems() == [
        f"sensor {name} has had no tick without an error for 900 s" for name in deployment.page["SENSORS"]
    ]


def test_the_script_finds_a_dead_daemon(deployment: Deployment) -> None:
    deployment.tick(ago=HOUR)
    found = deployment.problems()
    assert "daemon SENSOR is not healthy" in found
    assert "sensor kinesis__clicks_raw_sensor has had no tick without an error for 900 s" in found


@pytest.mark.filterwarnings("ignore:Error loading repository location")
def test_the_script_finds_a_code_location_that_does_not_load(deployment: Deployment) -> None:
    deployment.file.write_text("raise RuntimeError('no such setting')")
    found = deployment.problems()
    assert "no such setting" in found[0]
    assert "sensor kinesis__clicks_raw_sensor is not loaded" in found


def test_the_script_is_run_as_it_is(tmp_path: Path) -> None:
    """It exits with 1 if the web server does not answer."""
    script = tmp_path / "watch.py"
    script.write_text(BLOCKS[2])
    environment = {**os.environ, "DAGSTER_URL": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, script], env=environment, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "the web server does not answer" in done.stdout
