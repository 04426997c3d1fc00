"""The modules that are imported in each situation. Times are not asserted: they depend on the machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.testing import UserRecord, aggregate

HEAVY = (
    *("pandas", "pyarrow", "deltalake", "boto3", "botocore", "pyspark", "dagster", "grpc", "py4j"),
    "opentelemetry",
)


def imported(statement):
    """Return the modules and top-level packages that a statement loads into a new interpreter."""
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["kinesis_assets", "kinesis_assets.errors"])
def test_importing_the_package_loads_nothing_heavy(module):
    assert not imported(f"import {module}") & set(HEAVY)


def test_the_command_line_loads_nothing_heavy_before_it_knows_the_command():
    assert not imported("import kinesis_assets.cli.command_line") & set(HEAVY)


def test_the_supervisor_of_a_spark_server_does_not_load_spark():
    assert not imported("import kinesis_assets.spark.server") & set(HEAVY)


# With Dagster alone what a stream's definitions are made of takes 0.05 s; each of these is 0.05 to 0.5 more.
ONLY_RUNS_NEED = {
    *("boto3", "botocore", "urllib3", "google.protobuf"),
    *("numpy", "pandas", "pyarrow", "deltalake", "duckdb", "fastavro"),
    *("pyspark", "py4j", "grpc", "dagster_pyspark", "dagster_spark"),
    "opentelemetry",
}


COMPONENTS = """
import kinesis_assets.dagster.components.stream_component
import kinesis_assets.dagster.components.table_component, kinesis_assets.schemas.files
"""
BUILD = "build_kinesis_stream('clicks', table='s3://lake/clicks', endpoint_url='http://127.0.0.1:4567')"


@pytest.mark.parametrize(
    "statement",
    [
        COMPONENTS,
        f"from kinesis_assets import build_kinesis_stream; {BUILD}",
    ],
    ids=["loaded", "built"],
)
def test_definitions_load_nothing_that_only_runs_need(statement):
    assert not imported(statement) & ONLY_RUNS_NEED


def test_a_run_loads_neither_pandas_nor_a_query_engine_nor_spark_connect():
    modules = ("ingest.continuous_run", "dagster.spark_resource", "dagster.sensor.sensor")
    run = ";".join(f"import kinesis_assets.{module}" for module in modules)
    never = {
        "pandas",
        "grpc",
        "pyarrow.dataset",
        "pyspark.sql.connect",
        "pyspark.pandas",
        "duckdb",
        "fastavro",
    }
    assert not imported(run) & never


LAND = """
from kinesis_assets.kinesis.reading.range import Allowance, Bounds
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import ShardRange
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.ingest.manifest import Landing
from kinesis_assets.ingest.task import LandingJob, landing_task
from kinesis_assets.table.store.storage import TableFolder
import math, pyarrow

job = LandingJob({stream!r}, ClientSettings("us-east-1", {url!r}), TableFolder.at({folder!r}), 1, math.inf)
everything = ("0", str((1 << 128) - 1))
range_ = ShardRange("shardId-000000000000", Position.parse("TRIM_HORIZON"), Bounds(), everything)
ids = pyarrow.Array.from_buffers(pyarrow.int64(), 1, [None, pyarrow.py_buffer(bytes(8))])
(answer,) = landing_task(job, [([range_], Allowance())])([pyarrow.RecordBatch.from_arrays([ids], ["id"])])
(landing,) = answer["landing"].to_pylist()
assert Landing.of([landing], job.stream, job.batch_id, [range_]).rows == 12, landing
"""


def test_a_task_of_a_run_loads_no_pandas(kinesis, stream, settings, tmp_path):
    pytest.importorskip("pandas")  # if it is not installed, nothing can load it
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_records(
        StreamName=stream,
        Records=[
            *({"Data": b"%d" % item, "PartitionKey": "k"} for item in range(9)),
            {"Data": aggregate([UserRecord("k", b"a"), UserRecord("ké", b"b")]), "PartitionKey": "k"},
            {"Data": aggregate([UserRecord("k", b"c")])[:-1], "PartitionKey": "k"},
        ],
    )
    land = LAND.format(stream=stream, url=settings.endpoint_url, folder=str(tmp_path))
    assert "pandas" not in imported(land)


def test_a_task_of_a_run_loads_neither_dagster_nor_delta():
    assert not imported("import kinesis_assets.operations.replay.task") & {
        "dagster",
        "deltalake",
        "pandas",
        "pyspark.sql",
    }


def test_what_sparks_workers_import_loads_neither_dagster_nor_delta():
    """Workers fork, which delta-rs does not survive, and start for each job."""
    modules = ("ingest.land", "ingest.task", "operations.compare.stream_range")
    assert not imported(";".join(f"import kinesis_assets.{module}" for module in modules)) & {
        "dagster",
        "deltalake",
    }
