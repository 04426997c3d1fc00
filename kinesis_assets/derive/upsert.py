"""Replaces rows of a table: in upserts the one with the same key, in roll-ups those of changed groups.

Files of the table are never changed. Those with a row that is replaced are copied without it, in the commit
that adds the new rows (copy on write). The commit is refused if any other one came first, because a
compaction may have moved the rows to other files. Of the table's rows, Spark only gets the columns that
decide which of them are replaced.

The table is the one that results if the rows are taken one after the other, in the order of
`derive.row_order`: a row replaces the one with its key unless that one is newer by `order_by`. So it does
not depend on where steps end. If a transformation loses the order, rows that are equal in `order_by` are
compared by all their columns instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import DateType, DoubleType, FloatType, IntegralType, StringType

from kinesis_assets.derive.data_files import BATCH_COLUMN
from kinesis_assets.derive.new_rows import read_rows
from kinesis_assets.derive.policy import DeletedRows, Deletion
from kinesis_assets.derive.read import FILE_COLUMN, POSITION_COLUMN, read, with_null_for_empty
from kinesis_assets.derive.row_order import ORDER_COLUMN
from kinesis_assets.spark.carried_column import carried, is_in_order, with_carried

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from kinesis_assets.derive.derivation import Upsert
    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.derive.new_rows import NewRows
    from kinesis_assets.derive.source import Source
    from kinesis_assets.table.data_file import TableFile


_PLACE_COLUMN = "__place"
"""The column with the place of a row among those that a transformation made of one row, as `explode` does."""

_RANK, _NEWEST, _DELETES, _LATER_DELETION = "__rank", "__newest", "__deletes", "__later_deletion"

_INTERNAL = "__"

_MAP = "map<"
"""Spark does not compare values of a type that contains this."""

_EPOCH = date(1970, 1, 1).toordinal()

_MAY_BE_ANOTHER = re.compile("[\U00010000-\U0001ffff]")


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
        snapshot: The version of the table that is changed.
        new: The new rows, see `with_order`. They are computed several times, so they should be cached.
        upsert: How rows replace others.
        cache: Keeps rows once Spark has computed them.
        tasks: Number of tasks that compare rows.

    Raises:
        TableUnsuitable: The table has a feature with which its files cannot be replaced.
    """
    snapshot.refuse_irreplaceable()
    has_key = all_present(upsert.key)
    keyed = new.where(has_key)
    compared = without_place(keyed)
    files = _files_within(snapshot, _limits(keyed, upsert.key))
    if files:
        names = {field["name"] for field in snapshot.schema["fields"]}
        needed = upsert.columns if ORDER_COLUMN in new.columns else [*upsert.columns, *new.columns]
        columns = [name for name in dict.fromkeys(needed) if name in names]
        present = read(spark, snapshot, files, columns=columns, with_place=True)
        keys = keyed.select(*(F.col(f"`{name}`") for name in upsert.key))
        known = present.join(keys, list(upsert.key), "left_semi")
        compared = compared.unionByName(known, allowMissingColumns=True)
    ranked = _ranked(compared, upsert, tasks)
    is_new, is_newest = F.col(POSITION_COLUMN).isNull(), F.col(_NEWEST)
    changed = ranked.where((is_new & is_newest) | (~is_new & ~is_newest))
    changed = cache(changed.drop(ORDER_COLUMN, _PLACE_COLUMN, _NEWEST))
    without_key = without_place(new.where(~has_key).drop(ORDER_COLUMN, _PLACE_COLUMN))
    return ChangedRows(changed.unionByName(without_key), removed_files(changed, files))


def all_present(key: Sequence[str]) -> Column:
    """Return the condition for rows that have a key."""
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
    return [file for file in snapshot.data_files(list(limits)) if _may_contain(file, limits)]


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


FIRST_ARRIVAL = "_first_arrival"
"""The column of a roll-up of a raw table with the first arrival date of the rows of a row's group."""

