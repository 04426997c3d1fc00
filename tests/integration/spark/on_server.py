"""Jobs on a Spark server, whose results are printed as one line of JSON."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa

from kinesis_assets.dagster.spark_resource import SparkResource
from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark.session import cancel_tagged, parallelism, tagged, wrap_spark_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONFIG = {"spark.master": "local[7]", "spark.ui.enabled": "false", "spark.log.level": "ERROR"}


def sessions() -> dict[str, Any]:
    """Use two resources in one process, of which one ends before the other."""
    first, second = SparkResource(spark_config=CONFIG), SparkResource(spark_config=CONFIG)
    other = first.spark_session.session_id != second.spark_session.session_id
    tasks = parallelism(first.spark_session)
    before = second.spark_session.range(2).count()
    first.teardown_after_execution(dg.build_init_resource_context())
    after = second.spark_session.range(1).count()
    second.teardown_after_execution(dg.build_init_resource_context())
    return {"tasks": tasks, "other": other, "before": before, "after": after}


def interrupted() -> dict[str, Any]:
    """Interrupt a job of several minutes by its tag."""
    spark = SparkResource(spark_config=CONFIG).spark_session
    ending = threading.Timer(3, cancel_tagged, [spark, "kinesis-1"])
    ending.start()
    try:
        with wrap_spark_errors("any"), tagged(spark, "kinesis-1"):
            _job(spark, _minutes)
    except LandingFailed as error:
        said = f"{type(error).__name__}: {error}"
    else:
        said = "nothing"
    return {"error": said}


def workers() -> dict[str, Any]:
    """Return the processes in which the tasks of a job run."""
    spark = SparkResource(spark_config=CONFIG).spark_session
    found = sorted(row.pid for row in _job(spark, _process))
    spark.stop()
    return {"workers": found}


def _job(spark: Any, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> Any:
    return spark.range(0, 2, 1, 2).mapInArrow(task, "pid long").collect()


def _process(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        time.sleep(1)  # so that no worker can execute both tasks
        yield pa.RecordBatch.from_pydict({"pid": [os.getpid()]})


def _minutes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        time.sleep(300)
        yield pa.RecordBatch.from_pydict({"pid": [0]})


if __name__ == "__main__":
    print(json.dumps({"sessions": sessions, "interrupted": interrupted, "workers": workers}[sys.argv[1]]()))  # noqa: T201
