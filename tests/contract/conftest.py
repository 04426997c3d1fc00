"""The contract's tests run on a pipeline each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.table import PositionedTable


@pytest.fixture
def pipeline(
    stream: str, kinesis: Any, settings: ClientSettings, table: PositionedTable, spark: SparkSession
) -> Pipeline:
    """A pipeline of the test's own; the test creates the stream."""
    del spark  # runs in this process share the session
    return Pipeline(kinesis, settings, stream, table)