_NOW = "__now"


def touched_groups(
    spark: SparkSession, source: Source, rows: NewRows, by: Sequence[str], partition_by: Sequence[str]
) -> DataFrame:
    """Return the groups in which rows were added, replaced or deleted, each once.

    Args:
        source: The version of the source to which the rows belong.
        rows: The new rows, with the files of those that were replaced.
        by: The columns whose values identify a group.
        partition_by: The partition columns of the table. An empty text in them is the same group as null.
    """
    added = read_rows(spark, source, rows, columns=by)
    replaced = read(spark, source.snapshot, rows.replaced, columns=by)
    return with_null_for_empty(added.unionByName(replaced), partition_by).distinct()


def rows_of_groups(
    spark: SparkSession, source: Source, groups: DataFrame, by: Sequence[str], partition_by: Sequence[str]
) -> DataFrame:
    """Return all rows of some groups in a version of a source. The arguments are as above."""
    rows = read(spark, source.snapshot, source.snapshot.data_files())
    rows = with_null_for_empty(rows, [name for name in by if name in partition_by])
    return _matching(rows, groups, by, "left_semi")


def other_group(new: DataFrame, groups: DataFrame, by: Sequence[str]) -> str | None:
    """Return a group of new rows that is not among those that they were computed for; None without one."""
    row = _matching(new.select(*by), groups, by, "left_anti").first()
    return None if row is None else _named(row, by)


def first_arrivals(
    spark: SparkSession, source: Source, groups: DataFrame, by: Sequence[str], partition_by: Sequence[str]
) -> DataFrame:
    """Return the columns *by* and `FIRST_ARRIVAL` of groups in a raw table. The arguments are as above."""
    date_column = str(source.date_column)
    columns = list(dict.fromkeys([*by, date_column]))
    rows = read(spark, source.snapshot, source.snapshot.data_files(), columns=columns)
    rows = with_null_for_empty(rows, [name for name in by if name in partition_by])
    found = _matching(rows, groups, by, "left_semi").groupBy(*by)
    return found.agg(F.min(date_column).alias(FIRST_ARRIVAL))


def with_first_arrival(new: DataFrame, arrivals: DataFrame, by: Sequence[str]) -> DataFrame:
    """Add the first arrival date of its group to each new row of a roll-up."""
    return _joined(new, arrivals, by)


def incomplete_groups(
    spark: SparkSession, snapshot: DerivedSnapshot, arrivals: DataFrame, by: Sequence[str], floor: date | None
) -> DataFrame | None:
    """Return the groups of which the source lacks rows that it had when they were last computed.

    Rows expire by whole days, the first ones first. So all rows of the group's first day have.

    Args:
        snapshot: The table. Groups whose first day is unknown, from older releases, are left out.
        arrivals: What `first_arrivals` returned.
        by: The columns whose values identify a group.
        floor: The first arrival date that the source keeps; None if it keeps all.

    Returns:
        The columns *by* and `FIRST_ARRIVAL`, that of the table; None if it has no such column.
    """
    if FIRST_ARRIVAL not in {field["name"] for field in snapshot.schema["fields"]}:
        return None
    columns = [*by, FIRST_ARRIVAL]
    present = read(spark, snapshot, snapshot.data_files(), columns=columns)
    before = present.groupBy(*by).agg(F.min(FIRST_ARRIVAL).alias(FIRST_ARRIVAL))
    lacks = F.col(_NOW) > F.col(FIRST_ARRIVAL)
    if floor is not None:
        lacks |= F.col(FIRST_ARRIVAL) < F.lit(floor)
    now = arrivals.withColumnRenamed(FIRST_ARRIVAL, _NOW)
    return _joined(before, now, by).where(lacks).drop(_NOW)


def incomplete_rows(incomplete: DataFrame, by: Sequence[str]) -> DeletedRows | None:
    """Return what the source lacks of incomplete groups; None if there are none."""
    first = incomplete.first()
    if first is None:
        return None
    return DeletedRows(deletion=Deletion.INCOMPLETE, groups=incomplete.count(), example=_named(first, by))


