"""What readers of a derived table find with a filter, by which they may skip files."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.derivation import Upsert
from support.derived import maintain_derived, order, orders
from support.readers import READERS, Filter, found_by, found_by_delta_spark

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


CONDITIONS = [
    pc.field("amount") >= 1.0,
    pc.field("at") >= YEAR_2026,
    pc.field("text") >= "a",
    pc.field("id") >= 1,
    pc.field("flag"),
    pc.field("größe") == "b",
    pc.field("none").is_null(),
]


def test_a_filter_on_any_column_finds_its_rows(bench, derived):
    for number in (1, 2):  # only the second file has the long text
        bench.put(order(number))
        bench.run()
        derived.run(transform=readable)
    dataset = DeltaTable(derived.table.folder.uri).to_pyarrow_dataset()
    found = {str(each): sorted(dataset.to_table(filter=each)["id"].to_pylist()) for each in CONDITIONS}
    assert found == {str(each): [1, 2] for each in CONDITIONS}


TEXTS = ("a b", "a/b=100%", "ü😀", "", None)
"""Values of a partition column; tests/unit/derive/test_readers.py has more of them."""

DAYS = ("2026-01-01", "9999-12-31", None)
COLUMNS = ("id", "item", "day", "amount")
ALL = Filter("id", 0, is_bound=True)


class Orders:
    """A table of orders, partitioned by day and item, and the rows that it should have.

    Args:
        bench: The stream and its table.
        derived: The table, which is not partitioned yet.
        mode: How orders replace others.
    """

    def __init__(self, bench, derived, mode):
        derived.derivation = replace(derived.derivation, mode=mode, partition_by=("day", "item"))
        self.bench, self.derived = bench, derived
        self.is_upserted = mode is not None
        self.rows = []

    def put(self, amount, **settings):
        """Consume an order of each item, in a step of its own, with some settings of the table."""
        new = [
            {"id": number, "item": item, "day": DAYS[number % len(DAYS)], "amount": amount}
            for number, item in enumerate(TEXTS)
        ]
        self.bench.put(*(order(row["id"], amount, item=row["item"], day=row["day"]) for row in new))
        self.bench.run()
        self.derived.run(**settings)
        self.rows = new if self.is_upserted else self.rows + new

    @property
    def expected(self):
        """The rows as Delta stores them."""
        return [
            row | {"item": row["item"] or None, "day": row["day"] and date.fromisoformat(row["day"])}
            for row in self.rows
        ]

    @property
    def filters(self):
        found = [ALL, Filter("id", 3), Filter("amount", 2.0, is_bound=True), Filter("day", None)]
        return [*found, Filter("day", date(2026, 1, 1)), *(Filter("item", text) for text in TEXTS if text)]

    def check(self):
        for reader in READERS:
            for condition in self.filters:
                found = found_by(reader, self.derived.table.folder.uri, COLUMNS, condition)
                assert found == matching(self.expected, condition), (reader, condition)


def matching(rows, condition, columns=COLUMNS):
    return Counter(tuple(row[name] for name in columns) for row in rows if condition.accepts(row))


def with_note(rows):
    return orders(rows).withColumn("note", F.lit("n"))


@pytest.fixture(
    params=[None, pytest.param(Upsert(("id",), ("amount",)), marks=pytest.mark.thorough)],
    ids=["appended", "upserted"],
)
def written(request, bench, derived):
    return Orders(bench, derived, request.param)


def test_every_reader_finds_the_rows_of_a_partitioned_table(written):
    written.put(1.0)
    written.check()
    written.put(2.0)
    written.check()
    is_compacted = any(step.step == "compact" for step in maintain_derived(written.derived))
    assert is_compacted is not written.is_upserted  # an upsert merges the files that it replaces
    written.check()
    written.put(3.0, transform=with_note)
    written.check()


@pytest.mark.thorough
@pytest.mark.parametrize("written", [Upsert(("id",), ("amount",))], indirect=True, ids=["upserted"])
def test_delta_spark_finds_the_rows_of_a_partitioned_table(written):
    written.put(1.0)
    written.put(2.0)
    maintain_derived(written.derived)
    written.put(3.0, transform=with_note)
    rows = [row | {"day": row["day"] and str(row["day"])} for row in written.expected]
    filters = [*written.filters[:4], Filter("day", "2026-01-01"), Filter("item", TEXTS[1])]
    found = found_by_delta_spark(written.derived.table.folder.uri, COLUMNS, filters)
    assert found == [matching(rows, condition) for condition in filters]
