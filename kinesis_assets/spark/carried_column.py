"""A column that travels beside the rows of a DataFrame, unseen by the code that transforms them.

A method of `DataFrame` that makes each row of one row, such as `select`, `where` or `withColumn`, is also
applied to the rows with the column. So are joins and unions, and methods that only move rows. Any other
method, such as `groupBy`, returns rows without it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kinesis_assets.spark.arrow_steps import map_in_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_ATTRIBUTE = "_kinesis_carried"

_ROW_BY_ROW = (
    "alias",
    "drop",
    "dropna",
    "fillna",
    "filter",
    "replace",
    "select",
    "selectExpr",
    "where",
    "withColumn",
    "withColumnRenamed",
    "withColumns",
    "withColumnsRenamed",
)
"""Methods that keep the order of the rows that they return. `explode` is a part of `select`."""

_UNIONS = ("union", "unionAll", "unionByName")

_MOVING = ("coalesce", "join", "orderBy", "repartition", "repartitionByRange", "sort", "sortWithinPartitions")
"""Methods that keep all rows, or those that have a match, in any order."""

_JOINS = frozenset({"anti", "cross", "inner", "left", "leftanti", "leftouter", "leftsemi", "semi"})
"""The joins in whose result each row is of a row of the first DataFrame."""

_SUBSET = 2
"""The place of the columns among the arguments of `dropna`."""

_INNER_STAR = re.compile(r"[(,]\s*\*\s*[,)]|unresolvedstar\(\)")
"""All columns as arguments of a function, also as Spark 3.5 writes them: the column would be among them."""


@dataclass(frozen=True, slots=True)
class _Carried:
    """Rows with the column, and whether their order is still the one in which the column was added."""

    full: DataFrame
    column: str
    in_order: bool


def carry(full: DataFrame, column: str, *, in_order: bool = True) -> DataFrame:
    """Return rows without a column, which their transformations carry along.

    Args:
        full: Rows with the column.
        in_order: Whether the rows are in the order that `is_in_order` is about.
    """
    rows = full.drop(column)
    setattr(rows, _ATTRIBUTE, _Carried(full, column, in_order))
    for name in (*_ROW_BY_ROW, *_UNIONS, *_MOVING):
        if hasattr(type(rows), name):
            setattr(rows, name, partial(_applied, rows, name))
    return rows


def carried(rows: DataFrame) -> str | None:
    """Return the name of the column that rows carry; None if they carry none."""
    found = _of(rows)
    return None if found is None else found.column


def with_carried(rows: DataFrame) -> DataFrame:
    """Return rows with the column that they carry, if they carry one."""
    found = _of(rows)
    return rows if found is None else found.full


def is_in_order(rows: DataFrame) -> bool:
    """Return whether rows carry a column, and are in the order in which it was added in each partition."""
    found = _of(rows)
    return found is not None and found.in_order


def map_each_row(
    rows: DataFrame, step: Callable[[pa.RecordBatch], pa.RecordBatch], schema: StructType
) -> DataFrame:
    """Apply a function that returns a row for each row of a batch, as `map_in_arrow` does."""
    from pyspark.sql.types import StructType  # noqa: PLC0415  # tasks do not need it

    found = _of(rows)
    if found is None:
        return map_in_arrow(rows, partial(map, step), schema)
    column = found.column

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield step(batch).append_column(column, batch[column])

    full = map_in_arrow(found.full, run, StructType([*schema, found.full.schema[column]]))
    return carry(full, column, in_order=found.in_order)


def _of(rows: DataFrame) -> _Carried | None:
    found: _Carried | None = vars(rows).get(_ATTRIBUTE)
    return found


def _applied(rows: DataFrame, name: str, *args: Any, **kwargs: Any) -> DataFrame:
    """Apply a method to rows, and to the column if that changes nothing else."""
    from pyspark.errors import PySparkException  # noqa: PLC0415  # tasks do not need it

    plain: DataFrame = getattr(type(rows), name)(rows, *args, **kwargs)
    found = _of(rows)
    if found is None:
        return plain
    try:
        full = _applied_to_full(rows, found, name, args, kwargs)
        if full is None:
            return plain
        result = carry(full, found.column, in_order=found.in_order and name in _ROW_BY_ROW)
        is_same = result.schema == plain.schema  # Spark Connect analyzes both only now
    except PySparkException:  # such as a column of an earlier DataFrame on Spark Connect
        return plain
    return result if is_same else plain


def _applied_to_full(
    rows: DataFrame, found: _Carried, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> DataFrame | None:
    """Return the result of a method with the column; None if it cannot have the column."""
    if name in _ROW_BY_ROW and _INNER_STAR.search(repr((args, kwargs))):
        return None
    if name in {"select", "selectExpr"}:
        return _selected(rows, found, name, args)
    if name == "dropna" and len(args) <= _SUBSET and kwargs.get("subset") is None:
        kwargs = {**kwargs, "subset": rows.columns}  # the column is a value of each row
    if name in _UNIONS:
        other, *rest = args or (kwargs.pop("other"),)
        carried_by_other = _of(other)
        if carried_by_other is None:
            return None
        first, second = (
            each.full.select(*map(_quoted, of.columns), each.column)
            for of, each in ((rows, found), (other, carried_by_other))
        )
        united: DataFrame = getattr(first, name)(second, *rest, **kwargs)
        return united
    if name == "join":
        how = kwargs.get("how", args[2] if len(args) > 2 else None) or "inner"  # noqa: PLR2004  # its third argument
        if how.lower().replace("_", "") not in _JOINS:
            return None
    result: DataFrame = getattr(found.full, name)(*args, **kwargs)
    return result if found.column in result.columns else None


def _selected(rows: DataFrame, found: _Carried, name: str, args: tuple[Any, ...]) -> DataFrame:
    """Return selected columns and the carried one."""
    given: Sequence[Any] = args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args
    columns: list[Any] = []
    for each in given:
        text = each if isinstance(each, str) else repr(each)
        if text.strip() == "*" or text == "Column<'*'>":
            columns += map(_quoted, rows.columns)
        else:
            columns.append(each)
    selected: DataFrame = getattr(found.full, name)(*columns)
    if found.column in selected.columns:  # by the alias of a DataFrame, as in clicks.*
        return selected
    result: DataFrame = getattr(found.full, name)(*columns, found.column)
    return result


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
