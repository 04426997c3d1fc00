"""Commits per second, and the time of a commit, when eight processes commit to one table at once."""

from __future__ import annotations

import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from multiprocessing import get_context
from typing import TYPE_CHECKING

from benchmarks.data.one_record_commits import SHARDS, commit_one_record, create_table, load_positions
from benchmarks.harness.section import Section, markdown_table
from kinesis_assets.table.table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.synchronize import Barrier

PROCESSES = 8
ATTEMPTS = 20
"""Number of attempts of each process."""

_barrier: Barrier | None = None


@dataclass(frozen=True)
class Attempts:
    """The results of some attempts to commit.

    Attributes:
        committed: Seconds of each commit that succeeded.
        conflicts: Number of attempts whose shard had been moved by another process.
        seconds: Wall-clock time of all attempts together.
    """

    committed: Sequence[float]
    conflicts: int
    seconds: float

    @property
    def p95(self) -> float:
        """The 95th percentile of the seconds of a commit."""
        return statistics.quantiles(self.committed, n=20, method="inclusive")[-1]

    @property
    def rate(self) -> float:
        """Commits per second."""
        return len(self.committed) / self.seconds


def attempt_commits(uri: str, shard_id: str) -> Attempts:
    """Attempt to commit again and again, as soon as all other processes have started."""
    table = PositionedTable(uri)
    if _barrier is not None:
        _barrier.wait(timeout=60)
    started = time.perf_counter()
    results = [commit_one_record(table, shard_id) for _ in range(ATTEMPTS)]
    committed = [seconds for seconds, succeeded in results if succeeded]
    return Attempts(committed, ATTEMPTS - len(committed), time.perf_counter() - started)


def measure_uncontended() -> Attempts:
    """Measure one process with one shard."""
    with tempfile.TemporaryDirectory() as folder:
        create_table(folder)
        return attempt_commits(folder, SHARDS[0])


def measure_contended(shard_ids: Sequence[str]) -> Attempts:
    """Measure all processes at once, with the shards assigned to them round-robin."""
    context = get_context("spawn")  # delta-rs does not survive a fork
    barrier = context.Barrier(PROCESSES)
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(PROCESSES, context, initializer=_initialize, initargs=(barrier,)) as pool,
    ):
        create_table(folder)
        assigned = list(islice(cycle(shard_ids), PROCESSES))
        processes = list(pool.map(partial(attempt_commits, folder), assigned))
        committed = [seconds for process in processes for seconds in process.committed]
        shards = load_positions(PositionedTable(folder)).shards.values()
        moved = sum(int(shard.position.sequence_number or 0) for shard in shards)
        assert moved == len(committed), "the positions do not match the commits"
    return Attempts(
        committed,
        sum(process.conflicts for process in processes),
        max(process.seconds for process in processes),
    )


def _initialize(barrier: Barrier) -> None:
    global _barrier  # noqa: PLW0603  # shared objects can be passed to the processes of a pool only at their start
    _barrier = barrier


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    del full
    uncontended = measure_uncontended()
    cases = {
        "1 process, 1 shard": uncontended,
        f"{PROCESSES} processes, one shard each": measure_contended(SHARDS),
        f"{PROCESSES} processes, the same shard": measure_contended(SHARDS[:1]),
    }
    text = (
        f"Each process makes {ATTEMPTS} attempts to commit one record, as fast as possible, to a table on "
        "the local disk. The 95th percentile is that of successful commits, including their retries."
    )
    columns = [
        "case",
        "committed",
        "conflicts",
        "commits/s",
        "p95 of a commit, ms",
        "relative to no contention",
    ]
    rows = [
        [
            name,
            str(len(case.committed)),
            str(case.conflicts),
            f"{case.rate:.1f}",
            f"{case.p95 * 1000:,.0f}",
            f"{case.p95 / uncontended.p95:.1f}",
        ]
        for name, case in cases.items()
    ]
    return Section("Commits under contention", f"{text}\n\n{markdown_table(columns, rows)}")
