"""A run exports its metrics before it ends."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.metrics import LAG, ROWS, SHARD, STREAM, TIME_TO_LOSS
from support.pipeline import SPARK_CONFIG
from support.two_shards import FIRST, SECOND

RUN = """
import json, math, sys

import dagster as dg
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, PeriodicExportingMetricReader

from kinesis_assets.dagster.stream_project import StreamProject

class Exporter(MetricExporter):
    def export(self, metrics_data, timeout_millis=10_000, **kwargs):
        print(metrics_data.to_json(indent=None), flush=True)
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis=10_000):
        return True

    def shutdown(self, timeout_millis=30_000, **kwargs):
        pass

# Neither the interval nor the end of the process exports anything.
reader = PeriodicExportingMetricReader(Exporter(), export_interval_millis=math.inf)
set_meter_provider(MeterProvider([reader], shutdown_on_exit=False))
fields = json.loads(sys.argv[1])
with dg.DagsterInstance.ephemeral() as instance:
    project = StreamProject.from_settings(fields.pop("stream"), **fields)
    list(project.materialize(instance, sys.argv[2:]))
"""


@pytest.mark.thorough
def test_a_run_exports_its_metrics_before_it_ends(source, settings, tmp_path):
    source.create(2)
    source.put(FIRST, 3)
    fields = {
        "stream": source.name,
        "table": str(tmp_path / "table"),
        "endpoint_url": settings.endpoint_url,
        "spark_config": SPARK_CONFIG,
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(fields), FIRST, SECOND],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    exports = [
        json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"resource_metrics"')
    ]
    (resource,) = exports[-1]["resource_metrics"]
    metrics = {metric["name"]: metric for scope in resource["scope_metrics"] for metric in scope["metrics"]}
    (rows,) = metrics[ROWS.name]["data"]["data_points"]
    assert (rows["attributes"], rows["value"]) == ({STREAM: source.name, SHARD: FIRST}, 3)
    for gauge in (LAG, TIME_TO_LOSS):
        shards = [point["attributes"][SHARD] for point in metrics[gauge.name]["data"]["data_points"]]
        assert sorted(shards) == [FIRST, SECOND]
