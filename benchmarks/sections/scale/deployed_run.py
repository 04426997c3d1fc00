"""A run over a thousand shards that the sensor of a deployment on PostgreSQL requests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from benchmarks.harness.cpu import tree_cpu
from benchmarks.harness.paths import ROOT
from benchmarks.harness.section import Goal, Target
from benchmarks.harness.single_process import REGION
from benchmarks.harness.waiting import wait_until
from benchmarks.servers.postgresql import postgresql, storage_on
from kinesis_assets.dagster.stream_names import StreamNames

if TYPE_CHECKING:
    from benchmarks.servers.replay_client import ReplayServer
    from benchmarks.servers.replay_streams import StreamSpec

MAX_SECONDS = 20
IDLE_TICKS = 3

_DEFINITIONS = """
import dagster as dg
from kinesis_assets import build_kinesis_stream

defs = dg.Definitions.merge(
    build_kinesis_stream(
        {stream!r}, table={table!r}, endpoint_url={url!r}, region_name={region!r}, sensor_interval_seconds=1
    ),
    dg.Definitions(executor=dg.in_process_executor),
)
"""
_SETTINGS = "telemetry: {enabled: false}\nrun_queue: {dequeue_interval_seconds: 1}\n"


@dataclass(frozen=True)
class DeployedRun:
    """A run that the sensor requested, and the ticks after it.

    Attributes:
        step: Seconds of the step: plan, probe, start of Spark, landing, commit, report.
        phases: Seconds from the run's creation to its end, by phase, in order.
        cpu: CPU seconds of the daemon, the run, Spark and the database, from the run's creation to its end.
        idle_runs: Number of runs that the ticks after it requested.
    """

    step: float
    phases: dict[str, float]
    cpu: float
    idle_runs: int


def measure(server: ReplayServer, spec: StreamSpec) -> DeployedRun | None:
    """Measure the first run of a new deployment, and some ticks after it; None without PostgreSQL.

    Raises:
        AssertionError: The daemon has ended, or nothing has happened for minutes.
        RuntimeError: The run has failed, or has not reported each shard.
    """
    with ExitStack() as stack:
        try:
            port, database = stack.enter_context(postgresql())
        except FileNotFoundError:
            return None
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (home / "dagster.yaml").write_text(storage_on(port) + _SETTINGS)
        place = {"stream": spec.name, "table": str(home / "table"), "url": server.url, "region": REGION}
        (home / "deployed.py").write_text(_DEFINITIONS.format(**place))
        instance = stack.enter_context(dg.DagsterInstance.from_config(str(home)))
        server.create(spec)
        stack.callback(server.delete, spec.name)
        log = stack.enter_context((home / "log").open("wb"))
        daemon = subprocess.Popen(
            [sys.executable, "-m", "dagster._daemon", "run", "-f", str(home / "deployed.py")],
            cwd=ROOT,
            env=os.environ | {"DAGSTER_HOME": str(home)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        stack.callback(_kill, daemon)

        wait = partial(wait_until, process=daemon, failure=home / "log", interval=0.2)
        wait(lambda: instance.get_runs(limit=1))
        before = tree_cpu(daemon.pid) + tree_cpu(database)
        wait(lambda: instance.get_runs(limit=1)[0].is_finished)
        cpu = tree_cpu(daemon.pid) + tree_cpu(database) - before
        wait(lambda: _ticks_after_the_run(instance, spec.name) >= IDLE_TICKS)
        return _measured(instance, spec, cpu)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ticks_after_the_run(instance: dg.DagsterInstance, stream: str) -> int:
    """Return the number of ticks that started after the end of the first run, and have ended."""
    (record,) = instance.get_run_records(limit=1, ascending=True)
    name, end = StreamNames(stream).sensor, record.end_time or 0.0
    (sensor,) = (each for each in instance.all_instigator_state() if each.instigator_name == name)
    ticks = instance.get_ticks(sensor.instigator_origin_id, sensor.selector_id, after=end)
    return sum(tick.is_completed for tick in ticks)


def _measured(instance: dg.DagsterInstance, spec: StreamSpec, cpu: float) -> DeployedRun:
    first, *others = instance.get_run_records(ascending=True)
    run_id = first.dagster_run.run_id
    times: dict[dg.DagsterEventType, list[float]] = {}
    cursor: str | None = None
    while True:
        page = instance.get_records_for_run(run_id, cursor, limit=1000)
        for record in page.records:
            entry = record.event_log_entry
            if entry.dagster_event_type is not None:
                times.setdefault(entry.dagster_event_type, []).append(entry.timestamp)
        if not page.has_more:
            break
        cursor = page.cursor
    if first.dagster_run.status is not dg.DagsterRunStatus.SUCCESS:
        raise RuntimeError(f"the run has ended as {first.dagster_run.status.value}")
    kind = dg.DagsterEventType
    materialized = times[kind.ASSET_MATERIALIZATION]
    if len(materialized) != spec.shards + 1:  # one is about the whole stream
        raise RuntimeError(f"{len(materialized) - 1} shards have an event, not {spec.shards}")
    started, reading = times[kind.STEP_START][0], times[kind.STEP_INPUT][0]
    ends = {
        "Dagster's events of planned materializations": max(times[kind.ASSET_MATERIALIZATION_PLANNED]),
        "queue and start of the process": started,
        "plan": reading,
        "start of Spark, landing, commit, checks": min(materialized),
        "report": times[kind.STEP_SUCCESS][0],
    }
    phases, before = {}, first.create_timestamp.timestamp()
    for phase, end in ends.items():
        phases[phase], before = end - before, end
    return DeployedRun(times[kind.STEP_SUCCESS][0] - started, phases, cpu, len(others))


def describe(run: DeployedRun | None) -> str:
    """Return the text of the report."""
    if run is None:
        return "The run of a deployment was not measured, because PostgreSQL is not installed."
    phases = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in run.phases.items())
    return (
        "The first run of a deployment over the same records, with Dagster's daemon and the stream's sensor, "
        f"and Dagster on PostgreSQL. From its creation on: {phases}. The daemon, the run, Spark and the "
        f"database used {run.cpu:.0f} s of CPU meanwhile. The {IDLE_TICKS} or more ticks after it requested "
        f"{run.idle_runs} runs. One round."
    )


def target(run: DeployedRun | None) -> Target:
    """Return the result for the goal of a run that the sensor requests."""
    if run is None:
        return Target(Goal.DEPLOYED_RUN, "not measured without PostgreSQL", None)
    planned = next(iter(run.phases.values()))
    return Target(
        Goal.DEPLOYED_RUN,
        f"{run.step:.1f} s with the start of Spark, {run.phases['report']:.1f} s of them to report; before "
        f"it, Dagster's daemon needs {planned:.1f} s for the planned materializations; ticks without new "
        f"records request {run.idle_runs} runs",
        run.step <= MAX_SECONDS and not run.idle_runs,
    )
