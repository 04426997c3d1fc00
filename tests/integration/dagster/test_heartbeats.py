"""Heartbeats of real runs: one that ends, and one that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kinesis_assets.dagster.names import raw_key
from kinesis_assets.dagster.run_liveness import SECONDS_SILENT
from kinesis_assets.table.heartbeat import ENDED, HEARTBEATS_FOLDER, heartbeats
from support.daemon import Daemon, Status, Ticking

A = f"shardId-{0:012d}"


@pytest.mark.usefixtures("spark")
def test_a_run_says_that_its_heartbeat_has_ended(source, project, instance):
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
    place = ["--table", str(tmp_path / "table"), "--endpoint-url", str(settings.endpoint_url)]
    with subprocess.Popen(
        [Path(sys.prefix, "bin", "kinesis-assets"), "run", "--stream", source.name, *place],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            deadline = time.monotonic() + 120
            while faults.count("GetRecords") < 3:
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.1)  # between two looks
            (beating,) = Path(tmp_path, "table", HEARTBEATS_FOLDER).iterdir()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    (run,) = home.get_runs()
    assert (run.status, run.run_id) == (Status.STARTED, beating.name)

    ticking = Ticking(Daemon(project, home))
    assert ticking.after(0) == []
    assert ticking.after(SECONDS_SILENT) == [(A, A)]
    assert home.get_materialized_partitions(raw_key(source.name)) == set()
