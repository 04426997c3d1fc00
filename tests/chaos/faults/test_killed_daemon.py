"""Dagster's daemon is killed while one of its runs pauses before its commit, and is started again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
import yaml

import kinesis_assets
from benchmarks.harness.waiting import SECONDS, wait_until
from chaos.faults.site.fault_points import Fault
from support.pipeline import SPARK_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.faults.bench import FaultBench

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc")

HERE = Path(__file__).parent


class Daemons:
    """Successive daemons of one instance, with the same fault in all their child processes.

    Attributes:
        log: The file to which the daemons print.
    """

    def __init__(self, bench: FaultBench, fault: Fault, home: Path) -> None:
        home.mkdir()
        self._settings = home / "dagster.yaml"
        shutil.copy(Path(kinesis_assets.__file__).parents[1] / "dagster.yaml", self._settings)
        self._marker = uuid4().hex
        self.log = home / "log"
        stream = {
            "stream": bench.stream,
            "table": bench.table.uri,
            "endpoint_url": bench.settings.endpoint_url,
            "spark_config": SPARK_CONFIG,
        }
        self._environment = fault.environment() | {
            "DAGSTER_HOME": str(home),
            "SENSED_STREAM": json.dumps(stream),
            "KINESIS_ASSETS_TEST": self._marker,
        }

    def give_up_runs_after(self, seconds: int) -> None:
        """Shorten the setting of dagster.yaml after which a run without a worker is failed."""
        settings = yaml.safe_load(self._settings.read_text())
        monitoring = settings["run_monitoring"]
        assert monitoring["max_runtime_seconds"] > seconds, "no run is ever given up"
        monitoring |= {"max_runtime_seconds": seconds, "poll_interval_seconds": 1}
        self._settings.write_text(yaml.safe_dump(settings))

    def start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dagster._daemon", "run", "-f", str(HERE / "sensed_stream.py")],
                env=os.environ | self._environment,
                stdout=log,
                stderr=log,
            )

    def end_all(self) -> None:
        """Kill every descendant process, as when a machine loses power."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                if self._marker.encode() in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)


@pytest.fixture
def fault(tmp_path: Path) -> Fault:
    return Fault(str(tmp_path), "commit", action="stop")


@pytest.fixture
def daemons(bench: FaultBench, fault: Fault, tmp_path: Path) -> Iterator[Daemons]:
    daemons = Daemons(bench, fault, tmp_path / "dagster")
    yield daemons
    daemons.end_all()


def test_a_restarted_daemon_continues(bench: FaultBench, fault: Fault, daemons: Daemons) -> None:
    bench.create(2)
    bench.put_many(60)
    daemon = daemons.start()
    wait_until(lambda: fault.happened, failure=daemons.log)
    assert bench.stored == []
    daemon.kill()
    daemon.wait(SECONDS)
    (run,) = {pid for pid, moment, point in fault.passed if (moment, point) == ("before", "commit")}
    bench.put_many(40)
    again = daemons.start()
    os.kill(run, signal.SIGCONT)
    wait_until(lambda: len(bench.stored) == 100, failure=daemons.log)
    assert again.poll() is None
    bench.assert_exactly_once()
    again.kill()
    again.wait(SECONDS)


@pytest.mark.thorough
def test_a_restarted_daemon_continues_after_all_processes_were_killed(
    bench: FaultBench, fault: Fault, daemons: Daemons
) -> None:
    """Dagster alone cannot detect that such a run is dead. Its shards are not requested before it ends."""
    daemons.give_up_runs_after(40)
    bench.create(2)
    bench.put_many(60)
    daemon = daemons.start()
    wait_until(lambda: fault.happened, failure=daemons.log)
    daemons.end_all()
    daemon.wait(SECONDS)
    bench.put_many(40)
    again = daemons.start()
    wait_until(lambda: len(bench.stored) == 100, failure=daemons.log)
    bench.assert_exactly_once()
    again.kill()
    again.wait(SECONDS)
