"""Derived tables beside Spark with Iceberg's runtime, whose procedures harm nothing at any moment."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import count
from operator import itemgetter
from pathlib import Path

import pytest
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.commit import until_not_overtaken
from kinesis_assets.derive.derivation import Derivation, Rollup, Upsert
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.derived_table import DerivedSnapshot, DerivedTable
from kinesis_assets.errors import TableRewritten
from kinesis_assets.table.maintenance.steps import MaintenanceLimits, State
from support.derived import DerivedBench, maintain_derived
from support.formats import derived_in, iceberg_of
from support.iceberg.foreign import SparkMaintenance
from support.iceberg.spark import SparkFailed
from support.iceberg.table_readers import found_by_all
from support.plain_derived import PlainDerived, steps_of
from support.timing import WRITING

CUSTOMER = "the customer with the number "
"""Longer than what Spark keeps of the smallest and the greatest text of a file."""


def orders(rows):
    order = F.from_json(F.col("data").cast("string"), "customer STRING, number INT")
    return rows.select(order.alias("order")).selectExpr(
        "order.*",
        "order.number % 2 AS parity",
        "CAST(order.number AS DECIMAL(10,2)) AS exact",
        "DATE '2026-11-28' + order.number AS day",
        "CAST(DATE '2026-11-28' + order.number AS TIMESTAMP_NTZ) AS at",
        "named_struct('numbers', array(order.number), 'by_name', map('n', named_struct('of', order.number)))"
        " AS nested",
    )


def values_of(number):
    """Return the values of the columns of an order beside its customer."""
    day = date(2026, 11, 28) + timedelta(days=number)
    return {
        "number": number,
        "parity": number % 2,
        "exact": Decimal(number),
        "day": day,
        "at": datetime.combine(day, datetime.min.time()),
        "nested": {"numbers": [number], "by_name": [("n", {"of": number})]},
    }


def per_parity(rows):
    return rows.groupBy("parity").agg(F.count("*").alias("customers"))


class Tables:
    """The newest order of each customer, and how many of these orders have an odd or an even number.

    Both tables are in a catalog that Spark reaches too, and have files of two commits.
    """

    def __init__(self, bench, session, catalog, iceberg_spark, folder):
        self._bench, self._catalog, self._iceberg_spark = bench, catalog, iceberg_spark
        self._numbers, self._customers = count(), {}
        formats = {name: derived_in(catalog, name) for name in ("newest", "counts")}
        tables = {
            name: DerivedTable(str(folder / name), WRITING, format=format_)
            for name, format_ in formats.items()
        }
        newest = Derivation(bench.table.uri, orders, Upsert(("customer",), ("number",)))
        self.newest = DerivedBench(session, tables["newest"], newest)
        counts = Derivation(
            tables["newest"].uri, per_parity, Rollup(("parity",)), source_format=formats["newest"]
        )
        self.counts = DerivedBench(session, tables["counts"], counts)
        bench.create()
        self.run(1, 2)
        self.run(2, 3)
        self.spark = SparkMaintenance(iceberg_spark, catalog, iceberg_of(self.newest.table))
        self.spark_on_counts = SparkMaintenance(iceberg_spark, catalog, iceberg_of(self.counts.table))

    def land(self, *customers):
        """Put an order of each customer, and read it."""
        for customer in customers:
            number = self._customers[customer] = next(self._numbers)
            self._bench.put(json.dumps({"customer": f"{CUSTOMER}{customer}", "number": number}).encode())
        assert self._bench.run().errors == {}

    def run(self, *customers):
        """Land orders, and consume them."""
        self.land(*customers)
        self.newest.run()
        self.counts.run()

    def assert_right(self):
        """Each reader finds the newest order of each customer once, and those are counted."""
        names = ("customer", "number")
        rows = Counter((repr(f"{CUSTOMER}{each}"), repr(number)) for each, number in self._customers.items())
        found = found_by_all(self._catalog, iceberg_of(self.newest.table), names, spark=self._iceberg_spark)
        assert found == dict.fromkeys(found, rows)
        stored = self.newest.rows.drop_columns(["customer", "_batch_id"]).to_pylist()
        assert sorted(stored, key=itemgetter("number")) == list(
            map(values_of, sorted(self._customers.values()))
        )
        counted = Counter(number % 2 for number in self._customers.values())
        assert dict(self.counts.values("parity", "customers")) == counted


@pytest.fixture
def tables(spark, bench, sqlite_catalog, iceberg_spark, tmp_path):
    return Tables(bench, spark, sqlite_catalog, iceberg_spark, tmp_path)


@pytest.mark.thorough
def test_upserts_and_roll_ups_follow_each_procedure_of_spark(tables):
    assert tables.spark.rewrite_data_files() >= 2
    tables.spark_on_counts.rewrite_data_files()
    tables.run(1, 4)
    tables.spark.rewrite_manifests()
    tables.run(2, 5)
    tables.spark.expire_all_but_current()
    assert len(iceberg_of(tables.newest.table).snapshots()) == 1
    tables.run(3, 4)
    long_ago = time.time() - timedelta(days=3).total_seconds()
    folder = Path(tables.newest.table.uri)
    orphan = folder / "part-of-nobody.parquet"
    orphan.touch()
    for path in folder.rglob("*.*"):
        os.utime(path, (long_ago, long_ago))
    tables.land(1)
    tables.newest.run()  # the roll-up has still to read the rows that this has replaced
    tables.spark.remove_orphan_files()
    assert not orphan.exists()
    tables.run(2, 6)
    tables.assert_right()
    (step,) = (each for each in maintain_derived(tables.newest) if each.step == "compact")
    assert step.state is State.DONE
    tables.run(6)
    tables.assert_right()


@pytest.fixture
def derived(sqlite_catalog, tmp_path):
    """A table that a test writes itself, with files of two commits, in a catalog that Spark reaches too."""
    derived = PlainDerived(tmp_path / "plain", partitioned=False, format=derived_in(sqlite_catalog, "plain"))
    derived.append((1, 10, "a"), (2, 20, "b"))
    derived.append((3, 30, None))
    return derived


@pytest.fixture
def procedures(derived, sqlite_catalog, iceberg_spark):
    return SparkMaintenance(iceberg_spark, sqlite_catalog, iceberg_of(derived.table))


@pytest.mark.thorough
@pytest.mark.parametrize("procedure", ["rewrite_data_files", "rewrite_manifests", "expire_all_but_current"])
def test_a_procedure_of_spark_between_the_preparation_and_the_commit_of_an_upsert_harms_nothing(
    derived, procedures, before_commit, procedure
):
    before_commit(getattr(procedures, procedure))
    until_not_overtaken(derived.table, partial(derived.upsert, (2, 21, "c"), (4, 40, "d")))
    assert derived.rows == Counter([(1, 10, "a"), (2, 21, "c"), (3, 30, None), (4, 40, "d")])


def test_a_compaction_by_spark_during_upserts_harms_nothing(derived, procedures):
    """It fails if commits come first too often, or expire the snapshot on which it is based."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(procedures.rewrite_data_files)
        for value in count(100):
            until_not_overtaken(derived.table, partial(derived.upsert, (2, value, "c")))
            if done.done():
                break
        with suppress(SparkFailed):
            done.result()
    assert derived.rows == Counter([(1, 10, "a"), (2, value, "c"), (3, 30, None)])


