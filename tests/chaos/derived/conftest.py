"""A stream whose records are numbered events, and tables that are derived from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chaos.derived.events import EventBench

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.bench import Bench


@pytest.fixture
def events(spark: SparkSession, bench: Bench, tmp_path: Path) -> Iterator[EventBench]:
    """A stream of one shard. Neither its table nor a derived one exists yet."""
    bench.create()
    time_zone = spark.conf.get("spark.sql.session.timeZone")
    yield EventBench(spark, bench, tmp_path)
    spark.conf.set("spark.sql.session.timeZone", time_zone)
