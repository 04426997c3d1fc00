"""Each kind of derived table over the records of `put_many`, and the rows that it must have."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.derivation import Derivation, Rollup, Upsert
from support.derived import identified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import Column, DataFrame

    from support.derived import DerivedBench

Record = tuple[str, str, bytes]
"""Shard id, sequence number and data, as in `Bench.acknowledged`."""

KEYS = 10


def number() -> Column:
    """Return the number of a record, which counts those that were put."""
    return F.split(F.col("data").cast("string"), " ")[1].cast("bigint")


def number_of(record: Record) -> int:
    return int(record[2].split()[1])


def newest(rows: DataFrame) -> DataFrame:
    """Return the number of each record and its key. The newest record of a key has the greatest number."""
    return rows.select((number() % KEYS).alias("key"), number().alias("number"))


def newest_of(records: Sequence[Record]) -> Iterable[tuple[int, int]]:
    return {number_of(record) % KEYS: number_of(record) for record in records}.items()


def sums(rows: DataFrame) -> DataFrame:
    """Return how many records each shard has, and the sum of their numbers."""
    numbered = rows.select("shard_id", number().alias("number"))
    return numbered.groupBy("shard_id").agg(F.count("*").alias("records"), F.sum("number").alias("total"))


def sums_of(records: Sequence[Record]) -> Iterable[tuple[str, int, int]]:
    counts = Counter(shard_id for shard_id, _, _ in records)
    totals: Counter[str] = Counter()
    for record in records:
        totals[record[0]] += number_of(record)
    return [(shard_id, counts[shard_id], totals[shard_id]) for shard_id in counts]


@dataclass(frozen=True)
class Kind:
    """A kind of derived table.

    Attributes:
        transform: From rows of the raw table to rows of the derived one.
        mode: How rows replace others; None to append them.
        columns: The columns of the rows.
        rows_of: Returns the rows that some records lead to.
    """

    name: str
    transform: Callable[[DataFrame], DataFrame]
    mode: Upsert | Rollup | None
    columns: tuple[str, ...]
    rows_of: Callable[[Sequence[Record]], Iterable[tuple[Any, ...]]]

    def __str__(self) -> str:
        return self.name

    def derivation(self, source: str) -> Derivation:
        return Derivation(source, self.transform, self.mode)

    def assert_exact(self, derived: DerivedBench, records: Sequence[Record]) -> None:
        """The table has each row that records lead to exactly once, and no other."""
        assert Counter(derived.values(*self.columns)) == Counter(self.rows_of(records))


IDENTITY = ("shard_id", "sequence_number", "data")

APPENDED = Kind("appended", identified, None, IDENTITY, lambda records: records)
UPSERTED = Kind("upserted", newest, Upsert(("key",), ("number",)), ("key", "number"), newest_of)
ROLLED_UP = Kind("rolled-up", sums, Rollup(("shard_id",)), ("shard_id", "records", "total"), sums_of)

KINDS = {kind.name: kind for kind in (APPENDED, UPSERTED, ROLLED_UP)}
