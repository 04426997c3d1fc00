"""Runs of Dagster's multiprocess executor whose processes are all killed, without run monitoring."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from deltalake import DeltaTable

from benchmarks.harness.waiting import wait_until
from kinesis_assets.dagster.sensor.sensor_runs import SECONDS_SILENT, SECONDS_TO_PLAN
from kinesis_assets.table.run_files.heartbeat import heartbeats
from support.daemon import PARTITION, Daemon, SensorClock, Status
from support.stream_names import raw_key

if TYPE_CHECKING:
    from collections.abc import Iterator

A = f"shardId-{0:012d}"


@contextmanager
def running(daemon: Daemon, shard_id: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a run whose step has a process of its own, and kill all processes at the end."""
    with daemon.project.open_stream() as opened:
        stream = {
            "stream": opened.name,
            "table": opened.settings.table,
            "endpoint_url": opened.kinesis.endpoint_url,
        }
    program = [sys.executable, "-m", "dagster", "asset", "materialize"]
    options = ["--select", raw_key(opened.name).to_user_string(), "--partition", shard_id]
    with log.open("ab") as file:
        process = subprocess.Popen(
            [*program, "-f", str(Path(__file__).parent / "several_processes.py"), *options],
            env=os.environ | {"STREAM_IN_PROCESSES": json.dumps(stream)},
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("operation", "silence"),
    [
        pytest.param("ListShards", SECONDS_TO_PLAN, id="while it plans", marks=pytest.mark.thorough),
        pytest.param("GetRecords", SECONDS_SILENT, id="while it reads"),
    ],
)
def test_the_shards_of_a_killed_run_are_requested_again_and_read_exactly_once(
    source, project, home, faults, tmp_path, operation, silence
):
    source.create(1)
    numbers = source.put(A, 30)
    daemon = Daemon(project, home)
    daemon.add_partitions(A)
    faults.stall(operation)
    before = faults.count(operation)
    log = tmp_path / "log"
    with running(daemon, A, log) as process:
        wait_until(lambda: faults.count(operation) > before, process, failure=log)
    faults.clear()
    (run,) = home.get_runs()
    assert run.status is Status.STARTED
    launched = home.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_WORKER_STARTED)
    assert launched.records, "the step had no process of its own"
    with project.open_stream() as opened:
        running_heartbeats = list(heartbeats(opened.table))
    assert running_heartbeats == ([run.run_id] if operation == "GetRecords" else [])

    clock = SensorClock(daemon)
    assert clock.ranges_after(0) == []
    assert clock.ranges_after(silence) == [(A, A)]
    # Dagster does not know that the run has ended.
    assert home.get_run_by_id(run.run_id).status is Status.STARTED
    (facts,) = project.run(home, {PARTITION: A})
    assert (facts["state"], facts["rows"]) == ("committed", 30)
    rows = DeltaTable(opened.settings.table).to_pyarrow_table(columns=["sequence_number"])
    assert sorted(rows["sequence_number"].to_pylist()) == sorted(numbers)
