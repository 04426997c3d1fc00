"""A run of a router, or of a table that it leads to, is killed at a write, and repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chaos.derived.kill import killed
from kinesis_assets.dagster.derived.typed_rows import RoutedRows
from kinesis_assets.derive.data_files import ERRORS_FOLDER
from kinesis_assets.derive.derivation import Derivation
from kinesis_assets.derive.derived_table import DerivedTable
from support.derived import DerivedBench, identified
from support.routed import ORDER, Routed, event

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.bench import Bench

WRITES = ["write files", "write entry", "commit request"]


@pytest.fixture
def routed(spark: SparkSession, bench: Bench, tmp_path: Path) -> Routed:
    bench.create()
    derived = DerivedBench(spark, DerivedTable(bench.table.uri), Derivation(bench.table.uri, identified))
    return Routed(bench, derived, tmp_path, {})


@pytest.mark.parametrize(
    "steps", [["write entry"], pytest.param(WRITES, marks=pytest.mark.thorough)], ids=["entry", "each write"]
)
def test_killed_runs_of_a_router_and_of_its_tables_are_repeated_exactly_once(
    routed: Routed, steps: Sequence[str]
) -> None:
    router, orders, users = routed.router(), routed.of_route(0), routed.of_route(1)
    errors = routed.table(
        str(routed.path / "errors"),
        RoutedRows(routed.routes.tables[0], ORDER).of_errors,
        source=f"{orders.table.uri}/{ERRORS_FOLDER}",
    )
    for number, step in enumerate(steps):
        routed.ingest(
            event("placed", 1, at=number, v=number),
            event("paid", 10 + number),
            event("paid", "bad"),
            event(7, f"user {number}"),
            event("other"),
        )
        for table in (router, orders, errors, users):
            with killed("after", step):
                table.run()
            table.run()
    times, numbers = len(steps), range(len(steps))
    routes = ["7"] * times + ["paid"] * 2 * times + ["placed"] * times + [None] * times
    assert router.values("route") == routes
    assert orders.values("id", "v") == [(1, times - 1), *((10 + number, 0) for number in numbers)]
    assert errors.values("data") == [event("paid", "bad")] * times
    assert users.values("id") == [f"user {number}" for number in numbers]
    assert [table.run() for table in (router, orders, errors, users)] == [[], [], [], []]
