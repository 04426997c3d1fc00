"""Rows of a raw table in a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.raw_rows import raw_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def raw(spark: SparkSession, compiled: None) -> Callable[..., DataFrame]:
    """Builds a DataFrame of rows with given data and errors."""
    del compiled
    return lambda *columns: spark.createDataFrame(raw_table(*columns))
