"""The process from which Spark forks Python workers has imported what tasks import."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kinesis_assets.spark.worker_daemon import TASK_MODULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture
def new_workers(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, whose next tasks run in new workers of a new daemon."""
    environment = spark.sparkContext.environment
    environment["KINESIS_ASSETS_TEST"] = "new"
    yield spark
    del environment["KINESIS_ASSETS_TEST"]


def test_a_worker_has_the_modules_of_tasks_before_its_first_task(new_workers):
    def loaded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"name": [*sys.modules]})

    rows = new_workers.range(1).mapInArrow(loaded, "name string").collect()
    assert set(TASK_MODULES) <= {row.name for row in rows}


def test_a_worker_does_not_search_the_modules_of_tasks_for_garbage(new_workers):
    def searched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            modules = {id(sys.modules[name]) for name in TASK_MODULES}
            yield pa.record_batch({"modules": [sum(id(each) in modules for each in gc.get_objects())]})

    ((modules,),) = new_workers.range(1).mapInArrow(searched, "modules long").collect()
    assert modules == 0
