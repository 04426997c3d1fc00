"""`kinesis-assets run` with Dagster and Spark: the driver, a Python worker or the JVM dies at a point.

The contract's tests kill a driver around its commits.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.harness.waiting import SECONDS
from chaos.faults.bench import Process
from chaos.faults.site.fault_points import DAGSTER, DRIVER, MOMENTS, WORKER, Fault

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from chaos.faults.bench import FaultBench


@pytest.fixture
def on_spark(bench: FaultBench, spark: SparkSession) -> FaultBench:
    """A bench with records in two shards. Runs in this process share the session."""
    del spark
    bench.create(2)
    bench.put_many(60)
    return bench


def run_of(bench: FaultBench, fault: Fault) -> Process:
    """Run the command to its end, with a fault in all of its processes."""
    bench.folder.mkdir()
    fault = replace(fault, folder=str(bench.folder))
    Path(fault.folder, "spark-defaults.conf").write_text("spark.master local[2,4]")
    done = subprocess.run(
        [str(Path(sys.executable).with_name("kinesis-assets")), *bench.command()],
        env=os.environ | fault.environment() | {"SPARK_CONF_DIR": fault.folder},
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return Process(done, fault, done.stdout, done.stderr)


def assert_next_run_recovers(bench: FaultBench) -> None:
    bench.put_many(40)
    facts = bench.materialize()
    assert {fact["state"] for fact in facts.values()} == {"committed"}
    bench.assert_rows_equal_positions()
    bench.assert_exactly_once()


@pytest.mark.thorough
def test_each_point_is_passed_by_the_expected_process(on_spark: FaultBench) -> None:
    done = run_of(on_spark, Fault(""))
    assert done.code == 0, done.err
    passed = set(done.fault.passed)
    (driver,) = {pid for pid, _, point in passed if point == "commit"}
    by_driver = {(moment, point) for pid, moment, point in passed if pid == driver}
    by_workers = {(moment, point) for pid, moment, point in passed if pid != driver}
    assert by_driver == set(product(MOMENTS, DRIVER | DAGSTER))
    assert by_workers == set(product(MOMENTS, WORKER))
    on_spark.assert_exactly_once()


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault("", "store event", "before"), marks=pytest.mark.thorough),
        pytest.param(Fault("", "get records", "before", action="kill JVM"), marks=pytest.mark.thorough),
        Fault("", "commit", "before", action="kill JVM"),
    ],
    ids=str,
)
def test_the_run_after_a_killed_driver_or_jvm_leaves_each_record_exactly_once(
    on_spark: FaultBench, fault: Fault
) -> None:
    died = run_of(on_spark, fault)
    assert died.fault.happened, died.err
    if fault.action == "kill":
        assert died.code == -signal.SIGKILL
    assert_next_run_recovers(on_spark)


def test_the_task_of_a_killed_python_worker_is_retried_and_committed_once(on_spark: FaultBench) -> None:
    done = run_of(on_spark, Fault("", "land", "after"))
    assert done.fault.happened
    assert done.code == 0, done.err
    on_spark.assert_exactly_once()
    assert_next_run_recovers(on_spark)


@pytest.mark.thorough
def test_python_workers_that_die_at_every_attempt_commit_nothing(on_spark: FaultBench) -> None:
    failed = run_of(on_spark, Fault("", "close data file", "after", always=True))
    assert failed.fault.happened
    assert failed.code == 1
    assert on_spark.stored == []
    assert_next_run_recovers(on_spark)


@pytest.mark.thorough
def test_a_python_worker_with_a_full_disk_commits_nothing(on_spark: FaultBench) -> None:
    failed = run_of(on_spark, Fault("", "write data file", action="ENOSPC", always=True))
    assert failed.code == 1
    assert "No space left on device" in failed.err
    assert on_spark.stored == []
    assert_next_run_recovers(on_spark)
