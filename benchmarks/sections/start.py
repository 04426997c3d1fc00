"""What Spark costs one small run: started as it comes, trimmed, with the archive of classes, or kept warm."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.measure import Spread, Usage, tree_cpu
from benchmarks.harness.process_tree import spent
from benchmarks.harness.section import Section, table
from benchmarks.servers.replay_client import replay_server
from benchmarks.servers.replay_streams import StreamSpec
from benchmarks.workers import run_profile
from kinesis_assets.spark.local_settings import local_settings
from kinesis_assets.spark.server import SparkServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROUNDS = 5
SMALL = StreamSpec("small-run", shards=4, pages=1, page_records=1000)

AS_IT_COMES = "Spark as it comes"
TRIMMED = "trimmed, as a run starts it"
WITH_ARCHIVE = "and with the archive of classes"
KEPT = "attached to a server that is kept"

SPARKS_OWN = {
    "spark.ui.enabled": "true",
    "spark.ui.showConsoleProgress": "false",  # its own outside a shell
    "spark.driver.extraJavaOptions": "",
    "spark.authenticate": "false",
    "spark.driver.host": "127.0.0.1",  # its own is the host's address, which measures the same
    "spark.driver.bindAddress": "127.0.0.1",
}
"""What a Spark has that nobody told anything, for each setting that a run gives it."""


@dataclass(frozen=True)
class Way:
    """One way in which a run gets its Spark.

    Attributes:
        name: What it is called in the table.
        environment: By which it gets it.
        server: The process of the server that it attaches to; None if it starts a Spark.
    """

    name: str
    environment: Mapping[str, str]
    server: int | None = None

    def usage(self, *argv: str) -> Usage:
        """What a run costs by a command: the process tree's CPU, and what the server spends meanwhile.

        Raises:
            ChildFailed: It failed.
        """
        before = 0.0 if self.server is None else tree_cpu(self.server)
        of_run = spent(*argv, environment=dict(self.environment))
        after = 0.0 if self.server is None else tree_cpu(self.server)
        return Usage(of_run.cpu + after - before, of_run.wall)


@dataclass(frozen=True)
class Starts:
    """What was measured.

    Attributes:
        runs: By way, each round's.
        archive: What making the archive takes, once.
        server: What the server's start takes, until it answers.
    """

    runs: Mapping[str, Sequence[Usage]]
    archive: Usage
    server: Usage


def untold(folder: Path) -> dict[str, str]:
    """An environment whose Spark gets none of the settings that a run gives it: the site names them all."""
    missing = set(local_settings({})) - set(SPARKS_OWN)
    assert not missing, f"what is {', '.join(missing)} where nobody says?"
    lines = (f"{name} {value}\n" for name, value in SPARKS_OWN.items())
    (folder / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    return {"SPARK_CONF_DIR": str(folder)}


def measure(rounds: int) -> Starts:
    """Let a run of each way land the same stream into a new table, one way after the other in each round."""
    with ExitStack() as stack:
        replay = stack.enter_context(replay_server())
        replay.create(SMALL)
        site, without, caches, tables, log = (
            Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(5)
        )
        nothing_cached, archive_cached = ({"XDG_CACHE_HOME": str(each)} for each in (without, caches))
        cli = str(Path(sys.executable).with_name("kinesis-assets"))
        archive = spent(cli, "spark", "--archive", environment=archive_cached)
        began = time.monotonic()
        server = stack.enter_context(SparkServer(log / "log", preload=["kinesis_assets.replay.task"]))
        of_server = Usage(tree_cpu(server.pid), time.monotonic() - began)
        ways = [
            Way(AS_IT_COMES, nothing_cached | untold(site)),
            Way(TRIMMED, nothing_cached),
            Way(WITH_ARCHIVE, archive_cached),
            Way(KEPT, nothing_cached | {"SPARK_REMOTE": server.url}, server.pid),
        ]
        runs: dict[str, list[Usage]] = {way.name: [] for way in ways}
        command = [
            sys.executable,
            "-m",
            "benchmarks.workers.small_run",
            replay.url,
            SMALL.name,
            str(SMALL.records),
        ]
        for number in range(rounds):
            for way in ways:
                runs[way.name].append(way.usage(*command, str(tables / f"{number}-{way.name}")))
        return Starts(runs, archive, of_server)


def told(of: Starts) -> str:
    """The section's text."""
    rounds = len(of.runs[AS_IT_COMES])
    base = of.runs[AS_IT_COMES]
    rows = [
        [
            name,
            Spread.of([usage.cpu for usage in usages]).text(),
            Spread.of([usage.wall for usage in usages]).text(),
            Spread.of([usage.cpu / first.cpu for usage, first in zip(usages, base, strict=True)]).text(2),
        ]
        for name, usages in of.runs.items()
    ]
    return (
        f"A run of {SMALL.shards} shards with {SMALL.page_records:,} records of {SMALL.record_bytes:,} bytes "
        "each through Dagster into a new table, from its process's start to its end: nearly all of it is "
        f"starting. CPU is of all its processes until the last has ended. Median of {rounds} rounds, one way "
        "after the other in each, with the lowest and the highest.\n\n"
        + table(["Spark", "CPU s", "wall s", "CPU beside the first"], rows)
        + f"\n\nThe archive takes {of.archive.cpu:.1f} CPU s ({of.archive.wall:.1f} s), once for all; the "
        f"server's start {of.server.cpu:.1f} ({of.server.wall:.1f} s). What the server spends on a run is in "
        "the run's CPU."
    )


def section(full: bool) -> Section:
    """Of the report."""
    del full
    of_run = run_profile.told(run_profile.measure(SMALL, ROUNDS))
    return Section("Spark's start", f"{told(measure(ROUNDS))}\n\n{of_run}")
