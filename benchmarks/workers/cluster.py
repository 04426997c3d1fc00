"""Landings with a session on a cluster, or with a local session to compare it with.

    python -m benchmarks.workers.cluster land CONFIG
    python -m benchmarks.workers.cluster session CONFIG URL STREAM RECORDS [PID ...]

`land` serves requests. `session` starts a session, makes two runs of a stream with it, each into a new table,
and prints what each of their steps took, as JSON. CONFIG are the settings of the session, as JSON. The PIDs
are processes whose CPU, with that of their descendants, counts too.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks.harness.cpu import Usage, tree_cpu
from benchmarks.harness.worker_protocol import ReadRequest, private_stdout, serve_requests
from benchmarks.workers.landing import client, land_stream
from kinesis_assets.ingest.executor_check import check_executors
from kinesis_assets.spark.local_settings import is_local, local_settings
from kinesis_assets.spark.packages import add_package
from kinesis_assets.spark.session import prepare, start_session
from kinesis_assets.table.store.storage import TableFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

Result = TypeVar("Result")

START = "start of the session"
SHIPPING = "adding the package"
CHECK = "check of an executor"
RUN = "plan, landing and commit"
STEPS = [START, SHIPPING, CHECK, RUN]
"""The steps of a run in their order."""


class Meter:
    """Measures the steps of a run.

    Args:
        pids: Processes whose CPU counts, with that of their descendants.

    Attributes:
        steps: What each step took.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self.steps: dict[str, Usage] = {}

    def measure(self, step: str, work: Callable[[], Result]) -> Result:
        """Do the work of a step."""
        cpu, started = self._cpu(), time.monotonic()
        result = work()
        self.steps[step] = Usage(self._cpu() - cpu, time.monotonic() - started)
        return result

    def _cpu(self) -> float:
        return sum(map(tree_cpu, self._pids))


def two_runs(
    config: Mapping[str, Any], url: str, stream: str, records: int, pids: Sequence[int]
) -> list[dict[str, Usage]]:
    """Start a session, and return the steps of its first two runs.

    The steps of the start are those of `session.start_session`, one by one.
    """
    prepare(config)
    meters = [Meter(pids) for _ in range(2)]
    for meter in meters:
        spark = meter.measure(START, partial(_session, config))
        if not is_local(config):
            meter.measure(SHIPPING, partial(add_package, spark))
        with tempfile.TemporaryDirectory() as folder:
            request = ReadRequest(url, stream, records, folder)
            table = TableFolder.at(folder)
            meter.measure(CHECK, partial(check_executors, spark, f"stream {stream}", table, client(request)))
            read = meter.measure(RUN, partial(land_stream, spark, request))
            assert read.records == records, read
    spark.stop()
    return [meter.steps for meter in meters]


def _session(config: Mapping[str, Any]) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415  # after `prepare`, as in a run

    builder = SparkSession.builder
    for name, value in local_settings(config).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(kind: str, config: str, *arguments: str) -> None:
    """Serve requests, or print the steps of two runs."""
    settings = json.loads(config)
    replies = private_stdout()
    if kind == "land":
        spark = start_session(settings)
        serve_requests(lambda request: partial(land_stream, spark, request), replies)
        spark.stop()
        return
    url, stream, records, *pids = arguments
    runs = two_runs(settings, url, stream, int(records), [os.getpid(), *map(int, pids)])
    with replies:
        json.dump([{step: asdict(usage) for step, usage in run.items()} for run in runs], replies)


if __name__ == "__main__":
    main(*sys.argv[1:])
