"""Runs over idle shards, and landings without Spark, as workers.

    python -m benchmarks.workers.scale idle | paced | unpaced

`idle` makes runs with a warm Spark session over a stream without new records. `paced` lands a stream as one
task, without Spark, a plan and a commit; `unpaced` does the same without pacing its calls.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.harness.single_process import NO_CALL_PACING, prepare_landing
from benchmarks.harness.worker_protocol import ReadRequest, ReadResult, private_stdout, serve_requests
from benchmarks.servers.replay_client import ReplayServer
from benchmarks.workers.landing import SESSION, land_stream
from kinesis_assets.kinesis.settings import ReadTiming
from kinesis_assets.spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


class IdleRuns:
    """Runs over streams that this process has read to their tips before."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folder = folder
        self._read: dict[str, ReadResult] = {}

    def prepare(self, request: ReadRequest) -> Callable[[], ReadResult]:
        """Read the stream to its tips if that is not yet done, and reset the server's counters of calls."""
        again = replace(request, folder=f"{self._folder}/{request.stream}")
        if request.stream not in self._read:
            self._read[request.stream] = land_stream(self._spark, again)
        ReplayServer(request.url, 0).take_calls()
        return partial(self._run, again)

    def _run(self, request: ReadRequest) -> ReadResult:
        read = land_stream(self._spark, request)
        assert not read.records, read
        return self._read[request.stream]


def prepare_task(request: ReadRequest, timing: ReadTiming = ReadTiming()) -> Callable[[], ReadResult]:
    """Return the landing of one task."""
    land = prepare_landing(request.url, request.stream, request.folder, timing)

    def work() -> ReadResult:
        landing = land()
        return ReadResult(landing.rows, landing.bytes)

    return work


def main(kind: str) -> None:
    """Serve requests of one kind."""
    with ExitStack() as stack:
        if kind == "idle":
            replies = private_stdout()
            spark = start_session(SESSION)
            stack.callback(spark.stop)
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            serve_requests(IdleRuns(spark, folder).prepare, replies)
            return
        serve_requests(partial(prepare_task, timing=NO_CALL_PACING) if kind == "unpaced" else prepare_task)


if __name__ == "__main__":
    main(sys.argv[1])
