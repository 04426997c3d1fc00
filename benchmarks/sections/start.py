"""What Spark costs a small run: with its defaults, trimmed, with the class data archive, or as a server."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.command_usage import usage_of
from benchmarks.harness.cpu import Usage, tree_cpu
from benchmarks.harness.section import Section, markdown_table
from benchmarks.harness.spread import Spread, describe_rounds
from benchmarks.servers.replay_client import replay_server
from benchmarks.servers.replay_streams import StreamSpec
from kinesis_assets.spark.local_settings import local_settings
from kinesis_assets.spark.server import SparkServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROUNDS = 5
SMALL = StreamSpec("small-run", shards=4, pages=1, page_records=1000)

DEFAULTS = "Spark with its defaults"
TRIMMED = "trimmed, as a run starts it"
WITH_ARCHIVE = "trimmed, with the class data archive"
SERVER = "attached to a running server"

SPARK_DEFAULTS = {
    "spark.ui.enabled": "true",
    "spark.ui.showConsoleProgress": "false",  # the default outside a shell
    "spark.driver.extraJavaOptions": "",
    "spark.authenticate": "false",
    "spark.python.daemon.module": "pyspark.daemon",
    "spark.driver.host": "127.0.0.1",  # the default is the address of the host, which makes no difference
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.serializer.objectStreamReset": "100",
    "spark.sql.execution.arrow.maxBytesPerBatch": "64m",
    "spark.sql.windowExec.buffer.spill.size.threshold": "9223372036854775807b",
}
"""Spark's default of each setting that a run sets."""


@dataclass(frozen=True)
class Way:
    """A way for a run to get a Spark session.

    Attributes:
        name: Its name in the table.
        environment: The environment variables that select it.
        server: The process of the server that the run attaches to; None if the run starts Spark.
    """

    name: str
    environment: Mapping[str, str]
    server: int | None = None

    def usage(self, *argv: str) -> Usage:
        """Run a command, and return the CPU of its process tree and of the server.

        Raises:
            CommandFailed: The command failed.
        """
        before = 0.0 if self.server is None else tree_cpu(self.server)
        usage = usage_of(*argv, environment=dict(self.environment))
        after = 0.0 if self.server is None else tree_cpu(self.server)
        return Usage(usage.cpu + after - before, usage.wall)


@dataclass(frozen=True)
class Starts:
    """The results.

    Attributes:
        runs: The rounds of each way, by its name.
        archive: Creating the class data archive, once.
        server: Starting the server, until it responds.
    """

    runs: Mapping[str, Sequence[Usage]]
    archive: Usage
    server: Usage


def default_environment(folder: Path) -> dict[str, str]:
    """Return an environment in which Spark has its defaults: a site configuration that sets all of them."""
    missing = set(local_settings({})) - set(SPARK_DEFAULTS)
    assert not missing, f"the default of {', '.join(missing)} is not listed"
    lines = (f"{name} {value}\n" for name, value in SPARK_DEFAULTS.items())
    (folder / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    return {"SPARK_CONF_DIR": str(folder)}


def measure(rounds: int) -> Starts:
    """Land the same stream into a new table in each way, one after the other in each round."""
    with ExitStack() as stack:
        replay = stack.enter_context(replay_server())
        replay.create(SMALL)
        site, empty_cache, cache, tables, log = (
            Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(5)
        )
        no_archive, archive = ({"XDG_CACHE_HOME": str(folder)} for folder in (empty_cache, cache))
        cli = str(Path(sys.executable).with_name("kinesis-assets"))
        archive_usage = usage_of(cli, "spark", "--archive", environment=archive)
        started = time.monotonic()
        server = stack.enter_context(
            SparkServer(log / "log", preload=["kinesis_assets.operations.replay.task"])
        )
        server_usage = Usage(tree_cpu(server.pid), time.monotonic() - started)
        ways = [
            Way(DEFAULTS, no_archive | default_environment(site)),
            Way(TRIMMED, no_archive),
            Way(WITH_ARCHIVE, archive),
            Way(SERVER, no_archive | {"SPARK_REMOTE": server.url}, server.pid),
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
        return Starts(runs, archive_usage, server_usage)


def describe(starts: Starts) -> str:
    """Return the text of the section."""
    base = starts.runs[DEFAULTS]
    rows = [
        [
            name,
            Spread.of([usage.cpu for usage in usages]).text(),
            Spread.of([usage.wall for usage in usages]).text(),
            Spread.of([usage.cpu / first.cpu for usage, first in zip(usages, base, strict=True)]).text(2),
        ]
        for name, usages in starts.runs.items()
    ]
    return (
        f"A run over {SMALL.shards} shards with {SMALL.page_records:,} records of {SMALL.record_bytes:,} "
        "bytes each, through Dagster into a new table, from the start of its process to its end. Nearly all "
        "of it is start-up. CPU is that of all its processes until the last has ended. "
        f"{describe_rounds(len(base))}; the ways follow each other in each round.\n\n"
        + markdown_table(["Spark", "CPU s", "wall-clock s", "CPU relative to the first"], rows)
        + f"\n\nThe class data archive is created once, in {starts.archive.cpu:.1f} CPU s "
        f"({starts.archive.wall:.1f} s). The server starts in {starts.server.cpu:.1f} CPU s "
        f"({starts.server.wall:.1f} s). The CPU that the server uses for a run counts as CPU of the run."
    )


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    del full
    return Section("Start of Spark", describe(measure(ROUNDS)))
