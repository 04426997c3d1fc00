"""The CPU of a small run through Dagster, without the start of Spark.

python -m benchmarks.workers.run_profile URL STREAM RECORDS
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from benchmarks.harness.cpu import process_cpu, tree_cpu
from benchmarks.harness.cpu_profile import package
from benchmarks.harness.cpu_profile import profile as profile_cpu
from benchmarks.harness.single_process import REGION
from benchmarks.harness.worker_protocol import private_stdout
from benchmarks.workers.landing import SESSION
from kinesis_assets.dagster.in_process import StreamProject
from kinesis_assets.spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class RunProfile:
    """CPU seconds of a run.

    Attributes:
        own: CPU of its own process, by package.
        jvm: CPU of Spark's JVM.
        python_workers: CPU of Spark's Python processes.
    """

    own: Mapping[str, float]
    jvm: float
    python_workers: float


def profile_run(url: str, stream: str, records: int) -> RunProfile:
    """Profile the first run of this process, like one of `kinesis-assets run`, in a Spark session that is
    running.
    """
    spark = start_session(SESSION)
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001  # the only way to the process of the JVM
    jvm = gateway.proc.pid
    with tempfile.TemporaryDirectory() as home:
        Path(home, "dagster.yaml").touch()
        settings = {"table": f"{home}/table", "endpoint_url": url, "region_name": REGION}
        project = StreamProject.from_settings(stream, spark_config=SESSION, **settings)
        with project.open_stream() as opened:
            shard_ids = list(opened.listed_shards().shards)
        with dg.DagsterInstance.from_config(home) as instance:
            tree, jvm_cpu, own = tree_cpu(os.getpid()), process_cpu(jvm), time.process_time()
            shards, seconds = profile_cpu(lambda: list(project.materialize(instance, shard_ids)), package)
            jvm_cpu, own = process_cpu(jvm) - jvm_cpu, time.process_time() - own
            tree = tree_cpu(os.getpid()) - tree
    spark.stop()
    assert sum(shard["rows"] for shard in shards) == records, shards
    return RunProfile(seconds, jvm_cpu, tree - jvm_cpu - own)


def main(url: str, stream: str, records: str) -> None:
    """Print the profile as JSON."""
    with private_stdout() as output:
        output.write(json.dumps(asdict(profile_run(url, stream, int(records)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
