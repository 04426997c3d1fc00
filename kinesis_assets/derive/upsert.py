"""Upserts: of all rows with a key, in the table and among the new ones, only the newest stays.

Files of the table are never changed. Those with a row that is replaced are copied without it, in the commit
that adds the new rows (copy on write). The commit is refused if any other one came first, because a
compaction may have moved the rows to other files. Of the table's rows, Spark only gets the columns that
decide which of them are replaced.

The table is the one that results if the rows are taken one after the other, in the order of
`derive.row_order`: a row replaces the one with its key unless that one is newer by `order_by`. So it does not
depend on where steps end. If a transformation loses the order, rows that are equal in `order_by` are compared
by all their columns instead.
"""

from __future__ import annotations

import re
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
from kinesis_assets.derive.row_order import ORDER_COLUMN
from kinesis_assets.spark.carried_column import carried, is_in_order, with_carried

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.derive.files import TableFile

_PLACE_COLUMN = "__place"
"""The column with the place of a row among those that a transformation made of one row, as `explode` does."""

_RANK, _NEWEST, _DELETES, _LATER_DELETION = "__rank", "__newest", "__deletes", "__later_deletion"

_INTERNAL = "__"

_MAP = "map<"
"""Spark does not compare values of a type that contains this."""

_EPOCH = date(1970, 1, 1).toordinal()

_MAY_BE_ANOTHER = re.compile("[\U00010000-\U0001ffff]")


@dataclass(frozen=True, slots=True)
class Upsert:
    """How rows replace others.

    Attributes:
        key: The columns that identify a row. A row in which one of them is null replaces no other.
        order_by: The columns by which the newest row of a key is found, most significant first. Of equal rows
            the later one is newer, see above. Null and NaN are older than any value.
        delete_where: A condition in Spark SQL. A row for which it is true deletes its key unless a row before
            it is newer. Later rows insert the key again.
    """

    key: tuple[str, ...]
    order_by: tuple[str, ...]
    delete_where: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that new rows must have."""
        return (*self.key, *self.order_by)


def with_order(rows: DataFrame) -> DataFrame:
    """Return the rows of a transformation, with the columns that say which of two is the later one."""
    if carried(rows) is None:
        return rows
    place = F.monotonically_increasing_id() if is_in_order(rows) else F.lit(0).cast("long")
    return with_carried(rows).withColumn(_PLACE_COLUMN, place)


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
        new: The new rows, see `with_order`. They are computed several times, so they should be cached.
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
        names = {field["name"] for field in snapshot.schema["fields"]}
        needed = upsert.columns if ORDER_COLUMN in new.columns else [*upsert.columns, *new.columns]
        columns = [name for name in dict.fromkeys(needed) if name in names]
        present = read(spark, snapshot.table.folder, snapshot.delta, files, columns=columns, with_place=True)
        keys = keyed.select(*(F.col(f"`{name}`") for name in upsert.key))
        known = present.join(keys, list(upsert.key), "left_semi")
        compared = compared.unionByName(known, allowMissingColumns=True)
    ranked = _ranked(compared, upsert, tasks)
    is_new, is_newest = F.col(POSITION_COLUMN).isNull(), F.col(_NEWEST)
    changed = ranked.where((is_new & is_newest) | (~is_new & ~is_newest))
    changed = cache(changed.drop(ORDER_COLUMN, _PLACE_COLUMN, _NEWEST))
    without_key = without_place(new.where(~has_key).drop(ORDER_COLUMN, _PLACE_COLUMN))
    return ChangedRows(changed.unionByName(without_key), removed_files(changed, files))


def _all_present(key: Sequence[str]) -> Column:
    condition = F.lit(True)
    for name in key:
        condition &= F.col(f"`{name}`").isNotNull()
    return condition


def _ranked(rows: DataFrame, upsert: Upsert, tasks: int) -> DataFrame:
    """Mark the row of each key that stays, if one does. A new row gets a file in which its key is."""
    key = [F.col(f"`{name}`") for name in upsert.key]
    is_new = F.col(POSITION_COLUMN).isNull()
    newer = F.struct(
        *(_without_nan(rows, name).alias(f"order_{number}") for number, name in enumerate(upsert.order_by))
    )
    later = _later(rows, is_new)
    same_key = Window.partitionBy(*key)
    ranked = rows.repartition(tasks, *key)
    stays = F.lit(True)
    if upsert.delete_where is not None:
        # Of the deletions after a row, the newest one deletes it unless a newer row comes in between, which
        # then stays instead.
        after = same_key.orderBy(*(column.desc_nulls_last() for column in later)).rowsBetween(
            Window.unboundedPreceding, -1
        )
        deletes = is_new & F.coalesce(F.expr(upsert.delete_where), F.lit(False))
        ranked = ranked.withColumn(_DELETES, deletes)
        deletion = F.max(F.when(F.col(_DELETES), newer)).over(after)
        ranked = ranked.withColumn(_LATER_DELETION, deletion)
        is_newer = F.col(_LATER_DELETION).isNull() | (newer > F.col(_LATER_DELETION))
        stays = ~F.col(_DELETES) & is_newer
    order = [stays.desc(), *(column.desc_nulls_last() for column in (newer, *later))]
    ranked = ranked.withColumns(
        {
            _RANK: F.row_number().over(same_key.orderBy(*order)),
            FILE_COLUMN: F.coalesce(F.col(FILE_COLUMN), F.max(FILE_COLUMN).over(same_key)),
        }
    )
    return ranked.withColumn(_NEWEST, (F.col(_RANK) == 1) & stays).drop(_RANK, _DELETES, _LATER_DELETION)


def _later(rows: DataFrame, is_new: Column) -> list[Column]:
    """Return columns that order the rows of a key from the first to the last, most significant first."""
    values = [
        F.to_json(F.struct(column)) if _MAP in field.dataType.simpleString() else column
        for field in rows.schema
        if not field.name.startswith(_INTERNAL)
        for column in [F.col(f"`{field.name}`")]
    ]
    if ORDER_COLUMN in rows.columns:
        return [is_new, F.col(ORDER_COLUMN), F.col(_PLACE_COLUMN), *values]
    return [*values, is_new]


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


def _known(bound: Any) -> Any:
    """Return a smallest or greatest value of a file; None if it may be another one.

    Earlier releases escaped characters in statistics, and delta-rs reads those beyond U+1FFFF as others.
    """
    return None if isinstance(bound, str) and _MAY_BE_ANOTHER.search(bound) else bound


def _may_contain(file: TableFile, limits: Mapping[str, tuple[Any, Any]]) -> bool:
    """Return whether a file may have a key within some limits."""
    for name, (smallest, greatest) in limits.items():
        if name in file.partition and file.partition[name] is None:
            return False
        first, last = _known(file.smallest[name]), _known(file.greatest[name])
        if name in file.partition:
            value = file.partition[name]
            first = last = value.toordinal() - _EPOCH if isinstance(value, date) else value
        if (first is not None and first > greatest) or (last is not None and last < smallest):
            return False
    return True
