"""Ticks of the sensor over a thousand shards."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from benchmarks.harness.section import Goal, Target, markdown_table
from benchmarks.harness.single_process import REGION, run
from benchmarks.harness.spread import Spread, describe_rounds
from benchmarks.sections.scale.idle_shards import IDLE
from kinesis_assets.dagster.build import build_kinesis_stream
from kinesis_assets.dagster.sensor.sensor import evaluate
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.dagster.stream_project import StreamProject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.servers.replay_client import ReplayServer
    from benchmarks.servers.replay_streams import StreamSpec

LATENCY_MS = 20
MAX_SECONDS = 8


@dataclass(frozen=True)
class Tick:
    """One tick of the sensor.

    Attributes:
        state: The state of the stream before it.
        seconds: Time until its result, which Dagster limits.
        storing: Time to store its partitions and events afterwards, as the daemon does, in seconds.
        events: Number of events in the result.
        runs: Number of runs that it requested.
    """

    state: str
    seconds: float
    storing: float
    events: int
    runs: int


def measure(server: ReplayServer, spec: StreamSpec, rounds: int) -> list[list[Tick]]:
    """Measure the same series of ticks in each round.

    The first tick sees new shards. The next ones see shards that were committed without an event, until no
    event is missing. The last one sees nothing new.
    """
    server.create(spec)
    ticks = [_measure_round(server, spec) for _ in range(rounds)]
    server.delete(spec.name)
    return ticks


def _measure_round(server: ReplayServer, spec: StreamSpec) -> list[Tick]:
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        Path(home, "dagster.yaml").touch()
        folder = str(Path(home, "table"))
        instance = stack.enter_context(dg.DagsterInstance.from_config(home))
        definitions = build_kinesis_stream(
            spec.name, table=folder, endpoint_url=server.url, region_name=REGION
        )
        opened = stack.enter_context(StreamProject(spec.name, definitions).open_stream())
        names = StreamNames(spec.name)
        cursor: str | None = None

        def tick(state: str) -> Tick:
            nonlocal cursor
            materialized = len(instance.get_materialized_partitions(names.raw_key))
            server.set_latency(LATENCY_MS)
            started = time.monotonic()
            result = evaluate(opened, instance, cursor)
            seconds = time.monotonic() - started
            server.set_latency(0)
            cursor = result.cursor
            for request in result.dynamic_partitions_requests or []:
                instance.add_dynamic_partitions(str(names.partitions.name), list(request.partition_keys))
            for event in result.asset_events:
                instance.report_runless_asset_event(event)
            storing = time.monotonic() - started - seconds
            new = sum(isinstance(event, dg.AssetMaterialization) for event in result.asset_events)
            shards = new + len(instance.get_materialized_partitions(names.raw_key)) - materialized
            return Tick(state, seconds, storing, shards, len(result.run_requests or []))

        ticks = [tick(f"{spec.shards:,} shards are new")]
        run(server.url, spec.name, folder)
        ticks.append(tick(f"{spec.shards:,} shards were committed without events"))
        while ticks[-1].events:
            ticks.append(tick("the next tick"))
        ticks.append(tick("nothing is new"))
    return ticks


def describe(rounds: Sequence[Sequence[Tick]]) -> str:
    """Return the text of the report."""
    text = (
        f"Sensor ticks with {IDLE.shards:,} shards and {LATENCY_MS} ms latency, with Dagster on SQLite. The "
        f"daemon stores the result of a tick after the tick. {describe_rounds(len(rounds))}:"
    )
    rows = [
        [
            same_tick[0].state,
            _seconds(same_tick).text(2),
            Spread.of([tick.storing for tick in same_tick]).text(),
            f"{same_tick[0].events:,}",
            str(same_tick[0].runs),
        ]
        for same_tick in zip(*rounds, strict=True)
    ]
    columns = ["state", "tick, s", "storing the result, s", "events", "runs requested"]
    return f"{text}\n\n{markdown_table(columns, rows)}"


def target(rounds: Sequence[Sequence[Tick]]) -> Target:
    """Return the result for the goal of a tick."""
    slowest = max(zip(*rounds, strict=True), key=lambda same_tick: _seconds(same_tick).median)
    storing = max(tick.storing for ticks in rounds for tick in ticks)
    return Target(
        Goal.SENSOR_TICK,
        f"{_seconds(slowest).text()} s for the slowest tick ({slowest[0].state}); the daemon then stores its "
        f"result in at most {storing:.1f} s",
        _seconds(slowest).median <= MAX_SECONDS,
    )


def _seconds(ticks: Sequence[Tick]) -> Spread:
    return Spread.of([tick.seconds for tick in ticks])
