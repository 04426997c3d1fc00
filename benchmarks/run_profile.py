"""Where the CPU of a small run through Dagster goes, but for the start of Spark.

python -m benchmarks.run_profile URL STREAM RECORDS
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from benchmarks.alone import REGION
from benchmarks.landing_child import SESSION
from benchmarks.marks import private_stdout
from benchmarks.measure import ROOT, Spread, of_rounds, tree_cpu
from benchmarks.replay import replay_server
from benchmarks.sampled import hottest, package, sampled
from kinesis_assets.dagster.in_process import StreamProject
from kinesis_assets.spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.replay_pages import StreamSpec


@dataclass(frozen=True)
class RunProfile:
    """CPU seconds of a run.

    Attributes:
        here: In its own process, by package.
        jvm: In Spark's.
        workers: In Spark's Python processes.
    """

    here: Mapping[str, float]
    jvm: float
    workers: float


def measure(spec: StreamSpec, rounds: int) -> list[RunProfile]:
    """Runs over the same stream, each the first of its process."""
    with replay_server() as server:
        server.create(spec)
        command = [sys.executable, "-m", "benchmarks.run_profile", server.url, spec.name, str(spec.records)]
        return [RunProfile(**json.loads(subprocess.check_output(command, cwd=ROOT))) for _ in range(rounds)]


def told(of: Sequence[RunProfile]) -> str:
    """For the report."""
    everywhere: Counter[str] = Counter()
    for each in of:
        everywhere.update(each.here)
    here, jvm, workers = (
        Spread.of(seconds).text()
        for seconds in (
            [sum(each.here.values()) for each in of],
            [each.jvm for each in of],
            [each.workers for each in of],
        )
    )
    shares = "; ".join(f"{where} {share:.0%}" for where, share in hottest(everywhere))
    return (
        "Where the CPU of a run goes besides Spark's start: once Spark is there, such a run, the first of "
        f"its process, with Dagster on a new SQLite, has {jvm} CPU s in Spark's JVM, {workers} in Spark's "
        f"Python processes, and {here} in its own. {of_rounds(len(of))}. Of its own, by samples of all "
        f"threads, each package with what it has the standard library do: {shares}."
    )


def _cpu_of(pid: int) -> float:
    """Of a process without its children, by Linux' clock of it."""
    return time.clock_gettime((~pid << 3) | 2)


def profile(url: str, stream: str, records: int) -> RunProfile:
    """Of the first run of this process, as `kinesis-assets run` has it, in a Spark that is there."""
    spark = start_session(SESSION)
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001  # nothing else knows the JVM
    jvm = gateway.proc.pid
    with tempfile.TemporaryDirectory() as home:
        Path(home, "dagster.yaml").touch()
        place = {"table": f"{home}/table", "endpoint_url": url, "region_name": REGION}
        project = StreamProject.from_settings(stream, spark_config=SESSION, **place)
        with project.open_stream() as opened:
            shard_ids = list(opened.listed_shards()[1])
        with dg.DagsterInstance.from_config(home) as instance:
            of_tree, of_jvm, of_here = tree_cpu(os.getpid()), _cpu_of(jvm), time.process_time()
            facts, spent = sampled(lambda: list(project.materialize(instance, shard_ids)), package)
            of_jvm, of_here = _cpu_of(jvm) - of_jvm, time.process_time() - of_here
            of_tree = tree_cpu(os.getpid()) - of_tree
    spark.stop()
    assert sum(each["rows"] for each in facts) == records, facts
    return RunProfile(spent, of_jvm, of_tree - of_jvm - of_here)


def main(url: str, stream: str, records: str) -> None:
    """Print it as JSON."""
    with private_stdout() as answer:
        answer.write(json.dumps(asdict(profile(url, stream, int(records)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
