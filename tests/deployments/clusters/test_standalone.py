"""A standalone cluster, whose executors have neither this package nor what it needs."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest

from benchmarks.harness.waiting import wait_until
from benchmarks.sections.cluster import EXECUTORS, describe_landings, measure_landings, target
from benchmarks.servers.replay_client import replay_server
from benchmarks.servers.replay_streams import StreamSpec
from benchmarks.servers.spark_cluster import StandaloneCluster
from benchmarks.servers.standalone_cluster import Cluster
from kinesis_assets.spark.local_settings import PYTHON
from support.bench import Bench
from support.skipping import give_up
from support.tables import numbers, put_numbers


@pytest.fixture
def full_disk(tmp_path):
    """A folder on a disk that has no room for the packages."""
    folder = tmp_path / "full"
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True)
    except (OSError, subprocess.CalledProcessError):
        give_up("only root may mount a file system")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.thorough
def test_a_session_sends_modules_of_its_own(cluster, shout):
    assert shout(cluster.config) == "7!"


@pytest.fixture
def landed(kinesis, settings, stream, table):
    """A raw table with the numbers 0, 1 and 2."""
    put_numbers(kinesis, stream, 3)
    Bench(kinesis, settings, stream, table).run()


@pytest.mark.thorough
@pytest.mark.usefixtures("landed")
def test_a_derivation_on_executors_without_the_packages_is_refused(cluster, derive, tmp_path):
    code, errors = derive(spark_config=cluster.config)
    assert code == 1
    (error,) = [line for line in errors.splitlines() if line.startswith(f"table {tmp_path / 'numbers'}: ")]
    assert ": on an executor (" in error
    assert "No module named" in error
    assert "set python_environment" in error
    assert not (tmp_path / "numbers" / "_delta_log").exists()


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_speculative_tasks_write_no_record_twice(
    cluster, python_with_packages, run, kinesis, stream, faults, tmp_path
):
    put_numbers(kinesis, stream, 400, shards=2)
    faults.page_size(20, stream=stream)
    slow = kinesis.list_shards(StreamName=stream)["Shards"][-1]["ShardId"]  # not the one that the check reads
    # The first task waits within the shard for as long as Spark needs to start the second one.
    second_task = partial(wait_until, lambda: faults.count("GetShardIterator", slow) > 1)
    faults.before("GetRecords", second_task, stream=stream, shard_id=slow, after=2)
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


def test_executors_land_what_the_subscriptions_of_the_driver_have_received(
    cluster, python_with_packages, land_by_consumer, kinesis, stream, faults, tmp_path
):
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    # Until the first event of a subscription has arrived, GetRecords may read its shard.
    faults.before("PutRecords", faults.calls.clear)
    code, errors = land_by_consumer(400, cluster.config | {PYTHON: python_with_packages})
    assert code == 0, errors
    assert {call.operation for call in faults.calls} & {"GetRecords", "SubscribeToShard"} == set()
    assert numbers(tmp_path / "table") == list(range(400))


@pytest.mark.thorough
def test_an_executor_without_disk_space_leaves_its_work_to_the_others(
    bare_python, packed, run, kinesis, stream, full_disk, tmp_path
):
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / "work-1").symlink_to(full_disk)
    put_numbers(kinesis, stream, 400, shards=2)
    with StandaloneCluster(folder, bare_python) as cluster:
        code, events, errors = run(spark_config=cluster.config, python_environment=str(packed))
        # An executor may have no space for its log either.
        logs = [log.read_text() for log in [*full_disk.glob("*/*/stderr"), *folder.glob("worker-*.log")]]
    assert (code, len(events)) == (0, 2), errors
    assert any("No space left on device" in log for log in logs)
    assert numbers(tmp_path / "table") == list(range(400))


@pytest.mark.thorough
def test_landings_are_measured_beside_those_of_a_local_session(cluster, packed, python_with_packages):
    place = Cluster(cluster.config, cluster.pids, packed, Path(python_with_packages))
    few = StreamSpec("few", shards=8, pages=1, page_records=10)
    with replay_server() as server:
        landings = [measure_landings(server, place, EXECUTORS, few, rounds=1)]
    assert target(landings).met is not None
    assert "| 2 | cluster |" in describe_landings(landings)
