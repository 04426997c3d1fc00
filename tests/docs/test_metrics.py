"""The examples of docs/metrics.md export to a real receiver, and their alerts name what it receives."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import botocore.session
import dagster as dg
import pytest
import yaml
from botocore.validate import validate_parameters
from deltalake import DeltaTable
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.harness.waiting import SECONDS, wait_until
from kinesis_assets.metrics import (
    COMMIT_DURATION,
    INSTRUMENTS,
    LAG,
    ROWS,
    SHARD,
    STREAM,
    TIME_TO_LOSS,
)
from support.dg_project import DgProject
from support.otlp_receiver import OtlpReceiver
from support.pipeline import SPARK_CONFIG
from support.stream_names import raw_key, shard_partitions
from support.two_shards import FIRST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.kinesis.settings import ClientSettings
    from support.fixtures.dagster import Source

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
ENDPOINT = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"


def blocks(title: str, language: str) -> list[str]:
    """Return the blocks of a section in a language."""
    (section,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def variables(title: str) -> dict[str, str]:
    """Return the environment variables of a section."""
    (block,) = blocks(title, "ini")
    return dict(line.split("=", 1) for line in block.splitlines())


def exporting(title: str, receiver: OtlpReceiver) -> dict[str, str]:
    """Return the environment variables of a section, with a receiver in place of the section's."""
    environment = variables(title)
    return environment | {ENDPOINT: f"{receiver.url}{urlsplit(environment[ENDPOINT]).path}"}


def assert_sent_as_configured(environment: dict[str, str], receiver: OtlpReceiver) -> None:
    """Assert that all metrics have the path and the service name of the environment."""
    assert {point.path for point in receiver.points} == {urlsplit(environment[ENDPOINT]).path}
    assert {point.resource["service.name"] for point in receiver.points} == {environment["OTEL_SERVICE_NAME"]}


@dataclass
class Deployment:
    """A Dagster project with the stream of the test and the page's configuration of the SDK.

    Attributes:
        home: The folder of the instance.
        table: The folder of the table.
    """

    project: DgProject
    home: Path
    table: Path

    @property
    def log(self) -> Path:
        return self.home / "daemon.log"

    @contextmanager
    def daemon(self, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        """Run Dagster's daemon, which starts the code location, which starts the runs."""
        program = [str(Path(sys.executable).parent / "dagster-daemon"), "run", "-m", "lake.definitions"]
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                program,
                env={**self.project.env, **environment},
                cwd=self.project.root,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=SECONDS)

    def materialize(self, stream: str, environment: dict[str, str]) -> None:
        """Execute a run over the first shard in a process of its own, which must succeed."""
        with dg.DagsterInstance.get() as instance:
            instance.add_dynamic_partitions(str(shard_partitions(stream).name), [FIRST])
        program = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "lake.definitions"]
        program += ["--select", raw_key(stream).to_user_string(), "--partition", FIRST]
        with self.log.open("wb") as log:
            done = subprocess.run(
                program,
                env={**self.project.env, **environment},
                cwd=self.project.root,
                stdout=log,
                stderr=log,
                timeout=SECONDS,
                check=False,
            )
        assert done.returncode == 0, self.log.read_text()

    def statuses(self) -> set[dg.DagsterRunStatus]:
        """Return the statuses of the runs."""
        with dg.DagsterInstance.get() as instance:
            return {run.status for run in instance.get_runs()}


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture
def deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Source, settings: ClientSettings
) -> Iterator[Deployment]:
    """A deployment whose stream has ten unread records."""
    home, root, table = tmp_path / "home", tmp_path / "project", tmp_path / "table"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with dg.DagsterInstance.get():
        pass  # its databases exist now: two processes at once cannot create them
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    project = DgProject.create(root, {**os.environ, "PYTHONPATH": path})
    (code,) = blocks("Configure the SDK", "python")
    (project.defs / "metrics.py").write_text(code)
    (project.defs / "clicks").mkdir()
    attributes = {
        "stream": source.name,
        "table": str(table),
        "endpoint_url": settings.endpoint_url,
        "sensor_interval_seconds": 1,
        "spark_config": SPARK_CONFIG,
    }
    component = {"type": "kinesis_assets.KinesisStreamComponent", "attributes": attributes}
    (project.defs / "clicks" / "defs.yaml").write_text(yaml.safe_dump(component))
    source.create(1)
    source.put(FIRST, 10)
    yield Deployment(project, home, table)
    source.delete()


