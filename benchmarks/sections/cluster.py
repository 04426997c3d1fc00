"""Landings on a standalone cluster, compared with a local session that has the same number of cores."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.harness.cpu import Usage
from benchmarks.harness.paths import ROOT
from benchmarks.harness.rounds import Input, measure_in_turn
from benchmarks.harness.section import Goal, Section, Target, markdown_table
from benchmarks.harness.spread import Spread, describe_rounds
from benchmarks.harness.units import MIB
from benchmarks.harness.worker import Command, WorkerFailed
from benchmarks.servers.replay_client import replay_server
from benchmarks.servers.replay_streams import StreamSpec
from benchmarks.servers.standalone_cluster import standalone_cluster
from benchmarks.workers.cluster import STEPS
from kinesis_assets.dagster.settings.spark_settings import SparkSettings
from kinesis_assets.spark.packages import package_archive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.harness.rounds import ReaderRounds
    from benchmarks.servers.replay_client import ReplayServer
    from benchmarks.servers.standalone_cluster import Cluster

EXECUTORS = 2
"""The number of executors to which the target applies; the machine should have at least as many cores."""

MAX_RATIO = 1.1

WARM_UP = StreamSpec("cluster-warm-up", shards=8, pages=1, page_records=1000)
STREAM = StreamSpec("cluster-orders", shards=128, pages=8, page_records=1000)
SMALL = StreamSpec("cluster-small-run", shards=4, pages=1, page_records=1000)

LOCAL = "local session"
INSTALLED = "cluster, packages installed on it"
SENT = "cluster, packages sent"

_OPTIONS = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}


@dataclass(frozen=True)
class Landings:
    """Rounds of landings with a number of tasks, each with a core of its own.

    Attributes:
        tasks: The number.
        local: The rounds in a local session.
        cluster: The rounds on executors with one core each.
    """

    tasks: int
    local: ReaderRounds
    cluster: ReaderRounds

    @property
    def cpu_ratio(self) -> Spread:
        """CPU on the cluster relative to that of the local session, round by round."""
        pairs = zip(self.cluster.rounds, self.local.rounds, strict=True)
        return Spread.of([cluster.usage.cpu / local.usage.cpu for cluster, local in pairs])

    @property
    def wall_ratio(self) -> Spread:
        """Wall-clock time on the cluster relative to that of the local session, round by round."""
        pairs = zip(self.cluster.rounds, self.local.rounds, strict=True)
        return Spread.of([cluster.usage.wall / local.usage.wall for cluster, local in pairs])


Sessions = dict[str, list[list[dict[str, Usage]]]]
"""For each way to run, and for each round: the steps of the first and of the second run of a session."""


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    rounds, executors = (5, [1, 2, 4]) if full else (3, [EXECUTORS])
    with replay_server() as server, standalone_cluster() as cluster:
        landings = [measure_landings(server, cluster, tasks, STREAM, rounds) for tasks in executors]
        sessions = measure_sessions(server, cluster, rounds if full else 1)
        environment = cluster.environment.stat().st_size
    text = f"{describe_landings(landings)}\n\n{describe_sessions(sessions, environment)}"
    return Section("On a standalone cluster", text, [target(landings)])


def session_config(cluster: Cluster | None, tasks: int, *, send: bool = True) -> dict[str, Any]:
    """Return the settings of a session with a number of tasks, each of which has a core.

    Args:
        cluster: Where it runs; None for a local session.
        tasks: The number.
        send: Whether the session sends the packages to the executors, instead of using installed ones.
    """
    config = {**_OPTIONS, "spark.master": f"local[{tasks},4]"}
    fields: dict[str, Any] = {}
    if cluster is not None:
        config = {**_OPTIONS, **cluster.config, "spark.cores.max": str(tasks)}
        place = ("python_environment", cluster.environment) if send else ("python_executable", cluster.python)
        fields = {place[0]: str(place[1])}
    return SparkSettings(spark_config=config, tasks=tasks, **fields).session_config


def measure_landings(
    server: ReplayServer, cluster: Cluster, tasks: int, spec: StreamSpec, rounds: int
) -> Landings:
    """Land a stream in warm sessions, one after the other in each round.

    Raises:
        WorkerFailed: A landing failed.
    """
    for each in (WARM_UP, spec):
        server.create(each)
    warm_up, source = (
        Input(server.url, each.name, each.records, each.data_bytes) for each in (WARM_UP, spec)
    )
    land = ("benchmarks.workers.cluster", "land")
    commands = [
        Command.module(LOCAL, *land, json.dumps(session_config(None, tasks))),
        Command.module(SENT, *land, json.dumps(session_config(cluster, tasks)), servers=cluster.pids),
    ]
    inputs = {command.name: source for command in commands}
    measured, failed = measure_in_turn(commands, warm_up, inputs, rounds)
    server.delete(spec.name)
    if failed:
        raise WorkerFailed("; ".join(f"{name}: {reason}" for name, reason in failed.items()))
    return Landings(tasks, *measured)


def measure_sessions(server: ReplayServer, cluster: Cluster, rounds: int) -> Sessions:
    """Make two small runs with a new session, in each way to run and in each round."""
    server.create(SMALL)
    package_archive()  # is made once for a version of the package
    configs = {
        LOCAL: session_config(None, EXECUTORS),
        INSTALLED: session_config(cluster, EXECUTORS, send=False),
        SENT: session_config(cluster, EXECUTORS),
    }
    sessions: Sessions = {name: [] for name in configs}
    for _ in range(rounds):
        for name, config in configs.items():
            command = [sys.executable, "-m", "benchmarks.workers.cluster", "session", json.dumps(config)]
            command += [server.url, SMALL.name, str(SMALL.records), *map(str, cluster.pids)]
            runs = json.loads(subprocess.check_output(command, cwd=ROOT))
            sessions[name].append(
                [{step: Usage(**usage) for step, usage in run.items()} for run in runs],
            )
    return sessions


def target(landings: Sequence[Landings]) -> Target:
    """Return the result for the goal of this section."""
    (ratio,) = (each.cpu_ratio for each in landings if each.tasks == EXECUTORS)
    return Target(Goal.CLUSTER_CPU, f"{ratio.text(2)}x", ratio.median <= MAX_RATIO)


def describe_landings(landings: Sequence[Landings]) -> str:
    """Return the part of the section about landings in warm sessions."""
    rounds = describe_rounds(len(landings[0].local.rounds))
    rows = [
        [
            str(each.tasks),
            name,
            reader.cpu_per_gb.text(),
            reader.records_per_second.text(0),
            ratios[0].text(2) if ratios else "",
            ratios[1].text(2) if ratios else "",
        ]
        for each in landings
        for name, reader, ratios in (
            (LOCAL, each.local, None),
            ("cluster", each.cluster, (each.cpu_ratio, each.wall_ratio)),
        )
    ]
    megabytes = sum(read.read.bytes for read in landings[0].local.rounds[:1]) / 1e6
    return (
        f"A landing of {megabytes:,.0f} MB, from HTTP to committed Delta, in a warm session. The cluster of "
        "the tests runs on the same machine: a master and two workers. Each executor has one core and runs "
        "one task at a time; the local session has as many cores as there are executors. With as many tasks "
        "as the machine has cores, or more, the figures show what a cluster costs, not how it scales. CPU is "
        f"that of the driver and of all processes of the cluster. {rounds}; the sessions follow each other "
        "in each round.\n\n"
        + markdown_table(
            ["tasks", "Spark", "CPU s/GB", "records/s", "CPU relative to local", "time relative to local"],
            rows,
        )
    )


def describe_sessions(sessions: Sessions, environment_bytes: int) -> str:
    """Return the part of the section about what the first and the second run of a session cost."""
    rows = []
    for name, rounds in sessions.items():
        for number, run in enumerate(("first", "second")):
            steps = [[each[number].get(step) for each in rounds] for step in STEPS]
            rows.append([name, run, *(_text([usage for usage in step if usage]) for step in steps)])
    count = len(next(iter(sessions.values())))
    return (
        f"The first and the second run of a new session with {EXECUTORS} tasks, each over {SMALL.records:,} "
        "records into a new table: seconds of wall-clock time, and CPU seconds after the slash. "
        f"{describe_rounds(count)}. The session of a cluster adds a zip of this package "
        f"({package_archive().stat().st_size / MIB:.1f} MiB), which the executors fetch, and an archive of "
        f"the packages that tasks import ({environment_bytes / MIB:.0f} MiB) unless these are installed. The "
        "driver unpacks the archive when the session starts. The executors fetch, unpack and import what "
        "they need for their first task, which is that of the check; the second check shows what a check "
        "costs without that. A run into a table for which the session was checked has none.\n\n"
        + markdown_table(["Spark", "run", *STEPS], rows)
    )


def _text(usages: Sequence[Usage]) -> str:
    if not usages:
        return ""
    wall, cpu = (Spread.of([getattr(usage, name) for usage in usages]) for name in ("wall", "cpu"))
    return f"{wall.text(2)} / {cpu.text(2)}"
