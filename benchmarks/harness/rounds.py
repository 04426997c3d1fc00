"""Readers that are compared: every reader reads its stream once in each round, one after the other."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.harness.host_memory import reclaim_from_host
from benchmarks.harness.spread import Spread
from benchmarks.harness.worker import WorkerFailed, running

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.harness.cpu import Usage
    from benchmarks.harness.worker import Command, MeasuredRead, Worker


@dataclass(frozen=True)
class Input:
    """A stream to be read."""

    url: str
    stream: str
    records: int
    data_bytes: int


@dataclass(frozen=True)
class ReaderRounds:
    """The rounds of one reader.

    Attributes:
        name: The name of its command.
        start_up: What the start of its process took, once; no round includes it.
        rounds: Its reads in order.
    """

    name: str
    start_up: Usage
    rounds: Sequence[MeasuredRead]

    @property
    def cpu_per_gb(self) -> Spread:
        """CPU seconds for 10^9 bytes of record data."""
        return Spread.of([read.cpu_per_gb for read in self.rounds])

    @property
    def records_per_second(self) -> Spread:
        """Records for each second of wall-clock time."""
        return Spread.of([read.records_per_second for read in self.rounds])


def measure_in_turn(
    commands: Sequence[Command], warm_up: Input, inputs: Mapping[str, Input], rounds: int
) -> tuple[list[ReaderRounds], dict[str, str]]:
    """Run all readers at once, and let each read its stream once in each round, one after the other.

    Args:
        commands: The readers.
        warm_up: A small stream that each reads at first and before each round without being measured. It
            warms up JIT compilers, connections, lazy imports, and workers that end after a minute without
            work.
        inputs: The stream that each reads, by the name of the command.
        rounds: Number of rounds.

    Returns:
        The rounds of each reader, in the order of the commands, and the reason for each reader that failed.
    """
    failed: dict[str, str] = {}
    workers: dict[str, Worker] = {}
    reads: dict[str, list[MeasuredRead]] = {}
    with ExitStack() as stack:
        for command in commands:
            try:
                worker = stack.enter_context(running(command))
                worker.read(warm_up.url, warm_up.stream, warm_up.records)
            except WorkerFailed as error:
                failed[command.name] = str(error)
            else:
                workers[command.name] = worker
        for _ in range(rounds):
            for name, worker in workers.items():
                if name not in failed:
                    source = inputs[name]
                    try:
                        worker.read(warm_up.url, warm_up.stream, warm_up.records)
                        reclaim_from_host(source.data_bytes)
                        read = worker.read(source.url, source.stream, source.records)
                    except WorkerFailed as error:
                        failed[name] = str(error)
                    else:
                        reads.setdefault(name, []).append(read)
        measured = [
            ReaderRounds(name, worker.start_up, reads[name])
            for name, worker in workers.items()
            if name not in failed and worker.start_up is not None
        ]
    return measured, failed