def test_the_code_location_and_its_runs_export_what_the_page_says(
    deployment: Deployment, receiver: OtlpReceiver, source: Source
) -> None:
    environment = exporting("Prometheus", receiver) | {
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "process",
    }

    def processes(metric: str) -> set[Any]:
        return {point.resource["process.pid"] for point in receiver.of(metric)}

    with deployment.daemon(environment) as daemon:
        wait_until(lambda: len(processes(TIME_TO_LOSS.name)) > 1, daemon, failure=deployment.log)
        wait_until(lambda: deployment.statuses() == {dg.DagsterRunStatus.SUCCESS}, daemon)

    rows = [point for point in receiver.of(ROWS.name) if point.value]
    assert sum(point.value for point in rows) == 10
    assert all(point.attributes == {STREAM: source.name, SHARD: FIRST} for point in rows)
    assert receiver.of(COMMIT_DURATION.name)
    assert all(point.is_delta for metric in (ROWS, COMMIT_DURATION) for point in receiver.of(metric.name))
    # The sensor has no rows to report, and is evaluated in another process than the run.
    assert processes(TIME_TO_LOSS.name) > processes(ROWS.name)
    assert processes(LAG.name) == processes(TIME_TO_LOSS.name)
    assert_sent_as_configured(environment, receiver)


@pytest.mark.thorough
def test_a_receiver_that_fails_fails_no_run(
    deployment: Deployment, receiver: OtlpReceiver, source: Source
) -> None:
    receiver.status = 503
    environment = exporting("CloudWatch", receiver)
    deployment.materialize(source.name, environment)
    assert deployment.statuses() == {dg.DagsterRunStatus.SUCCESS}
    assert receiver.of(ROWS.name)
    assert_sent_as_configured(environment, receiver)
    assert DeltaTable(str(deployment.table)).to_pyarrow_table(columns=["data"]).num_rows == 10


SCRAPE = """
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import generate_latest

from kinesis_assets.metrics import INSTRUMENTS, measure

set_meter_provider(MeterProvider([PrometheusMetricReader()]))
for instrument in INSTRUMENTS:
    measure(instrument, 1, dict.fromkeys(instrument.attributes, "a"))
print(generate_latest().decode())
"""


@pytest.fixture(scope="module")
def scraped() -> dict[str, set[str]]:
    """By the name of each sample that OpenTelemetry's exporter for Prometheus shows, its labels."""
    done = subprocess.run(
        [sys.executable, "-c", SCRAPE], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    samples = (sample for family in text_string_to_metric_families(done.stdout) for sample in family.samples)
    return {sample.name: {*sample.labels} for sample in samples}


def test_the_table_has_the_names_in_prometheus(scraped: dict[str, set[str]]) -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| `(\w+)` \| (\w+) \|", PAGE, re.MULTILINE)
    assert [name for name, *_ in rows] == [each.name for each in INSTRUMENTS]
    names = {f"{name}_bucket" if kind == "histogram" else name for _, name, kind in rows}
    assert names <= scraped.keys()


def test_the_rules_for_prometheus_name_metrics_and_labels_that_exist(scraped: dict[str, set[str]]) -> None:
    storage, rules = (yaml.safe_load(block) for block in blocks("Prometheus", "yaml"))
    assert storage["rule_files"] == ["alerts.yml"]
    expressions = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    assert len(expressions) == 4
    for expression in expressions:
        names = set(re.findall(r"\bkinesis_assets_\w+", expression))
        labels = set(re.findall(r"by \((\w+)\)", expression))
        assert names
        assert all(labels <= scraped[name] for name in names), expression


def test_prometheus_is_started_with_what_the_page_exports_to() -> None:
    (command,) = blocks("Prometheus", "sh")
    assert urlsplit(variables("Prometheus")[ENDPOINT]).path == "/api/v1/otlp/v1/metrics"
    assert "--web.enable-otlp-receiver" in command


def test_the_cloudwatch_agent_listens_where_the_page_exports_to() -> None:
    agent = json.loads(blocks("CloudWatch", "json")[0])
    endpoint = urlsplit(variables("CloudWatch")[ENDPOINT])
    assert agent["opentelemetry"]["collect"]["otlp"]["http_endpoint"] == endpoint.netloc
    assert endpoint.path == "/v1/metrics"


def test_the_alarm_is_a_request_that_cloudwatch_takes_for_a_metric_that_exists() -> None:
    alarm = json.loads(blocks("CloudWatch", "json")[1])
    service = botocore.session.get_session().get_service_model("cloudwatch")
    validate_parameters(alarm, service.operation_model("PutMetricAlarm").input_shape)
    query = alarm["EvaluationCriteria"]["PromQLCriteria"]["Query"]
    assert set(re.findall(r'\{"([\w.]+)"\}', query)) == {TIME_TO_LOSS.name}
    assert set(re.findall(r'by \("([\w.]+)"\)', query)) <= set(TIME_TO_LOSS.attributes)
