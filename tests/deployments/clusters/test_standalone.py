"""A standalone cluster, whose executors have neither this package nor what it needs."""

from __future__ import annotations

import os
import subprocess

import pytest

from benchmarks.harness.waiting import wait_until
from benchmarks.servers.spark_cluster import PYTHON_VERSION, StandaloneCluster
from support.bench import Bench
from support.tables import numbers, put_numbers

OTHER_VERSION = """
import sys
from collections import namedtuple

fields = "major minor micro releaselevel serial"
sys.version_info = namedtuple("version_info", fields)(3, 99, 0, "final", 0)
"""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def full_disk(tmp_path):
    """A folder on a disk that has no room for the packages."""
    folder = tmp_path / "full"
    folder.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError):
        # In CI, a skipped test would count as passed.
        give_up = pytest.fail if os.environ.get("CI") else pytest.skip
        give_up("only root may mount a disk")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_run_ships_its_code_and_its_environment(cluster, packed, run, kinesis, stream, tmp_path):
    put_numbers(kinesis, stream, 400, shards=3)
    code, events, errors = run(spark_config=cluster.config, python_environment=str(packed))
    assert (code, len(events)) == (0, 3), errors
    assert numbers(tmp_path / "table") == list(range(400))


def test_executors_without_the_packages_are_refused_before_anything_is_written(
    cluster, run, kinesis, stream, tmp_path
):
    put_numbers(kinesis, stream, 3)
    code, _, errors = run("--start", "LATEST", spark_config=cluster.config)
    assert code == 1
    assert f"stream {stream}: on an executor (" in errors
    assert "No module named" in errors
    assert "set python_environment" in errors
    assert not (tmp_path / "table" / "_delta_log").exists()


def test_an_interpreter_that_is_missing_is_named(cluster, run, kinesis, stream, tmp_path):
    put_numbers(kinesis, stream, 3)
    code, _, errors = run(spark_config=cluster.config, python_executable="/nowhere/python3")
    assert code == 1
    assert f"stream {stream}: on an executor" in errors
    assert "/nowhere/python3" in errors
    assert f"Set python_executable to an interpreter of Python {PYTHON_VERSION}" in errors
    assert not (tmp_path / "table" / "_delta_log").exists()


def test_another_version_of_python_is_named(cluster, run, kinesis, stream, tmp_path):
    put_numbers(kinesis, stream, 3)
    (tmp_path / "sitecustomize.py").write_text(OTHER_VERSION)
    path = f'PYTHONPATH="{tmp_path}${{PYTHONPATH:+:$PYTHONPATH}}"'
    python = executable(tmp_path / "python", f'{path} exec python{PYTHON_VERSION} "$@"')
    code, _, errors = run(spark_config=cluster.config, python_executable=python)
    assert code == 1
    assert f"stream {stream}: on an executor" in errors
    assert f"Python is 3.99, and {PYTHON_VERSION} on this machine" in errors
    assert f"Set python_executable to an interpreter of Python {PYTHON_VERSION}" in errors


def test_an_executor_without_credentials_is_named(
    cluster, python_with_packages, run, kinesis, stream, tmp_path
):
    put_numbers(kinesis, stream, 3)
    none = {f"spark.executorEnv.AWS_{name}": "" for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")}
    code, _, errors = run(spark_config=cluster.config | none, python_executable=python_with_packages)
    assert code == 1
    assert f"stream {stream}: on an executor (" in errors
    assert "Unable to locate credentials" in errors
    assert not (tmp_path / "table" / "_delta_log").exists()


def executable(path, command):
    """Write a shell script, and return its path."""
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def landed(kinesis, settings, stream, table):
    """A raw table with the numbers 0, 1 and 2."""
    put_numbers(kinesis, stream, 3)
    Bench(kinesis, settings, stream, table).run()


@pytest.mark.usefixtures("landed")
def test_a_derivation_on_executors_without_the_packages_is_refused(cluster, derive, tmp_path):
    code, errors = derive(spark_config=cluster.config)
    assert code == 1
    (error,) = [line for line in errors.splitlines() if line.startswith(f"table {tmp_path / 'numbers'}: ")]
    assert ": on an executor (" in error
    assert "No module named" in error
    assert "set python_environment" in error
    assert not (tmp_path / "numbers" / "_delta_log").exists()


def test_a_killed_worker_loses_and_repeats_no_record(
    cluster, python_with_packages, run, kinesis, stream, faults, tmp_path
):
    put_numbers(kinesis, stream, 400, shards=2)
    shard_ids = [shard["ShardId"] for shard in kinesis.list_shards(StreamName=stream)["Shards"]]
    pages = 4
    faults.page_size(20, stream=stream)
    for shard_id in shard_ids:
        faults.empty_page(stream=stream, shard_id=shard_id, after=pages)

    def kill_a_worker():
        wait_until(lambda: all(faults.count("GetRecords", shard_id) > pages for shard_id in shard_ids))
        faults.clear()
        cluster.kill_worker()

    faults.before("GetRecords", kill_a_worker, stream=stream, after=2 * pages, times=1)
    code, _, errors = run(spark_config=cluster.config, python_executable=python_with_packages)
    cluster.start_workers()  # for the other tests
    assert code == 0, errors
    assert faults.count("GetShardIterator") == 1, "since the kill: the task of the worker was repeated"
    assert numbers(tmp_path / "table") == list(range(400))


def test_speculative_tasks_write_no_record_twice(
    cluster, python_with_packages, run, kinesis, stream, faults, tmp_path
):
    put_numbers(kinesis, stream, 400, shards=2)
    faults.page_size(20, stream=stream)
    slow = kinesis.list_shards(StreamName=stream)["Shards"][-1]["ShardId"]  # not the one that the check reads
    faults.delay(1.0, stream=stream, shard_id=slow, times=20)
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    code, _, errors = run(spark_config=cluster.config | speculation, python_executable=python_with_packages)
    assert code == 0, errors
    assert faults.count("GetShardIterator", slow) > 1, "no speculative task has read the slow shard"
    assert numbers(tmp_path / "table") == list(range(400))


def test_an_executor_without_disk_space_leaves_its_work_to_the_others(
    bare_python, packed, run, kinesis, stream, full_disk, tmp_path
):
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / "work-1").symlink_to(full_disk)
    put_numbers(kinesis, stream, 400, shards=2)
    with StandaloneCluster(folder, bare_python) as cluster:
        code, _, errors = run(spark_config=cluster.config, python_environment=str(packed))
        logs = [log.read_text() for log in full_disk.glob("*/*/stderr")]
    assert code == 0, errors
    assert any("No space left on device" in log for log in logs)
    assert numbers(tmp_path / "table") == list(range(400))
