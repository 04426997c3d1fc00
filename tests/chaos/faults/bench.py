"""A bench whose runs meet faults, in this process or in processes that die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness.waiting import SECONDS, wait_until
from chaos.faults.forked import PROGRAMS, Forked
from kinesis_assets.errors import TableMissing
from support.formats import FORMAT, iceberg_of
from support.iceberg.table_readers import with_duckdb
from support.pipeline import Pipeline

if TYPE_CHECKING:
    from chaos.faults.site.fault_points import Fault

HERE = Path(__file__).parent


@dataclass
class FaultBench(Pipeline):
    """A bench with runs in other processes that meet a fault.

    Attributes:
        folder: The folder in which the processes record what happened.
    """

    folder: Path = field(default_factory=Path)
    _processes: list[subprocess.Popen[str] | Forked] = field(default_factory=list)

    @property
    def has_positions(self) -> bool:
        """Whether the table has positions of the stream."""
        try:
            return self.table.snapshot().positions(self.client.describe().identity) is not None
        except TableMissing:
            return False

    def assert_next_run_recovers(self) -> None:
        """Assert that one ordinary run leaves each record exactly once, without any manual step."""
        assert self.run().errors == {}
        self.assert_rows_equal_positions()
        self.assert_exactly_once()
        self.assert_others_read_it()

    def assert_others_read_it(self) -> None:
        """Assert that DuckDB finds the rows of an Iceberg table too; Delta tables have tests of their own."""
        if FORMAT == "iceberg":
            columns = ("shard_id", "sequence_number", "data")
            rows = with_duckdb(iceberg_of(self.table), columns, None)
            assert Counter(tuple(row.values()) for row in rows) == Counter(self.stored)

    # Runs that meet a fault

    def start(self, fault: Fault, *shard_ids: str, program: str = "one_run.py", **arguments: Any) -> Process:
        """Start a run, or another program, in a process of its own."""
        folder = self.folder / f"process-{len(self._processes)}"
        folder.mkdir(parents=True)
        fault = replace(fault, folder=str(folder))
        stream = {
            "stream": self.stream,
            "table": self.table.uri,
            "endpoint_url": self.settings.endpoint_url,
            "shards": shard_ids,
        }
        environment = os.environ | fault.environment() | arguments.pop("environment", {})
        process = (
            Forked(program, stream | arguments, environment, folder)
            if program in PROGRAMS
            else subprocess.Popen(
                [sys.executable, str(HERE / program), json.dumps(stream | arguments)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        self._processes.append(process)
        return Process(process, fault)

    def run_with_fault(self, fault: Fault, *shard_ids: str, **arguments: Any) -> Process:
        """Execute a run in a process of its own, and assert that the fault happened."""
        process = self.start(fault, *shard_ids, **arguments)
        process.wait()
        assert process.fault.happened, process.err
        return process

    def end(self) -> None:
        """Kill the processes that a failed test has left."""
        for process in self._processes:
            if process.returncode is None:
                process.kill()
                process.communicate()


@dataclass
class Process:
    """A run in a process of its own."""

    process: subprocess.Popen[str] | subprocess.CompletedProcess[str] | Forked
    fault: Fault
    out: str = ""
    err: str = ""

    @property
    def code(self) -> int:
        assert self.process.returncode is not None
        return self.process.returncode

    @property
    def report(self) -> dict[str, Any]:
        """The report that it printed at its end."""
        assert self.code == 0, self.err
        report: dict[str, Any] = json.loads(self.out)
        return report

    def wait(self) -> Process:
        self.out, self.err = self.process.communicate(timeout=SECONDS)
        return self

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait_until_stopped(self) -> None:
        """Wait until its fault has stopped it."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", interval=0.01)
