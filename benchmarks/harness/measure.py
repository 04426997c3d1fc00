"""What a process and all its descendants cost: CPU seconds between marks, rounds, and their spread.

CPU is read from /proc, so it is Linux that can be measured on: user and system time of every process of the
tree, and of those that have ended and were waited for. It counts in steps of 10 ms.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import host_memory
from benchmarks.harness.worker_protocol import Order, Read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GB = 1e9
ROOT = Path(__file__).parent.parent.parent
_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _CHILDREN_SYSTEM = 1, 11, 14
"""Fields of /proc/<pid>/stat, counted after the command's name."""


class ChildFailed(Exception):
    """A measured process ended, or broke the marks; the message says what it wrote last."""


def tree_cpu(pid: int) -> float:
    """CPU seconds of a process and all its descendants so far."""
    stats: dict[int, list[str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text(encoding="latin-1")
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
            stats[int(folder.name)] = text.rpartition(")")[2].split()
    children: dict[int, list[int]] = {}
    for each, fields in stats.items():
        children.setdefault(int(fields[_PARENT]), []).append(each)
    ticks, pending = 0, [pid]
    while pending:
        each = pending.pop()
        pending += children.get(each, [])
        if each in stats:
            ticks += sum(map(int, stats[each][_USER : _CHILDREN_SYSTEM + 1]))
    return ticks / _TICKS


@dataclass(frozen=True)
class Usage:
    """Seconds: CPU of a process tree, and on the wall."""

    cpu: float
    wall: float


@dataclass(frozen=True)
class Work:
    """One order, done.

    Attributes:
        usage: From "go" to the result.
        read: What the process says that it read.
        written: Bytes of the files it left in the order's folder, hidden ones aside.
        codecs: Of the Parquet files among them.
    """

    usage: Usage
    read: Read
    written: int
    codecs: frozenset[str]

    @property
    def cpu_per_gb(self) -> float:
        """CPU seconds for 10^9 bytes of record data."""
        return self.usage.cpu / self.read.bytes * GB

    @property
    def records_per_second(self) -> float:
        """On the wall."""
        return self.read.records / self.usage.wall


@dataclass(frozen=True)
class Command:
    """A process to be measured, which takes orders; see `marks`.

    Attributes:
        name: What it is called in tables.
        argv: How it is started, in the root of the project.
        environment: What its environment has beside this process' own.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def module(cls, name: str, *argv: str, python: str = sys.executable) -> Command:
        """A module of this project, in the environment of a Python."""
        return cls(name, [python, "-m", *argv])


class Child:
    """A running command.

    Attributes:
        command: Which.
        startup: From its start until it was ready: imports, sessions; None before that.
    """

    def __init__(self, command: Command, errors: Path) -> None:
        self.command = command
        self._errors = errors
        self.startup: Usage | None = None
        self._began = time.monotonic()
        with errors.open("wb") as told:
            self._process = subprocess.Popen(
                command.argv,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), **command.environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=told,
                text=True,
            )

    def until_ready(self) -> None:
        """Wait until it takes orders.

        Raises:
            ChildFailed: It ended before.
        """
        self._told("ready")
        self.startup = Usage(tree_cpu(self._process.pid), time.monotonic() - self._began)

    def work(self, url: str, stream: str, records: int) -> Work:
        """Let it do one order.

        Raises:
            ChildFailed: It did not.
        """
        with tempfile.TemporaryDirectory() as folder:
            self._say(json.dumps(asdict(Order(url, stream, records, folder))))
            self._told("prepared")
            cpu, began = tree_cpu(self._process.pid), time.monotonic()
            self._say("go")
            read = Read(**self._told())
            usage = Usage(tree_cpu(self._process.pid) - cpu, time.monotonic() - began)
            if read.records != records:
                raise ChildFailed(f"{self.command.name} read {read.records} of {records} records")
            found = (path.relative_to(folder) for path in Path(folder).rglob("*") if path.is_file())
            files = [Path(folder, path) for path in found if not any(p.startswith(".") for p in path.parts)]
            return Work(usage, read, sum(path.stat().st_size for path in files), _codecs(files))

    def end(self) -> None:
        """No more orders: wait until it has ended, for so long as is decent."""
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildFailed(self._last_words()) from None

    def _told(self, expected: str | None = None) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildFailed(self._last_words())
        told = json.loads(line)
        if expected is not None and told != expected:
            raise ChildFailed(f"{self.command.name} said {told!r} for {expected!r}")
        return told

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)  # it may still be telling why
        lines = self._errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"{self.command.name} ended: {lines[-1][:300] if lines else 'without a word'}"


@contextmanager
def started(command: Command) -> Iterator[Child]:
    """A running command until the end of the block.

    Raises:
        ChildFailed: It ended before it was ready.
    """
    with tempfile.TemporaryDirectory() as folder:
        child = Child(command, Path(folder, "stderr"))
        try:
            child.until_ready()
            yield child
        finally:
            child.end()


@dataclass(frozen=True)
class Spread:
    """The median of some rounds, with the lowest and the highest of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """That of some values, at least one."""
        return cls(statistics.median(values), min(values), max(values))

    def text(self, digits: int = 1) -> str:
        """As it stands in tables; of one round, or of rounds that read alike, only the value."""
        median, low, high = (f"{value:,.{digits}f}" for value in (self.median, self.low, self.high))
        return median if low == high else f"{median} ({low} to {high})"


def of_rounds(rounds: int) -> str:
    """What figures of so many rounds are, as it stands in texts."""
    return "One round" if rounds == 1 else f"Median of {rounds} rounds, with the lowest and the highest"


@dataclass(frozen=True)
class Measured:
    """One command's rounds.

    Attributes:
        name: The command's.
        startup: Of its process, paid once and in no round.
        rounds: In their order.
    """

    name: str
    startup: Usage
    rounds: Sequence[Work]

    @property
    def cpu_per_gb(self) -> Spread:
        """CPU seconds for 10^9 bytes of record data."""
        return Spread.of([work.cpu_per_gb for work in self.rounds])

    @property
    def records_per_second(self) -> Spread:
        """On the wall."""
        return Spread.of([work.records_per_second for work in self.rounds])


@dataclass(frozen=True)
class Input:
    """A stream to be read, by all commands alike."""

    url: str
    stream: str
    records: int
    data_bytes: int


def interleaved(
    commands: Sequence[Command], warm_up: Input, given: Mapping[str, Input], rounds: int
) -> tuple[list[Measured], dict[str, str]]:
    """Let each command read its stream once in each round, in turn, all in processes that stay.

    Args:
        commands: Which.
        warm_up: A small stream that each reads first and before each round, uncounted: JITs, connections,
            lazy imports, and workers that end when they have been idle for a minute.
        given: By command's name, what it reads.
        rounds: How often.

    Returns:
        The measures, in the order of the commands, and by name why a command has none.
    """
    failed: dict[str, str] = {}
    children: dict[str, Child] = {}
    works: dict[str, list[Work]] = {}
    with ExitStack() as stack:
        for command in commands:
            try:
                child = stack.enter_context(started(command))
                child.work(warm_up.url, warm_up.stream, warm_up.records)
            except ChildFailed as error:
                failed[command.name] = str(error)
            else:
                children[command.name] = child
        for _ in range(rounds):
            for name, child in children.items():
                if name not in failed:
                    try:
                        child.work(warm_up.url, warm_up.stream, warm_up.records)
                        host_memory.at_hand(given[name].data_bytes)
                        work = child.work(given[name].url, given[name].stream, given[name].records)
                    except ChildFailed as error:
                        failed[name] = str(error)
                    else:
                        works.setdefault(name, []).append(work)
        measured = [
            Measured(name, child.startup, works[name])
            for name, child in children.items()
            if name not in failed and child.startup is not None
        ]
    return measured, failed


def machine() -> str:
    """What it was measured on, and how busy that was."""
    facts = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(": ")[2] for line in facts if line.startswith("model name")), "unknown CPU")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{os.cpu_count()} cores of {platform.machine()} ({model}), {memory:.0f} GiB, {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}; load averages at the start {load}"
    )


def _codecs(files: Sequence[Path]) -> frozenset[str]:
    import pyarrow.parquet as pq  # noqa: PLC0415  # the rest of the module needs it not

    of_parquet = [path for path in files if path.suffix == ".parquet"]
    return frozenset(
        str(pq.ParquetFile(path).metadata.row_group(0).column(0).compression) for path in of_parquet
    )
