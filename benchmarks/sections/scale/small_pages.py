"""Small pages with high latency, read by two tasks."""

from __future__ import annotations

import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.harness.cpu import tree_cpu
from benchmarks.harness.section import Goal, Target, markdown_table
from benchmarks.harness.single_process import REGION
from benchmarks.harness.spread import Spread, describe_rounds
from benchmarks.harness.worker import Command, running
from benchmarks.servers.replay_streams import StreamSpec
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.settings import CONNECTIONS, PAGE_LIMIT, ClientSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.servers.replay_client import ReplayServer

TASKS = 2
WARM_UP = StreamSpec("scale-warm-up", shards=4, pages=1, page_records=1000)
PAGE_RECORDS = 100
LATENCY_MS = 100
MIN_RATE = 60_000
CALLS_PER_SECOND = 5
"""Calls that Kinesis allows for each shard."""


@dataclass(frozen=True)
class Rates:
    """The results for one number of shards.

    Attributes:
        shards: Shards of both tasks together.
        pages: Pages in each shard.
        paced: Whether calls are paced as Kinesis requires.
        rate: Records per second.
        limit: Records per second if concurrent calls took as long as a single one, including calls for
            iterators.
        cpu_us: Median CPU of the tasks per record, in microseconds.
        task_cores: Median number of cores that both tasks used.
        server_cores: Median number of cores that the replay server used.
    """

    shards: int
    pages: int
    paced: bool
    rate: Spread
    limit: float
    cpu_us: float
    task_cores: float
    server_cores: float


def measure(server: ReplayServer, shards: int, pages: int, rounds: int, *, paced_rounds: int) -> list[Rates]:
    """Measure two tasks with half of the shards each, without and with pacing of their calls."""
    specs = [
        StreamSpec(f"small-{shards}-{task}", shards // TASKS, pages, PAGE_RECORDS) for task in range(TASKS)
    ]
    for spec in (WARM_UP, *specs):
        server.create(spec)
    records = sum(spec.records for spec in specs)
    results = []
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(TASKS))
        for paced in (False, True):
            kind = "paced" if paced else "unpaced"
            command = Command.module(kind, "benchmarks.workers.scale", kind)
            workers = [stack.enter_context(running(command)) for _ in specs]
            server.set_latency(0)
            for worker in workers:
                worker.read(server.url, WARM_UP.name, WARM_UP.records)
            server.set_latency(LATENCY_MS)
            call_seconds = _seconds_of_single_call(server, specs[0])
            rates, cpu, task_cores, server_cores = [], [], [], []
            for _ in range(paced_rounds if paced else rounds):
                before = tree_cpu(server.pid)
                reads = [
                    pool.submit(worker.read, server.url, spec.name, spec.records)
                    for worker, spec in zip(workers, specs, strict=True)
                ]
                usages = [read.result().usage for read in reads]
                wall = max(usage.wall for usage in usages)
                rates.append(records / wall)
                cpu.append(sum(usage.cpu for usage in usages))
                task_cores.append(cpu[-1] / wall)
                server_cores.append((tree_cpu(server.pid) - before) / wall)
            results.append(
                Rates(
                    shards,
                    pages,
                    paced,
                    Spread.of(rates),
                    _limit(shards, pages, call_seconds, paced=paced),
                    statistics.median(cpu) / records * 1e6,
                    statistics.median(task_cores),
                    statistics.median(server_cores),
                )
            )
    server.set_latency(0)
    for spec in specs:
        server.delete(spec.name)
    return results


def _seconds_of_single_call(server: ReplayServer, spec: StreamSpec) -> float:
    """Return the median time of a call while no other call is in progress."""
    client = StreamClient(spec.name, ClientSettings(REGION, server.url))
    iterator: str | None = client.shard_iterator(
        client.list_shards()[0].shard_id, Position(PositionKind.TRIM_HORIZON)
    )
    seconds = []
    for _ in range(min(10, spec.pages)):
        assert iterator is not None
        started = time.perf_counter()
        page, _ = client.get_records(iterator, PAGE_LIMIT)
        seconds.append(time.perf_counter() - started)
        iterator = page.next_shard_iterator
    return statistics.median(seconds)


def _limit(shards: int, pages: int, call_seconds: float, *, paced: bool) -> float:
    calls_per_second = min(shards, TASKS * CONNECTIONS) / call_seconds
    if paced:
        calls_per_second = min(calls_per_second, shards * CALLS_PER_SECOND)
    return calls_per_second * PAGE_RECORDS * pages / (pages + 1)


def describe(results: Sequence[Rates], rounds: int, *, paced_rounds: int) -> str:
    """Return the text of the report."""
    max_rate = 64 * CALLS_PER_SECOND * PAGE_RECORDS
    exception = "" if paced_rounds == rounds else f" (with pacing, {describe_rounds(paced_rounds).lower()})"
    text = (
        f"Pages of {PAGE_RECORDS} records of 1 KB with {LATENCY_MS} ms latency are read by 2 processes that "
        "do what a task in Spark does; in Spark itself, pacing cannot be turned off. Kinesis allows "
        f"{CALLS_PER_SECOND} calls per second and shard, so that no reader gets more than {max_rate:,} "
        "records per second from 64 shards with such pages. The target is therefore for calls without "
        f"pacing. {describe_rounds(rounds)}{exception}."
    )
    rows = [
        [
            str(each.shards),
            str(each.pages),
            "yes" if each.paced else "no",
            each.rate.text(0),
            f"{each.limit:,.0f}",
            f"{each.cpu_us:.1f}",
            f"{each.task_cores:.2f}",
            f"{each.server_cores:.2f}",
        ]
        for each in results
    ]
    columns = [
        "shards",
        "pages per shard",
        "paced",
        "records/s",
        "limit of the calls",
        "CPU us/record",
        "cores used, tasks",
        "cores used, server",
    ]
    return f"{text}\n\n{markdown_table(columns, rows)}"


def targets(results: Sequence[Rates]) -> list[Target]:
    """Return the results for the goals of small pages."""
    unpaced = {each.shards: each for each in results if not each.paced}
    few, many = unpaced[64], unpaced[256]
    ratio = many.rate.median / few.rate.median
    return [
        Target(
            Goal.SMALL_PAGES,
            f"{few.rate.text(0)} without pacing; 64 calls at once allow {few.limit:,.0f}; {few.cpu_us:.0f} "
            f"us of CPU per record; tasks and server use {few.task_cores + few.server_cores:.1f} of "
            f"{os.cpu_count()} cores",
            few.rate.median >= MIN_RATE,
        ),
        # A rate within the rounds of the other one is not slower.
        Target(
            Goal.SMALL_PAGES_256,
            f"{many.rate.text(0)}, {ratio:.2f} times that of 64 shards",
            many.rate.median >= few.rate.low,
        ),
    ]
