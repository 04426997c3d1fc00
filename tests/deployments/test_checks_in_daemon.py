"""Dagster's daemon evaluates the checks: they turn red and green without a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from benchmarks.harness.waiting import SECONDS, wait_until
from kinesis_assets.dagster.settings.check_settings import SCANNING
from kinesis_assets.ingest.plan import plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import Bounds
from support.forged_positions import forge_shards
from support.raw_checks import CHECKS
from support.stream_names import raw_key
from support.two_shards import FIRST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.dagster.stream import OpenStream

DEFINITIONS = """
from kinesis_assets import build_kinesis_stream
defs = build_kinesis_stream(
    {stream!r},
    table={table!r},
    endpoint_url={endpoint!r},
    sensor_interval_seconds=0,
    checks={{"lag": {{"max_seconds": 5, "severity": "ERROR"}}}},
)
"""
SETTINGS = """
telemetry: {enabled: false}
concurrency: {runs: {max_concurrent_runs: 0}} # the runs that the sensor requests stay in the queue
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the instance, whose databases exist: two processes at once cannot create them."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "dagster.yaml").write_text(SETTINGS)
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    with dg.DagsterInstance.get():
        return folder


@pytest.fixture
def opened(source, project, home) -> Iterator[OpenStream]:
    """The stream with ten records, of which its only run so far has read three."""
    del home
    source.create(1)
    source.put(FIRST, 10)
    with project.open_stream() as opened:
        read(opened, 3)
        yield opened


@pytest.fixture
def daemon(project, tmp_path, settings) -> Iterator[subprocess.Popen]:
    """Dagster's daemon, in a process of its own."""
    code = tmp_path / "definitions_of_the_test.py"
    values = {"stream": project.stream, "table": str(tmp_path / "table"), "endpoint": settings.endpoint_url}
    code.write_text(DEFINITIONS.format(**values))
    log = tmp_path / "daemon.log"
    program = [str(Path(sys.executable).parent / "dagster-daemon"), "run", "-f", str(code)]
    with log.open("w") as output:
        process = subprocess.Popen(program, env=os.environ, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=SECONDS)


def read(opened, records: int | None = None) -> None:
    """Read the next records of the shard, as a run does, but without Dagster."""
    plan = plan_run(opened.client, opened.table, asked=[FIRST], policy=opened.policy)
    if records is not None:
        plan = plan.narrowed(Bounds(max_records=records))
    assert not execute_run(land_group, opened.client, opened.table, plan).errors


def forge_a_break(opened) -> None:
    """Commit a position that no run would commit."""
    now = opened.table.snapshot().positions(opened.client.describe().identity)
    forge_shards(opened.table, now, FIRST, position=Position.after("9" * 56))


def test_the_daemon_turns_checks_red_and_green_without_a_run(opened, daemon, project, tmp_path, faults):
    names = {name for name, _ in CHECKS.defined} - SCANNING
    keys = [dg.AssetCheckKey(raw_key(project.stream), name) for name in names]
    log = tmp_path / "daemon.log"

    with dg.DagsterInstance.get() as instance:

        def results() -> dict[str, bool]:
            storage = instance.event_log_storage
            found = storage.get_latest_asset_check_execution_by_key(keys)
            assert {record.run_id for record in found.values()} <= {""}
            return {key.name: record.evaluation.passed for key, record in found.items()}

        # Seven records are unread, and grow older.
        red = {name: name != "lag" for name in names}
        wait_until(lambda: results() == red, daemon, failure=log)
        read(opened)
        wait_until(lambda: all(results().values()), daemon, failure=log)
        faults.fail("ListShards", status=400, code="AccessDeniedException")  # each tick fails
        wait_until(lambda: not results()["lag"], daemon, failure=log)
        faults.clear()
        forge_a_break(opened)
        wait_until(lambda: not results()["continuity"], daemon, failure=log)
        finished = [run for run in instance.get_runs() if run.status is not dg.DagsterRunStatus.QUEUED]
        assert finished == []
