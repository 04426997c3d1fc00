"""Upserts: of all rows with a key, in the table and among the new ones, only the newest stays.

Files of the table are never changed. Those with a row that is replaced are copied without it, in the commit
that adds the new rows (copy on write). The commit is refused if any other one came first, because a
compaction may have moved the rows to other files. Of the table's rows, Spark only gets the columns that
decide which of them are replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import DateType, DoubleType, FloatType, IntegralType, StringType

from kinesis_assets.derive.changed_rows import ChangedRows, removed_files, without_place
from kinesis_assets.derive.features import refuse_irreplaceable
from kinesis_assets.derive.files import files_of
from kinesis_assets.derive.read import FILE_COLUMN, POSITION_COLUMN, read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.derive.files import TableFile

_RANK = "__rank"

_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Upsert:
    """How rows replace others.

    Attributes:
        key: The columns that identify a row. A row in which one of them is null replaces no other.
        order_by: The columns by which the newest row of a key is found, most significant first. Of equal rows
            the one from the later commit is newer. Null and NaN are older than any value.
        delete_where: A condition in Spark SQL. If it is true for the newest row of a key, the key is deleted.
    """

    key: tuple[str, ...]
    order_by: tuple[str, ...]
    delete_where: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that new rows must have."""
        return (*self.key, *self.order_by)


def upserted(
    spark: SparkSession,
    snapshot: DerivedSnapshot,
    new: DataFrame,
    upsert: Upsert,
    *,
    cache: Callable[[DataFrame], DataFrame],
    tasks: int,
) -> ChangedRows:
    """Return what replaces the files of a table in which keys of new rows occur.

    Args:
        spark: The session.
        snapshot: The version of the table that is changed.
        new: The new rows. They are computed several times, so they should be cached.
        upsert: How rows replace others.
        cache: Keeps rows once Spark has computed them.
        tasks: Number of tasks that compare rows.

    Raises:
        TableUnsuitable: The table has a feature with which its files cannot be replaced.
    """
    refuse_irreplaceable(snapshot.table.uri, snapshot.delta)
    has_key = _all_present(upsert.key)
    keyed = new.where(has_key)
    compared = without_place(keyed)
    files = _files_within(snapshot, _limits(keyed, upsert.key))
    if files:
        columns = list(dict.fromkeys(upsert.columns))
        present = read(spark, snapshot.table.folder, snapshot.delta, files, columns=columns, with_place=True)
        keys = keyed.select(*(F.col(f"`{name}`") for name in upsert.key))
        known = present.join(keys, list(upsert.key), "left_semi")
        compared = compared.unionByName(known, allowMissingColumns=True)
    ranked = _ranked(compared, upsert, tasks)
    deleted = F.lit(False)
    if upsert.delete_where is not None:
        deleted = F.coalesce(F.expr(upsert.delete_where), F.lit(False))
    is_new, is_newest = F.col(POSITION_COLUMN).isNull(), F.col(_RANK) == 1
    changed = ranked.where((is_new & is_newest & ~deleted) | (~is_new & ~is_newest)).drop(_RANK)
    changed = cache(changed)
    without_key = without_place(new.where(~has_key))
    return ChangedRows(changed.unionByName(without_key), removed_files(changed, files))


def _all_present(key: Sequence[str]) -> Column:
    condition = F.lit(True)
    for name in key:
        condition &= F.col(f"`{name}`").isNotNull()
    return condition


def _ranked(rows: DataFrame, upsert: Upsert, tasks: int) -> DataFrame:
    """Number the rows of each key, the newest first, from 1. A new row gets a file in which its key is."""
    key = [F.col(f"`{name}`") for name in upsert.key]
    is_new = F.col(POSITION_COLUMN).isNull()
    order = [_without_nan(rows, name).desc_nulls_last() for name in upsert.order_by]
    same_key = Window.partitionBy(*key)
    return rows.repartition(tasks, *key).withColumns(
        {
            _RANK: F.row_number().over(same_key.orderBy(*order, is_new.desc())),
            FILE_COLUMN: F.coalesce(F.col(FILE_COLUMN), F.max(FILE_COLUMN).over(same_key)),
        }
    )


def _without_nan(rows: DataFrame, name: str) -> Column:
    """Return a column with null in place of NaN, which Spark orders after all numbers."""
    column = F.col(f"`{name}`")
    if isinstance(rows.schema[name].dataType, FloatType | DoubleType):
        return F.when(~F.isnan(column), column)
    return column


def _files_within(snapshot: DerivedSnapshot, limits: Mapping[str, tuple[Any, Any]] | None) -> list[TableFile]:
    """Return the files of the table that may have a key within some limits; none without limits."""
    if limits is None:
        return []
    return [file for file in files_of(snapshot.delta, list(limits)) if _may_contain(file, limits)]


def _limits(rows: DataFrame, key: Sequence[str]) -> dict[str, tuple[Any, Any]] | None:
    """Return the smallest and the greatest value of columns of a key; None if there are no rows.

    Columns of other types are left out: writers round their statistics, or leave out values such as NaN.
    """
    ordered = {}
    for name in key:
        kind, column = rows.schema[name].dataType, F.col(f"`{name}`")
        if isinstance(kind, IntegralType | StringType):
            ordered[name] = column
        elif isinstance(kind, DateType):
            ordered[name] = F.unix_date(column)  # Python has no date after the year 9999
    found = rows.agg(
        F.count(F.lit(1)), *(bound(column) for column in ordered.values() for bound in (F.min, F.max))
    ).head()
    if found is None or not found[0]:
        return None
    return {name: (found[2 * index + 1], found[2 * index + 2]) for index, name in enumerate(ordered)}


def _may_contain(file: TableFile, limits: Mapping[str, tuple[Any, Any]]) -> bool:
    """Return whether a file may have a key within some limits."""
    for name, (smallest, greatest) in limits.items():
        if name in file.partition and file.partition[name] is None:
            return False
        first, last = file.smallest[name], file.greatest[name]
        if name in file.partition:
            value = file.partition[name]
            first = last = value.toordinal() - _EPOCH if isinstance(value, date) else value
        if (first is not None and first > greatest) or (last is not None and last < smallest):
            return False
    return True