def test_a_compaction_by_spark_during_one_of_maintenance_harms_nothing(derived, procedures, monkeypatch):
    original, left = DerivedSnapshot.replace, [procedures.rewrite_data_files]

    def after_spark(snapshot, *arguments):
        if left:
            left.pop()()
        return original(snapshot, *arguments)

    monkeypatch.setattr(DerivedSnapshot, "replace", after_spark)
    rows = derived.rows
    steps_of(derived, limits=MaintenanceLimits(small_files=2))
    assert not left
    assert derived.rows == rows
    derived.upsert((2, 21, "c"))
    assert derived.rows == Counter([(1, 10, "a"), (2, 21, "c"), (3, 30, None)])


@pytest.mark.parametrize("is_expired", [False, True])
def test_a_rollback_by_spark_is_refused_until_the_table_is_rebuilt(derived, procedures, is_expired):
    first = iceberg_of(derived.table).snapshots()[0]
    procedures.roll_back(first.snapshot_id)
    if is_expired:
        procedures.expire_all_but_current()
    with pytest.raises(TableRewritten, match="rollback"):
        derived.append((4, 40, "d"))
    with pytest.raises(TableRewritten, match="rollback"):
        open_source(derived.table.uri, format=derived._format)
    derived.rebuild()
    derived.append((4, 40, "d"))
    assert derived.rows == Counter([(4, 40, "d")])
