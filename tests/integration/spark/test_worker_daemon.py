"""The process from which Spark forks Python workers has imported what tasks import."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kinesis_assets.spark.task_modules import TASK_MODULES

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


def test_a_worker_does_not_search_what_it_has_imported_for_garbage(new_workers):
    def searched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"objects": [len(gc.get_objects())], "excluded": [gc.get_freeze_count()]})

    ((objects, excluded),) = (
        new_workers.range(1).mapInArrow(searched, "objects long, excluded long").collect()
    )
    assert objects < excluded / 10
