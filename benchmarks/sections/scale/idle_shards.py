"""Runs over a thousand shards without new records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.harness.section import Goal, Target
from benchmarks.harness.spread import Spread, describe_rounds
from benchmarks.harness.worker import Command, running
from benchmarks.servers.replay_streams import StreamSpec

if TYPE_CHECKING:
    from benchmarks.servers.replay_client import ReplayServer

IDLE = StreamSpec("idle", shards=1000, pages=1, page_records=1, record_bytes=100)
MAX_CPU_MS = 5
MAX_CALLS = 3


@dataclass(frozen=True)
class IdleRuns:
    """Runs without new records.

    Attributes:
        cpu_ms: CPU of the process tree for each shard, in milliseconds.
        wall: Seconds of a run.
        calls: API calls of the last run, by operation.
    """

    cpu_ms: Spread
    wall: Spread
    calls: dict[str, int]


def measure(server: ReplayServer, rounds: int) -> IdleRuns:
    """Measure runs with a warm session over shards that were read to their tips before."""
    server.create(IDLE)
    reads, calls = [], {}
    with running(Command.module("idle", "benchmarks.workers.scale", "idle")) as worker:
        for _ in range(rounds):
            reads.append(worker.read(server.url, IDLE.name, IDLE.records))
            calls = server.take_calls()
    server.delete(IDLE.name)
    return IdleRuns(
        Spread.of([read.usage.cpu / IDLE.shards * 1e3 for read in reads]),
        Spread.of([read.usage.wall for read in reads]),
        calls,
    )


def describe(runs: IdleRuns, rounds: int) -> str:
    """Return the text of the report."""
    calls = ", ".join(f"{count:,} {operation}" for operation, count in sorted(runs.calls.items()))
    return (
        f"Without new records in {IDLE.shards:,} shards, a run with a warm session and 2 tasks, including "
        f"its plan, uses {runs.cpu_ms.text(2)} ms of CPU per shard (process tree, with JVM and workers) and "
        f"takes {runs.wall.text(1)} s. {describe_rounds(rounds)}. Its calls are {calls}."
    )


def targets(runs: IdleRuns) -> list[Target]:
    """Return the results for the goals of idle shards."""
    calls = sum(runs.calls.values()) / IDLE.shards
    return [
        Target(Goal.IDLE_SHARD_CPU, f"{runs.cpu_ms.text(2)} ms", runs.cpu_ms.median <= MAX_CPU_MS),
        Target(Goal.IDLE_SHARD_CALLS, f"{calls:.2f}", calls <= MAX_CALLS),
    ]
