"""Readers of an Iceberg table: each returns its rows, with a filter in its own language."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo, GreaterThanOrEqual, IsNull

from support.iceberg.plain_values import plain
from support.readers import duck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyiceberg.table import Table

    from support.iceberg.catalogs import TestCatalog
    from support.iceberg.spark import IcebergSpark
    from support.readers import Filter

    Rows = list[dict[str, Any]]

os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"  # Polars warns that it lacks a faster one


def _expression(condition: Filter | None) -> BooleanExpression:
    if condition is None:
        return AlwaysTrue()
    if condition.value is None:
        return IsNull(condition.column)
    kind = GreaterThanOrEqual if condition.is_bound else EqualTo
    return kind(condition.column, condition.value)


def _with_pyiceberg(table: Table, columns: Sequence[str], condition: Filter | None) -> Rows:
    found = table.scan(_expression(condition), selected_fields=tuple(columns)).to_arrow()
    return found.select(list(columns)).to_pylist()  # it orders them as the table does


def _with_polars(table: Table, columns: Sequence[str], condition: Filter | None) -> Rows:
    frame = pl.scan_iceberg(table)
    return (
        (frame if condition is None else frame.filter(condition.polars)).select(columns).collect().to_dicts()
    )


def with_duckdb(table: Table, columns: Sequence[str], condition: Filter | None) -> Rows:
    """Return the rows that DuckDB finds."""
    source = f"iceberg_scan('{table.metadata_location}')"
    return duck().execute(_query(source, columns, condition)).to_arrow_table().to_pylist()


READERS: Mapping[str, Callable[[Table, Sequence[str], Filter | None], Rows]] = {
    "pyiceberg": _with_pyiceberg,
    "Polars": _with_polars,
    "DuckDB": with_duckdb,
}


def found_by_all(
    catalog: TestCatalog,
    table: Table,
    columns: Sequence[str],
    condition: Filter | None = None,
    spark: IcebergSpark | None = None,
) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return the rows of the current snapshot that each reader finds.

    Args:
        spark: Reads besides the others, if it is given.
    """
    table = table.refresh()
    found = {name: read(table, columns, condition) for name, read in READERS.items()}
    if spark is not None:
        query = _query(".".join(table.name()), columns, condition)
        found["Spark"] = spark.sql(catalog, query.replace('"', "`"))
    return {name: _counted(rows, columns) for name, rows in found.items()}


def _query(source: str, columns: Iterable[str], condition: Filter | None) -> str:
    names = ", ".join(columns)
    return f"SELECT {names} FROM {source}{f' WHERE {condition.sql}' if condition else ''}"  # noqa: S608


def _counted(rows: Rows, columns: Sequence[str]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(repr(plain(row[name])) for name in columns) for row in rows)
