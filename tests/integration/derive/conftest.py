"""A derived table over a bench's table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kinesis_assets.derive.derivation import Derivation
from support.derived import DerivedBench, orders
from support.formats import derived_at, source_format
from support.typed_tables import TypedBench

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.bench import Bench


@pytest.fixture
def derived(spark: SparkSession, bench: Bench, tmp_path: Path) -> DerivedBench:
    """The orders of the bench's stream, appended to a derived table that does not exist yet."""
    bench.create()
    derivation = Derivation(bench.table.uri, orders, source_format=source_format(bench.table))
    return DerivedBench(spark, derived_at(str(tmp_path / "orders")), derivation)


@pytest.fixture
def typed(bench: Bench, derived: DerivedBench) -> TypedBench:
    """A typed table over the bench's table, which does not exist yet."""
    return TypedBench(bench, derived)
