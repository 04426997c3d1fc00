"""Upserts by keys of any type and value, in files of any writer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.derivation import Upsert
from kinesis_assets.errors import InvalidInput
from support.derived import order, orders

HARD_TEXTS = [
    "a b",
    " a ",
    "a/b",
    "100%",
    "a%20b",
    "it's",
    'q"q',
    "ü",
    "a=b",
    "?&#+",
    "\\",
    "\n",
    "..",
    "null",
]


def upsert_by(derived, *key, partition_by=(), **columns):
    """Define a table with some more columns and a key."""
    derived.derivation = replace(
        derived.derivation,
        mode=Upsert(key=key, order_by=("amount",)),
        partition_by=partition_by,
        transform=lambda new: orders(new).withColumns(columns),
    )


def consume(bench, derived, *orders_):
    bench.put(*orders_)
    bench.run()
    derived.run()


def rewrite_files(derived):
    """Replace all files by ones with the statistics and paths of another writer."""
    table = DeltaTable(derived.table.uri)
    table.optimize.z_order(["amount"])
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)


def test_a_key_with_columns_of_many_types_is_found(bench, derived):
    first = F.col("id") == 1
    columns = {
        "time": F.timestamp_micros(F.col("id") * 1_000_001),
        "local": F.timestamp_micros(F.col("id") * 1_000_001).cast("timestamp_ntz"),
        "big": (F.col("id") + F.expr("12345678901234567890.123456")).cast("decimal(38,6)"),
        "flag": first,
        "number": F.when(first, F.lit(float("nan"))).otherwise(F.lit(0.1)),
        "bytes": F.encode(F.col("id").cast("string"), "utf-8"),
        "long": F.col("id") + F.lit((1 << 62) - 1),
        "text": F.concat(F.repeat(F.lit("z"), 5000), F.col("id").cast("string")),
        "symbol": F.when(first, F.lit("\U0001f600")).otherwise(F.lit("\uffee")),
        "date": F.date_add(F.lit("9999-12-31").cast("date"), F.col("id")),
    }
    upsert_by(derived, *columns, **columns)
    for amount in (1.0, 2.0):
        consume(bench, derived, order(1, amount), order(2, amount))
    rewrite_files(derived)
    consume(bench, derived, order(1, 3.0), order(2, 3.0))
    assert derived.values("id", "amount") == [(1, 3.0), (2, 3.0)]


def test_rows_in_partitions_of_any_text_are_replaced(bench, derived):
    text = F.element_at(F.array(*map(F.lit, HARD_TEXTS)), F.col("id") + 1)
    upsert_by(derived, "id", partition_by=("text",), text=text)
    for amount in (1.0, 2.0):
        consume(bench, derived, *(order(number, amount) for number in range(len(HARD_TEXTS))))
        rewrite_files(derived)
    consume(bench, derived, *(order(number, 3.0) for number in range(len(HARD_TEXTS))))
    assert derived.values("text", "amount") == sorted(((text, 3.0) for text in HARD_TEXTS), key=repr)


@pytest.mark.thorough
def test_a_key_of_partition_columns_alone_is_found(bench, derived):
    upsert_by(derived, "id", partition_by=("id",))
    for amount in (1.0, 2.0):
        consume(bench, derived, order(1, amount), order(2, amount))
    assert derived.values("id", "amount") == [(1, 2.0), (2, 2.0)]


@pytest.mark.thorough
def test_a_key_that_moves_to_another_partition_is_replaced(bench, derived):
    upsert_by(derived, "id", partition_by=("day",))
    for day in ("2026-01-01", "2026-01-02"):
        consume(bench, derived, order(1, float(day[-1]), day=day))
    assert derived.values("id", "amount") == [(1, 2.0)]


def test_nan_is_older_than_any_number(bench, derived):
    amount = F.when(F.col("amount") == 1.0, F.lit(float("nan"))).otherwise(F.col("amount"))
    upsert_by(derived, "id", amount=amount)
    consume(bench, derived, order(1, 1.0))
    consume(bench, derived, order(1, 0.5))
    assert derived.values("id", "amount") == [(1, 0.5)]


def test_an_empty_text_in_a_key_column_that_is_a_partition_column_is_refused(bench, derived):
    upsert_by(derived, "item", partition_by=("item",))
    bench.put(order(1, item=""), order(2, item="a"))
    bench.run()
    with pytest.raises(InvalidInput, match=r"/orders: the key column item .* 1 new rows.*nullif\(item"):
        derived.run()
    assert derived.table.existing() is None


def test_an_empty_text_in_another_partition_column_is_stored_as_null(bench, derived):
    upsert_by(derived, "id", partition_by=("item",))
    for amount in (1.0, 2.0):
        consume(bench, derived, order(1, amount, item=""), order(2, amount, item=None))
    assert derived.values("id", "item", "amount") == [(1, None, 2.0), (2, None, 2.0)]


def test_an_empty_text_in_a_key_without_partitions_is_a_key(bench, derived):
    upsert_by(derived, "item")
    for amount in (1.0, 2.0):
        consume(bench, derived, order(1, amount, item=""))
    assert derived.values("item", "amount") == [("", 2.0)]
