"""A bench whose runs read their records with Spark."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.ingest.land import land
from kinesis_assets.kinesis.client import StreamClient
from support.timing import READING
from support.ward import Ward

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.table import PositionedTable
    from support.bench import Bench


@pytest.fixture
def bench(bench: Bench, spark: SparkSession) -> Bench:
    bench.land = partial(land, spark)
    return bench


@pytest.fixture
def ward(kinesis: Any, stream: str, settings: ClientSettings, table: PositionedTable) -> Ward:
    """A stream that the test creates, and a table that does not exist yet."""
    return Ward(kinesis, StreamClient(stream, replace(settings, timing=READING)), table)
