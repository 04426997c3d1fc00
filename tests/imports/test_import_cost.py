"""What is imported where, by name: seconds depend on the machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("pandas", "pyarrow", "deltalake", "boto3", "botocore", "pyspark", "dagster", "grpc", "py4j")


def imported(statement):
    """The top-level packages and modules that a statement loads into a new interpreter."""
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["kinesis_assets", "kinesis_assets.errors"])
def test_the_package_itself_loads_nothing_heavy(module):
    assert not imported(f"import {module}") & set(HEAVY)


def test_the_command_line_loads_nothing_heavy_before_it_knows_the_command():
    assert not imported("import kinesis_assets.cli") & set(HEAVY)


def test_what_keeps_a_spark_server_does_not_load_spark():
    assert not imported("import kinesis_assets.spark.server") & set(HEAVY)


def test_definitions_do_not_load_what_only_a_job_needs():
    # pandas is half a second, grpc and the Connect client another.
    never = {"pandas", "grpc", "pyarrow.dataset", "pyspark.sql.connect", "duckdb", "fastavro"}
    assert not imported("import kinesis_assets.component") & never


def test_a_landing_s_tasks_load_no_dagster_and_no_delta():
    assert not imported("import kinesis_assets.spark.fill") & {
        "dagster",
        "deltalake",
        "pandas",
        "pyspark.sql",
    }
