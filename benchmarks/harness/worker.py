"""Processes that are measured while they serve requests; see `worker_protocol` for their side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness.cpu import Usage, tree_cpu
from benchmarks.harness.paths import ROOT
from benchmarks.harness.units import GB
from benchmarks.harness.worker_protocol import ReadRequest, ReadResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class WorkerFailed(Exception):
    """A measured process ended, or broke the protocol. The message contains the last line that it wrote."""


@dataclass(frozen=True)
class MeasuredRead:
    """One request that a worker has served.

    Attributes:
        usage: From "go" to the result.
        read: What the worker reports to have read.
        written: Bytes of the files in the request's folder, except hidden ones.
        codecs: Compression codecs of the Parquet files among them.
    """

    usage: Usage
    read: ReadResult
    written: int
    codecs: frozenset[str]

    @property
    def cpu_per_gb(self) -> float:
        """CPU seconds for 10^9 bytes of record data."""
        return self.usage.cpu / self.read.bytes * GB

    @property
    def records_per_second(self) -> float:
        """Records for each second of wall-clock time."""
        return self.read.records / self.usage.wall


@dataclass(frozen=True)
class Command:
    """The command of a worker.

    Attributes:
        name: Its name in tables.
        argv: The command line, run in the root of the project.
        environment: Environment variables to set in addition to those of this process.
        servers: Ids of other processes whose CPU, with that of their descendants, is that of the worker.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    servers: Sequence[int] = ()

    @classmethod
    def module(
        cls, name: str, *argv: str, python: str = sys.executable, servers: Sequence[int] = ()
    ) -> Command:
        """Return the command that runs a module of this project with a Python interpreter."""
        return cls(name, [python, "-m", *argv], servers=servers)


class Worker:
    """A running worker.

    Attributes:
        start_up: From its start until it was ready (imports, sessions); None before that.
    """

    def __init__(self, command: Command, errors: Path) -> None:
        self.command = command
        self._errors = errors
        self.start_up: Usage | None = None
        self._cpu_before = sum(map(tree_cpu, command.servers))
        self._started = time.monotonic()
        with errors.open("wb") as stderr:
            self._process = subprocess.Popen(
                command.argv,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), **command.environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )

    def wait_until_ready(self) -> None:
        """Wait until the worker accepts requests.

        Raises:
            WorkerFailed: It ended before.
        """
        self._receive("ready")
        self.start_up = Usage(self._cpu() - self._cpu_before, time.monotonic() - self._started)

    def read(self, url: str, stream: str, records: int) -> MeasuredRead:
        """Have the worker read a stream, and measure it.

        Raises:
            WorkerFailed: It failed, or read another number of records.
        """
        with tempfile.TemporaryDirectory() as folder:
            self._send(json.dumps(asdict(ReadRequest(url, stream, records, folder))))
            self._receive("prepared")
            cpu, started = self._cpu(), time.monotonic()
            self._send("go")
            read = ReadResult(**self._receive())
            usage = Usage(self._cpu() - cpu, time.monotonic() - started)
            if read.records != records:
                raise WorkerFailed(f"{self.command.name} read {read.records} of {records} records")
            found = (path.relative_to(folder) for path in Path(folder).rglob("*") if path.is_file())
            files = [Path(folder, path) for path in found if not any(p.startswith(".") for p in path.parts)]
            return MeasuredRead(usage, read, sum(path.stat().st_size for path in files), _codecs(files))

    def close(self) -> None:
        """Close the worker's standard input, and wait until it has ended."""
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _cpu(self) -> float:
        return sum(map(tree_cpu, [self._process.pid, *self.command.servers]))

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerFailed(self._last_error()) from None

    def _receive(self, expected: str | None = None) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerFailed(self._last_error())
        message = json.loads(line)
        if expected is not None and message != expected:
            raise WorkerFailed(f"{self.command.name} replied {message!r} instead of {expected!r}")
        return message

    def _last_error(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)  # it may still be writing the reason
        lines = self._errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"{self.command.name} ended: {lines[-1][:300] if lines else 'it wrote no error'}"


@contextmanager
def running(command: Command) -> Iterator[Worker]:
    """Run a worker until the end of the block.

    Raises:
        WorkerFailed: It ended before it was ready.
    """
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(command, Path(folder, "stderr"))
        try:
            worker.wait_until_ready()
            yield worker
        finally:
            worker.close()


def _codecs(files: Sequence[Path]) -> frozenset[str]:
    import pyarrow.parquet as pq  # noqa: PLC0415  # the rest of the module does not need it

    parquet_files = [path for path in files if path.suffix == ".parquet"]
    return frozenset(
        str(pq.ParquetFile(path).metadata.row_group(0).column(0).compression) for path in parquet_files
    )
