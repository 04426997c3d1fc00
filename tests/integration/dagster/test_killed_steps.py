"""Runs of Dagster's multiprocess executor, killed with all their processes, without run monitoring."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from deltalake import DeltaTable

from kinesis_assets.dagster.names import raw_key
from kinesis_assets.dagster.run_liveness import SECONDS_SILENT, SECONDS_TO_PLAN
from kinesis_assets.table.heartbeat import heartbeats
from support.daemon import PARTITION, Daemon, Status, Ticking

if TYPE_CHECKING:
    from collections.abc import Iterator

A = f"shardId-{0:012d}"
SECONDS = 240.0
"""Longest wait for the processes of a run to begin."""


@contextmanager
def running(daemon: Daemon, shard_id: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run in processes of its own, one for its step; all of them are killed at the end."""
    with daemon.project.open_stream() as opened:
        stream = {
            "stream": opened.name,
            "table": opened.settings.table,
            "endpoint_url": opened.kinesis.endpoint_url,
        }
    program = [sys.executable, "-m", "dagster", "asset", "materialize"]
    chosen = ["--select", raw_key(opened.name).to_user_string(), "--partition", shard_id]
    with log.open("ab") as file:
        process = subprocess.Popen(
            [*program, "-f", str(Path(__file__).parent / "several_processes.py"), *chosen],
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
    ("operation", "silent_for"),
    [("ListShards", SECONDS_TO_PLAN), ("GetRecords", SECONDS_SILENT)],
    ids=["while it plans", "while it reads"],
)
def test_a_step_that_was_killed_with_its_run_is_ignored_and_the_next_run_lands_its_records_once(
    source, project, home, faults, tmp_path, operation, silent_for
):
    source.create(1)
    numbers = source.put(A, 30)
    daemon = Daemon(project, home)
    daemon.add_partitions(A)
    faults.stall(operation)
    before = faults.count(operation)
    log = tmp_path / "log"
    with running(daemon, A, log) as process:
        deadline = time.monotonic() + SECONDS
        while faults.count(operation) == before:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)  # between two looks
    faults.clear()
    (run,) = home.get_runs()
    assert run.status is Status.STARTED
    launched = home.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_WORKER_STARTED)
    assert launched.records, "the step had no process of its own"
    with project.open_stream() as opened:
        beating = list(heartbeats(opened.table))
    assert beating == ([run.run_id] if operation == "GetRecords" else [])

    ticking = Ticking(daemon)
    assert ticking.after(0) == []
    assert ticking.after(silent_for) == [(A, A)]
    # Nothing has ended the run for Dagster.
    assert home.get_run_by_id(run.run_id).status is Status.STARTED
    (facts,) = project.run(home, {PARTITION: A})
    assert (facts["state"], facts["rows"]) == ("committed", 30)
    rows = DeltaTable(opened.settings.table).to_pyarrow_table(columns=["sequence_number"])
    assert sorted(rows["sequence_number"].to_pylist()) == sorted(numbers)