def rolled_up(
    spark: SparkSession,
    snapshot: DerivedSnapshot,
    new: DataFrame,
    groups: DataFrame,
    by: Sequence[str],
    *,
    cache: Callable[[DataFrame], DataFrame],
    incomplete: DataFrame | None = None,
) -> ChangedRows:
    """Return what replaces the files of a table with rows of some groups.

    Args:
        snapshot: The version of the table that is changed.
        new: The new rows of the groups. They replace all rows of these groups.
        groups: The groups. They are read several times, so they should be cached.
        by: The columns whose values identify a group.
        cache: Keeps rows once Spark has computed them.
        incomplete: What `incomplete_groups` returned. These groups keep their rows.

    Raises:
        TableUnsuitable: The table has a feature with which its files cannot be replaced.
    """
    snapshot.refuse_irreplaceable()
    files = snapshot.data_files()
    if incomplete is not None:
        kept = read(spark, snapshot, files).drop(BATCH_COLUMN)
        kept = _matching(kept, incomplete, by, "left_semi")
        new = _matching(new, incomplete, by, "left_anti").unionByName(kept, allowMissingColumns=True)
    present = read(spark, snapshot, files, columns=by, with_place=True)
    replaced = cache(_matching(present, groups, by, "left_semi").select(FILE_COLUMN, POSITION_COLUMN))
    rows = without_place(new).unionByName(replaced, allowMissingColumns=True)
    return ChangedRows(rows, removed_files(replaced, files))


def _matching(rows: DataFrame, groups: DataFrame, by: Sequence[str], how: str) -> DataFrame:
    """Return the rows of a DataFrame whose group is, or is not, among some groups. Null is a group too."""
    others = groups.select(*(F.col(f"`{name}`").alias(f"__group_{name}") for name in by))
    same = (F.col(f"`{name}`").eqNullSafe(F.col(f"`__group_{name}`")) for name in by)
    return rows.join(others, reduce(and_, same), how)


def _joined(rows: DataFrame, values: DataFrame, by: Sequence[str]) -> DataFrame:
    """Add other columns of the same group to rows whose group has any."""
    renamed = values.withColumnsRenamed({name: f"__group_{name}" for name in by})
    same = (F.col(f"`{name}`").eqNullSafe(F.col(f"`__group_{name}`")) for name in by)
    return rows.join(renamed, reduce(and_, same)).drop(*(f"__group_{name}" for name in by))


def _named(row: Row, by: Sequence[str]) -> str:
    return ", ".join(f"{name} = {str(row[name])[:80]!r}" for name in by)


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows that are not written yet.

    Attributes:
        rows: The new rows. If files are replaced, the rows of the table that are replaced or deleted are
            among them: of such a row, only `FILE_COLUMN` and `POSITION_COLUMN` count, its place. A new row
            has no position, and may have a file, after whose rows it is written.
        removed: The files of the table that are replaced by copies without these rows, by their number in
            `FILE_COLUMN`.
    """

    rows: DataFrame
    removed: Mapping[int, TableFile] = field(default_factory=dict)


def removed_files(placed: DataFrame, files: Sequence[TableFile]) -> dict[int, TableFile]:
    """Return the files with rows that are replaced, by their number.

    Args:
        placed: The rows, with their places. They are computed again later, so they should be cached.
        files: The files to which the numbers refer.
    """
    number = F.when(F.col(POSITION_COLUMN).isNotNull(), F.col(FILE_COLUMN))
    ((found,),) = placed.agg(F.collect_set(number)).collect()
    return {number: files[number] for number in sorted(found)}


def without_place(rows: DataFrame) -> DataFrame:
    """Return rows that are in no file."""
    return rows.withColumns({FILE_COLUMN: F.lit(None).cast("int"), POSITION_COLUMN: F.lit(None).cast("long")})
