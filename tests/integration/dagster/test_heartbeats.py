"""Heartbeats of a run that ends, and of one that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness.waiting import wait_until
from kinesis_assets.dagster.sensor.sensor_runs import SECONDS_SILENT
from kinesis_assets.table.run_files.heartbeat import ENDED, HEARTBEATS_FOLDER, heartbeats
from support.daemon import Daemon, SensorClock, Status
from support.stream_names import raw_key

A = f"shardId-{0:012d}"


@pytest.mark.usefixtures("spark")
def test_the_heartbeat_of_a_run_ends_with_it(source, project, instance):
    source.create(1)
    assert list(project.materialize(instance, [A]))
    (run,) = instance.get_runs()
    with project.open_stream() as opened:
        assert heartbeats(opened.table) == {run.run_id: ENDED}


def test_the_shards_of_a_killed_command_are_requested_again(
    source, settings, project, home, tmp_path, faults
):
    source.create(1)
    source.put(A, 300)
    faults.page_size(1)
    options = ["--table", str(tmp_path / "table"), "--endpoint-url", str(settings.endpoint_url)]
    with subprocess.Popen(
        [Path(sys.prefix, "bin", "kinesis-assets"), "run", "--stream", source.name, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            wait_until(lambda: faults.count("GetRecords") >= 3, process)
            (heartbeat,) = Path(tmp_path, "table", HEARTBEATS_FOLDER).iterdir()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    (run,) = home.get_runs()
    assert (run.status, run.run_id) == (Status.STARTED, heartbeat.name)

    clock = SensorClock(Daemon(project, home))
    assert clock.ranges_after(0) == []
    assert clock.ranges_after(SECONDS_SILENT) == [(A, A)]
    assert home.get_materialized_partitions(raw_key(source.name)) == set()
