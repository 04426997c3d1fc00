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
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.bench import Bench

WRITES = ["write files", "write entry", "commit request"]


@pytest.fixture
def routed(spark: SparkSession, bench: Bench, tmp_path: Path) -> Routed:
    bench.create()
    derived = DerivedBench(spark, DerivedTable(bench.table.uri), Derivation(bench.table.uri, identified))
    return Routed(bench, derived, tmp_path, {})


def test_killed_runs_of_a_router_and_of_its_tables_are_repeated_exactly_once(routed: Routed) -> None:
    router, orders, users = routed.router(), routed.of_route(0), routed.of_route(1)
    errors = routed.table(
        str(routed.path / "errors"),
        RoutedRows(routed.routes.tables[0], ORDER).of_errors,
        source=f"{orders.table.uri}/{ERRORS_FOLDER}",
    )
    for number, step in enumerate(WRITES):
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
    assert router.values("route") == ["7"] * 3 + ["paid"] * 6 + ["placed"] * 3 + [None] * 3
    assert orders.values("id", "v") == [(1, 2), (10, 0), (11, 0), (12, 0)]
    assert errors.values("data") == [event("paid", "bad")] * 3
    assert users.values("id") == ["user 0", "user 1", "user 2"]
    assert [table.run() for table in (router, orders, errors, users)] == [[], [], [], []]
