"""Parts of what `scale` measures, as processes that take orders.

    python -m benchmarks.workers.scale idle | group | unpaced

`idle`: a run of a warm Spark session over a stream of which nothing is new. `group`: one task's landing,
without Spark, its plan and its commit; `unpaced`: the same, as fast as pages come.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.harness.single_process import landing_of, unpaced
from benchmarks.harness.worker_protocol import Order, Read, private_stdout, take_orders
from benchmarks.servers.replay_client import ReplayServer
from benchmarks.workers.landing import SESSION, landed
from kinesis_assets.spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


class Idle:
    """Runs over streams that this process has read to their tips before."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folder = folder
        self._read: dict[str, Read] = {}

    def prepare(self, order: Order) -> Callable[[], Read]:
        """Read the order's stream, if that was not yet done, and forget the server's calls."""
        again = replace(order, folder=f"{self._folder}/{order.stream}")
        if order.stream not in self._read:
            self._read[order.stream] = landed(self._spark, again)
        ReplayServer(order.url, 0).calls()
        return partial(self._nothing_new, again)

    def _nothing_new(self, order: Order) -> Read:
        read = landed(self._spark, order)
        assert not read.records, read
        return self._read[order.stream]


def group(order: Order) -> Callable[[], Read]:
    """One task's landing."""
    land = landing_of(order.url, order.stream, order.folder)

    def work() -> Read:
        landing = land()
        return Read(landing.rows, landing.bytes)

    return work


def main(kind: str) -> None:
    """Take orders of one kind."""
    with ExitStack() as stack:
        if kind == "idle":
            marks = private_stdout()
            spark = start_session(SESSION)
            stack.callback(spark.stop)
            take_orders(Idle(spark, stack.enter_context(tempfile.TemporaryDirectory())).prepare, marks)
            return
        if kind == "unpaced":
            stack.enter_context(unpaced())
        take_orders(group)


if __name__ == "__main__":
    main(sys.argv[1])
