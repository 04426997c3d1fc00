"""Readers of Delta tables, with a filter that each of them gets in its own language."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder

from benchmarks.harness.peer_environments import PeerUnavailable, delta_python
from support.skipping import give_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Filter:
    """A condition for a column: it has a value, or no smaller one. None stands for null."""

    column: str
    value: Any
    is_bound: bool = False

    def accepts(self, row: Mapping[str, Any]) -> bool:
        found = row[self.column]
        if self.is_bound:
            return found is not None and found >= self.value
        return bool(found == self.value)

    @property
    def sql(self) -> str:
        """The condition in SQL."""
        if self.value is None:
            return f'"{self.column}" IS NULL'
        text = str(self.value).replace("'", "''")
        value = text if isinstance(self.value, int | float) else f"'{text}'"
        return f'"{self.column}" {">=" if self.is_bound else "="} {value}'

    @property
    def arrow(self) -> pc.Expression:
        field = pc.field(self.column)
        if self.value is None:
            return field.is_null()
        return field >= self.value if self.is_bound else field == self.value

    @property
    def polars(self) -> pl.Expr:
        column = pl.col(self.column)
        if self.value is None:
            return column.is_null()
        return column >= self.value if self.is_bound else column == self.value


@cache
def duck() -> duckdb.DuckDBPyConnection:
    """Return DuckDB with its extensions for Delta and Iceberg, and the one for Avro that the latter needs."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("delta", "avro", "iceberg"):
        package = find_spec(f"duckdb_extension_{name}")
        assert package is not None
        assert package.origin is not None
        (extension,) = Path(package.origin).parent.glob(f"extensions/*/{name}.duckdb_extension")
        connection.load_extension(str(extension))
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def query(sql: str, **tables: str) -> list[tuple[Any, ...]]:
    """Return the rows that DuckDB finds.

    Args:
        tables: The tables of the schema `lake`, by name: what each is a view of.
    """
    cursor = duck().cursor()
    cursor.execute("CREATE SCHEMA IF NOT EXISTS lake")
    for name, source in tables.items():
        cursor.execute(f"CREATE OR REPLACE VIEW lake.{name} AS SELECT * FROM {source}")  # noqa: S608
    return cursor.execute(sql).fetchall()


def _with_duckdb(uri: str, columns: Sequence[str], condition: Filter) -> pa.Table:
    names = ", ".join(f'"{name}"' for name in columns)
    query = f"SELECT {names} FROM delta_scan('{uri}') WHERE {condition.sql}"  # noqa: S608
    return duck().execute(query).to_arrow_table()


def _with_polars(uri: str, columns: Sequence[str], condition: Filter) -> pa.Table:
    return pl.scan_delta(uri).filter(condition.polars).select(columns).collect().to_arrow()


def _with_delta_rs(uri: str, columns: Sequence[str], condition: Filter) -> pa.Table:
    names = ", ".join(f'"{name}"' for name in columns)
    query = f"SELECT {names} FROM table_of_the_test WHERE {condition.sql}"  # noqa: S608
    return pa.table(QueryBuilder().register("table_of_the_test", DeltaTable(uri)).execute(query))


def _with_pyarrow(uri: str, columns: Sequence[str], condition: Filter) -> pa.Table:
    return DeltaTable(uri).to_pyarrow_dataset().to_table(columns=list(columns), filter=condition.arrow)


READERS: Mapping[str, Callable[[str, Sequence[str], Filter], pa.Table]] = {
    "DuckDB": _with_duckdb,
    "Polars": _with_polars,
    "delta-rs": _with_delta_rs,
    "PyArrow": _with_pyarrow,
}


def found_by(reader: str, uri: str, columns: Sequence[str], condition: Filter) -> Counter[tuple[Any, ...]]:
    """Return the rows of a table that a reader finds with a filter."""
    return _rows(READERS[reader](uri, columns, condition), columns)


def _rows(table: pa.Table, columns: Sequence[str]) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(table[name].to_pylist() for name in columns), strict=True))


_SPARK = """
import json, sys
from benchmarks.peers.delta_spark import session
from pyspark.sql.functions import col, lit

spark = session()
spark.conf.set("spark.databricks.delta.snapshotPartitions", "1")  # the default, 50, is slow for a few files
for line in sys.stdin:
    uri, columns, column, value, is_bound = json.loads(line)
    found = col(f"`{column}`")
    condition = found.isNull() if value is None else found >= lit(value) if is_bound else found == lit(value)
    rows = spark.read.format("delta").load(uri).where(condition).selectExpr(*columns)
    print(json.dumps(["found", [list(row) for row in rows.collect()]], default=str), flush=True)
"""


def found_by_delta_spark(
    uri: str, columns: Sequence[str], conditions: Iterable[Filter]
) -> list[Counter[tuple[Any, ...]]]:
    """Return the rows of a table that delta-spark finds with each filter, see `read_by_delta_spark`."""
    return read_by_delta_spark((uri, columns, condition) for condition in conditions)


def read_by_delta_spark(
    requests: Iterable[tuple[str, Sequence[str], Filter]],
) -> list[Counter[tuple[Any, ...]]]:
    """Return the rows that delta-spark finds in tables, with dates and decimals as texts.

    It runs in the environment of the benchmarks, because it needs another version of Spark.

    Args:
        requests: The URI of a table, the columns, or expressions in Spark SQL, and the filter of each.
    """
    try:
        python = delta_python()
    except PeerUnavailable as error:
        give_up(f"delta-spark cannot be installed: {error}")
    lines = [
        json.dumps([uri, list(columns), each.column, each.value, each.is_bound], default=str)
        for uri, columns, each in requests
    ]
    done = subprocess.run(
        [python, "-c", _SPARK], cwd=ROOT, input="\n".join(lines), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    replies = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["found"')]
    return [Counter(map(tuple, rows)) for _, rows in replies]
