"""A derived table over the table of a bench, with the calls that tests make to it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kinesis_assets.derive.maintenance import maintain as maintain_derived_table
from kinesis_assets.derive.run import derive
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.maintenance.steps import MaintenanceLimits
from support.formats import derived_rows, source_format
from support.maintained_table import days_from_now

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.derive.derivation import Derivation
    from kinesis_assets.derive.derived_table import DerivedTable
    from kinesis_assets.table.maintenance.steps import Step
    from support.bench import Bench

ORDER = "id INT, item STRING, amount DOUBLE, day DATE, deleted BOOLEAN"


def orders(rows: DataFrame) -> DataFrame:
    """Decode orders from JSON."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  # unit tests import this module too

    return rows.select(F.from_json(F.col("data").cast("string"), ORDER).alias("order")).select("order.*")


def order(id_: int | None, amount: float = 1.0, **fields: Any) -> bytes:
    """Return the payload of an order."""
    return json.dumps({"id": id_, "amount": amount, **fields}).encode()


@dataclass
class DerivedBench:
    """A derived table and its definition."""

    spark: SparkSession
    table: DerivedTable
    derivation: Derivation

    def run(self, **changes: Any) -> list[DerivedCommit]:
        """Consume what is new, with some fields of the derivation changed, and return the commits."""
        return list(self.steps(**changes))

    def steps(self, **changes: Any) -> Iterator[DerivedCommit]:
        """Consume what is new step by step, as `run` does."""
        return derive(self.spark, self.table, replace(self.derivation, **changes))

    @property
    def exists(self) -> bool:
        return self.table.existing() is not None

    @property
    def as_source(self) -> dict[str, Any]:
        """The fields of a derivation from this table."""
        return {"source": self.table.uri, "source_format": source_format(self.table)}

    @property
    def rows(self) -> pa.Table:
        return derived_rows(self.table)

    def values(self, *columns: str) -> list[Any]:
        """Return the values of some columns, sorted; tuples if there are several."""
        found = [tuple(row[name] for name in columns) for row in self.rows.select(columns).to_pylist()]
        return sorted((row[0] if len(columns) == 1 else row for row in found), key=repr)


def maintain_table(bench: Bench, **options: Any) -> list[Step]:
    """Run maintenance of a bench's table, with both clocks at the service's time."""
    return list(maintain(bench.table, bench.client.describe(), machine=lambda: bench.now, **options))


def maintain_derived(derived: DerivedBench, days: float = 0.0) -> list[Step]:
    """Run maintenance of a derived table some days from now; it compacts as soon as two files are small."""
    now, limits = days_from_now(days), MaintenanceLimits(small_files=2)
    return list(maintain_derived_table(derived.table, now, machine=lambda: now, limits=limits))


def identified(rows: DataFrame) -> DataFrame:
    """Return the columns that identify a record, and its data."""
    return rows.select("shard_id", "sequence_number", "data")


def numbered(kind: str, rows: DataFrame) -> DataFrame:
    """Return the same, and a number of a type."""
    return identified(rows).selectExpr("*", f"CAST(7 AS {kind}) AS number")


def identities(derived: DerivedBench) -> Counter[tuple[str, str, bytes]]:
    """Return the rows of a table with these columns, as in `Bench.acknowledged`."""
    columns = derived.rows
    names = ("shard_id", "sequence_number", "data")
    return Counter(zip(*(columns[name].to_pylist() for name in names), strict=True))
