"""Wide tables of which another program keeps no statistics of the last columns, as the batch id."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.derivation import Rollup, Upsert
from support.derived import order, orders
from support.formats import derived_at


def wide(rows):
    """Return orders behind many other columns."""
    others = [F.lit(number).alias(f"c{number}") for number in range(40)]
    return orders(rows).select(*others, "id", "amount")


@pytest.fixture
def compacted(bench, derived):
    """Consumes orders, each in a run of its own, into a wide table, which is then compacted."""

    def compacted(*payloads, **changes):
        for payload in payloads:
            bench.put(payload)
            bench.run()
            derived.run(transform=wide, **changes)
        delta = DeltaTable(derived.table.folder.uri)
        delta.alter.set_table_properties({"delta.dataSkippingStatsColumns": "c0"})
        delta.optimize.compact()
        (file,) = derived.table.snapshot().data_files(["id", "_batch_id"])
        assert (file.smallest, file.greatest) == ({"id": None, "_batch_id": None},) * 2

    return compacted


def test_the_rows_of_a_wide_table_are_consumed_exactly_once(derived, compacted, tmp_path):
    counts = replace(derived, table=derived_at(str(tmp_path / "counts")))
    rolled_up = {
        "source": derived.table.uri,
        "transform": lambda rows: rows.groupBy("id").agg(F.count("*").alias("orders")),
        "mode": Rollup(("id",)),
    }
    compacted(order(1), order(2))
    counts.run(**rolled_up)
    compacted(order(1), order(3))
    (commit,) = counts.run(**rolled_up)
    assert (commit.rows, commit.deleted) == (2, 1)
    assert counts.values("id", "orders") == [(1, 2), (2, 1), (3, 1)]


@pytest.mark.thorough
def test_a_key_of_a_wide_table_is_found_and_replaced(bench, derived, compacted):
    by_id = {"mode": Upsert(("id",), ("amount",))}
    compacted(order(1, 1.0), order(2, 1.0), **by_id)
    bench.put(order(1, 2.0))
    bench.run()
    derived.run(transform=wide, **by_id)
    assert derived.values("id", "amount") == [(1, 2.0), (2, 1.0)]
