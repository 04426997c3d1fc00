"""A bench whose runs read their records with Spark."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.ingest.land import land
from support.doctor_bench import DoctorBench
from support.timing import READING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.raw_table import PositionedTable
    from support.bench import Bench


@pytest.fixture
def bench(bench: Bench, spark: SparkSession) -> Bench:
    bench.land = partial(land, spark)
    return bench


@pytest.fixture
def doctor_bench(kinesis: Any, stream: str, settings: ClientSettings, table: PositionedTable) -> DoctorBench:
    """Two shards that were read in three commits."""
    bench = DoctorBench(kinesis, replace(settings, timing=READING), stream, table)
    bench.ingest()
    return bench
