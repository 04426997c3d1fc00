"""The workers that derive tables, ours and that of delta-spark, and the rounds in which they are measured."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from benchmarks.data.derivations import DERIVED
from benchmarks.harness.host_memory import reclaim_from_host
from benchmarks.harness.peer_environments import DELTA, PeerUnavailable, delta_python, version_of
from benchmarks.harness.section import Target
from benchmarks.harness.spread import Spread
from benchmarks.harness.worker import Command, WorkerFailed, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow.compute as pc

    from benchmarks.harness.cpu import Usage
    from benchmarks.harness.section import Goal
    from benchmarks.harness.worker import Worker

OURS, PEER = "kinesis_assets", DELTA


@dataclass(frozen=True)
class Job:
    """A piece of work that is measured.

    Attributes:
        kind: Its name, see `benchmarks.data.derivations`.
        rows: Number of rows that it adds.
        bytes: Approximate size of the files that it reads and writes.
        prepare: Creates the tables for the worker with a name in a new folder.
        column: A column of the resulting table.
        added: The rows of the resulting table that it added, by this column; None for all.
    """

    kind: str
    rows: int
    bytes: int
    prepare: Callable[[str, Path], None]
    column: str
    added: pc.Expression | None = None


@dataclass(frozen=True)
class Rounds:
    """The usage of each round of a job, by worker; that of delta-spark is missing if it was not measured."""

    usages: Mapping[str, Sequence[Usage]]

    def cpu(self, name: str) -> Spread | None:
        """Return the CPU seconds of a worker."""
        usages = self.usages.get(name)
        return None if usages is None else Spread.of([usage.cpu for usage in usages])

    def wall(self, name: str) -> Spread:
        """Return the seconds of wall-clock time of a worker that was measured."""
        return Spread.of([usage.wall for usage in self.usages[name]])

    @property
    def count(self) -> int:
        """Number of rounds."""
        return len(self.usages[OURS])

    @property
    def ratio(self) -> Spread | None:
        """CPU of our worker relative to that of delta-spark, round by round."""
        if PEER not in self.usages:
            return None
        pairs = zip(self.usages[OURS], self.usages[PEER], strict=True)
        return Spread.of([ours.cpu / theirs.cpu for ours, theirs in pairs])

    def target(self, goal: Goal, limit: float, missing: str, note: str = "") -> Target:
        """Return the result for a goal whose bound is a ratio.

        Args:
            limit: Its bound.
            missing: Why delta-spark was not measured.
            note: Follows the measured ratio.
        """
        if self.ratio is None:
            return Target(goal, f"not measured: {missing}", None)
        return Target(goal, f"{self.ratio.text(2)}x{note}", met=self.ratio.median <= limit)


@dataclass
class Workers:
    """Running workers.

    Attributes:
        running: By name. A worker that fails is removed, unless it is ours.
        missing: Why delta-spark is not measured; empty if it is.
    """

    running: dict[str, Worker] = field(default_factory=dict)
    missing: str = ""

    def measure(self, job: Job, rounds: int) -> Rounds:
        """Let each worker do a job in each round, one after the other, after a round as a warm-up.

        Raises:
            WorkerFailed: Ours failed.
        """
        usages: dict[str, list[Usage]] = {}
        for number in range(rounds + 1):
            for name in list(self.running):
                try:
                    usage = self._do(name, job)
                except WorkerFailed as error:
                    if name == OURS:
                        raise
                    del self.running[name]
                    self.missing = str(error)
                else:
                    if number:
                        usages.setdefault(name, []).append(usage)
        return Rounds({name: each for name, each in usages.items() if name in self.running})

    def _do(self, name: str, job: Job) -> Usage:
        with tempfile.TemporaryDirectory() as folder:
            job.prepare(name, Path(folder))
            reclaim_from_host(job.bytes)
            usage = self.running[name].read(folder, job.kind, job.rows).usage
            rows = DeltaTable(f"{folder}/{DERIVED}").to_pyarrow_table(columns=[job.column])
            added = rows.num_rows if job.added is None else rows.filter(job.added).num_rows
            if added != job.rows:
                raise WorkerFailed(f"{name} added {added} of {job.rows} rows")
            return usage


@contextmanager
def workers(*, peer: bool = True) -> Iterator[Workers]:
    """Run the workers until the end of the block.

    Args:
        peer: Whether delta-spark is one of them.

    Raises:
        WorkerFailed: Ours ended before it was ready.
    """
    found = Workers(missing="" if peer else "not requested")
    with ExitStack() as stack:
        ours = Command.module(OURS, "benchmarks.workers.derived")
        found.running[OURS] = stack.enter_context(running(ours))
        if peer:
            try:
                theirs = Command.module(PEER, "benchmarks.peers.delta_spark", python=delta_python())
                found.running[PEER] = stack.enter_context(running(theirs))
            except (PeerUnavailable, WorkerFailed) as error:
                found.missing = str(error)
        yield found


def versions() -> str:
    """Return the packages of delta-spark."""
    return f"{version_of(PEER)} with {version_of(PEER, 'pyspark')}"
