"""A stream with a thousand shards (idle, with a backlog, in a sensor tick), and small pages."""

from __future__ import annotations

from benchmarks.harness.section import Section
from benchmarks.sections.scale import (
    backlog,
    deployed_run,
    empty_calls,
    idle_shards,
    sensor_ticks,
    small_pages,
)
from benchmarks.servers.replay_client import replay_server

ROUNDS = 5


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    slow_rounds = ROUNDS if full else 1  # for measurements that take long
    with replay_server() as server:
        idle = idle_shards.measure(server, ROUNDS)
        calls = empty_calls.measure(server, ROUNDS)
        runs = backlog.measure(server, backlog.BACKLOG, slow_rounds)
        deployed = deployed_run.measure(server, backlog.BACKLOG)
        ticks = sensor_ticks.measure(server, idle_shards.IDLE, slow_rounds)
        rates = [
            *small_pages.measure(server, 64, 200 if full else 100, ROUNDS, paced_rounds=slow_rounds),
            *small_pages.measure(server, 256, 10, ROUNDS, paced_rounds=slow_rounds),
        ]
    text = [
        idle_shards.describe(idle, ROUNDS),
        empty_calls.describe(calls),
        backlog.describe(runs),
        deployed_run.describe(deployed),
        sensor_ticks.describe(ticks),
        small_pages.describe(rates, ROUNDS, paced_rounds=slow_rounds),
    ]
    results = [
        *small_pages.targets(rates),
        *idle_shards.targets(idle),
        backlog.target(runs),
        deployed_run.target(deployed),
        sensor_ticks.target(ticks),
    ]
    return Section("A thousand shards", "\n\n".join(text), results)
