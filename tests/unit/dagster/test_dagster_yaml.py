"""The project's dagster.yaml."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import yaml
from dagster._config import process_config, validate_config
from dagster._core.instance.config import dagster_instance_config_schema
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon
from dagster_aws.s3.compute_log_manager import S3ComputeLogManager

import kinesis_assets
from support.daemon import Daemon, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(kinesis_assets.__file__).parent
PROJECT = PACKAGE.parent
DAGSTER_YAML = PROJECT / "dagster.yaml"


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """An instance with this project's dagster.yaml."""
    home = tmp_path_factory.mktemp("dagster_home")
    shutil.copy(DAGSTER_YAML, home)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance


@pytest.mark.slow
def test_only_runs_of_the_same_shard_of_a_stream_wait_for_each_other(
    production, make_project, source, tmp_path
):
    runs = []
    for each in (source, source.sibling()):
        each.create(1)
        daemon = Daemon(make_project(stream=each.name, table=str(tmp_path / each.name)), production)
        (request,) = daemon.tick().run_requests or ()
        runs.append([daemon.run(dict(request.tags), Status.QUEUED) for _ in range(2)])
    assert next_of_the_queue(production) == [waiting[0].run_id for waiting in runs]


@pytest.mark.slow
def test_the_chart_limits_runs_as_the_instance_does(production):
    chart = yaml.safe_load((PROJECT / "docs/kubernetes/values.yaml").read_text())
    coordinator = chart["dagsterDaemon"]["runCoordinator"]["config"]["queuedRunCoordinator"]
    limits = production.get_concurrency_config().run_queue_config.tag_concurrency_limits
    assert coordinator["tagConcurrencyLimits"] == limits


def next_of_the_queue(instance: dg.DagsterInstance) -> list[str]:
    """Return the ids of the queued runs that Dagster's daemon would launch next."""
    queue = QueuedRunCoordinatorDaemon(interval_seconds=1)
    runs = queue._get_runs_to_dequeue(instance, instance.get_concurrency_config(), fixed_iteration_time=None)
    return [run.run_id for run in runs]


def test_the_number_of_concurrent_runs_is_limited(production):
    assert production.get_concurrency_config().run_queue_config.max_concurrent_runs == 4


def test_a_run_whose_worker_died_is_retried_and_a_failed_one_is_not(production):
    assert production.run_monitoring_enabled
    assert production.run_retries_enabled
    assert not production.run_retries_retry_on_asset_or_op_failure


def test_telemetry_is_disabled(production):
    assert not production.telemetry_enabled
    assert not production.nux_enabled


@pytest.fixture
def with_everything() -> dict[str, Any]:
    """Return dagster.yaml with every setting uncommented."""
    lines: list[str] = []
    in_block = False
    for line in DAGSTER_YAML.read_text().splitlines():
        in_block = line.startswith("#") and (in_block or re.fullmatch(r"# \w+:", line) is not None)
        lines.append(line.removeprefix("# ") if in_block else line)
    settings: dict[str, Any] = yaml.safe_load("\n".join(lines))
    return settings


def test_the_settings_for_postgresql_and_s3_are_valid(with_everything):
    assert {"storage", "compute_logs"} <= with_everything.keys()
    result = validate_config(dagster_instance_config_schema(), with_everything)
    assert result.success, result.errors


def test_the_settings_for_s3_are_those_of_its_compute_log_manager(with_everything, monkeypatch):
    monkeypatch.setenv("DAGSTER_COMPUTE_LOGS_BUCKET", "logs")
    logs = with_everything["compute_logs"]
    assert (logs["module"], logs["class"]) == (
        S3ComputeLogManager.__module__,
        S3ComputeLogManager.__name__,
    )
    result = process_config(S3ComputeLogManager.config_type(), logs["config"])
    assert result.success, result.errors
    assert result.value["bucket"] == "logs"


def test_the_settings_for_postgresql_come_from_the_environment(with_everything):
    settings = with_everything["storage"]["postgres"]["postgres_db"]
    assert settings.keys() == {"hostname", "username", "password", "db_name", "port"}
    secret = {name: value for name, value in settings.items() if name != "port"}
    assert all(value.keys() == {"env"} for value in secret.values())
