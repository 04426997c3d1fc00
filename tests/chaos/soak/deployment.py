"""Deployments of Dagster with one stream, its table and a derived table, whose processes are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import dagster as dg
import yaml

from kinesis_assets.dagster.events.metadata import exact_values

if TYPE_CHECKING:
    from random import Random

DEFINITIONS = """
import dagster as dg
from kinesis_assets import build_kinesis_stream, derived_table


@derived_table(source={stream!r}, table={derived!r})
def derived(new):
    return new.select("shard_id", "sequence_number", "data")


defs = build_kinesis_stream(
    {stream!r},
    table={table!r},
    endpoint_url={endpoint!r},
    region_name="us-east-1",
    sensor_interval_seconds=5,
    max_seconds=10,
    stop_timeout=20,
    follow_for={follow_for!r},
    spark_config={{"spark.master": "local[2,4]", "spark.ui.enabled": "false", "spark.log.level": "ERROR"}},
)
defs = dg.Definitions.merge(defs, dg.Definitions(assets=[derived]))
"""
VICTIMS = {
    "driver": "spawn_main",
    "JVM": "org.apache.spark.deploy.SparkSubmit",
    "Python worker": "pyspark.daemon",
    "daemon": "dagster._daemon",
}
"""The kinds of processes that are killed, and a part of their command lines."""


class Deployment:
    """A Dagster instance and its daemon, which is restarted when it has died.

    Args:
        project: The project whose dagster.yaml it uses.
        **definitions: Values for the placeholders in `DEFINITIONS`.
    """

    def __init__(self, folder: Path, project: Path, **definitions: object) -> None:
        self.home = folder
        folder.mkdir(parents=True)
        self._definitions = folder / "definitions.py"
        self._definitions.write_text(DEFINITIONS.format(**definitions))
        settings = yaml.safe_load((project / "dagster.yaml").read_text())
        settings["concurrency"]["runs"]["max_concurrent_runs"] = 1  # two deployments share two cores
        settings["run_monitoring"] |= {"poll_interval_seconds": 5, "max_runtime_seconds": 120}
        (folder / "dagster.yaml").write_text(yaml.safe_dump(settings))
        self._marker = uuid4().hex
        self._log = (folder / "log").open("ab")
        self._daemon: subprocess.Popen[bytes] | None = None

    def ensure_running(self) -> None:
        """Start the daemon unless it is running."""
        if self._daemon is None or self._daemon.poll() is not None:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "dagster._daemon", "run", "-f", str(self._definitions)],
                env=os.environ | {"DAGSTER_HOME": str(self.home), "KINESIS_ASSETS_SOAK": self._marker},
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
            )

    def materialize(self, name: str) -> subprocess.CompletedProcess[str]:
        """Materialize an asset in a process of its own."""
        return subprocess.run(
            [
                *(sys.executable, "-m", "dagster", "asset", "materialize"),
                *("-f", str(self._definitions), "--select", name),
            ],
            env=os.environ | {"DAGSTER_HOME": str(self.home)},
            check=False,
            capture_output=True,
            text=True,
        )

    def processes(self) -> dict[int, str]:
        """Return the processes of this deployment: command lines by process id."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self._marker.encode() in (process / "environ").read_bytes():
                    found[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
        return found

    def conflicts(self) -> int:
        """Return how often a shard was reported as moved by another run."""
        with dg.DagsterInstance.from_config(str(self.home)) as instance:
            states: Counter[str] = Counter()  # maintenance reports observations without a state
            for key in instance.all_asset_keys():
                for record in instance.fetch_observations(key, limit=10_000).records:
                    event = record.event_log_entry.asset_observation
                    if event and "state" in event.metadata:
                        states[str(event.metadata["state"].value)] += 1
        return states["conflict"]

    def max_commits_of_a_run(self) -> int:
        """Return the maximum number of commits with rows of a run; a continuous run makes several."""
        commits: defaultdict[str, set[Any]] = defaultdict(set)
        with dg.DagsterInstance.from_config(str(self.home)) as instance:
            for key in instance.all_asset_keys():
                for record in instance.fetch_materializations(key, limit=10_000).records:
                    event = record.event_log_entry
                    materialization = event.asset_materialization
                    exact = exact_values(materialization) if materialization else {}
                    if "batch_id" in exact:  # an event of a shard
                        commits[event.run_id].add(exact["batch_id"])
        return max(map(len, commits.values()), default=0)

    def stop(self) -> None:
        """Kill all processes of this deployment."""
        # Kill it by its id, because a new process may not yet have the marker in its environment.
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.wait()
        while processes := self.processes():
            for pid in processes:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._log.close()


def kill_one(deployment: Deployment, random: Random) -> str | None:
    """Kill one running process with SIGKILL, and return its kind."""
    kind = random.choice(list(VICTIMS))
    found = [pid for pid, command in deployment.processes().items() if VICTIMS[kind] in command]
    if not found:
        return None
    with suppress(ProcessLookupError):
        os.kill(random.choice(found), signal.SIGKILL)
    return kind
