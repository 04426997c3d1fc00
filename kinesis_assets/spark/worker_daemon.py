"""The process from which Spark forks the Python workers of a local session.

It imports what tasks import before it forks, which each worker would have to do otherwise. Spark starts it
instead of its own daemon, see PYTHON_DAEMON_MODULE in org/apache/spark/internal/config/Python.scala.

It also excludes what it imported from garbage collection, as Python's documentation of `gc.freeze` recommends
before a fork. Spark collects garbage after each task and would traverse every module again.
"""

from __future__ import annotations

import gc
import importlib
import runpy
import sys
from contextlib import suppress

WORKER = "pyspark.worker"
"""The module of workers that run tasks. Others plan the reads of Python data sources."""

TASK_MODULES = (
    "kinesis_assets.ingest.task",
    "kinesis_assets.operations.replay.task",
    "kinesis_assets.derive.writing_task",
    "kinesis_assets.decoders.chain",
    "kinesis_assets.operations.doctor.row_scan",
)
"""What the tasks of this package import, directly or through these."""

if __name__ == "__main__":
    if WORKER in sys.argv:
        for module in (WORKER, *TASK_MODULES):
            with suppress(ImportError):  # a task that needs it says what is missing
                importlib.import_module(module)
        gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__")
