"""What readers of a derived table find with a filter, by which delta-rs may skip files."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from support.derived import order, orders

YEAR_2026 = datetime(2026, 1, 1, tzinfo=UTC)


def readable(rows):
    """Return orders with columns of several types, and a text too long for the statistics of a file."""
    return orders(rows).withColumns(
        {
            "at": F.lit(YEAR_2026),
            "text": F.when(F.col("id") == 1, F.lit("a")).otherwise(F.repeat(F.lit("z"), F.lit(5000))),
            "flag": F.lit(True),
            "größe": F.lit("b"),
            "none": F.lit(None).cast("string"),
        }
    )


@pytest.mark.parametrize(
    "condition",
    [
        pc.field("amount") >= 1.0,
        pc.field("at") >= YEAR_2026,
        pc.field("text") >= "a",
        pc.field("id") >= 1,
        pc.field("flag"),
        pc.field("größe") == "b",
        pc.field("none").is_null(),
    ],
    ids=str,
)
def test_a_filter_on_any_column_finds_its_rows(bench, derived, condition):
    for number in (1, 2):  # only the second file has the long text
        bench.put(order(number))
        bench.run()
        derived.run(transform=readable)
    dataset = DeltaTable(derived.table.folder.uri).to_pyarrow_dataset()
    assert sorted(dataset.to_table(filter=condition)["id"].to_pylist()) == [1, 2]
