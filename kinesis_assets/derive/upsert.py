"""Replaces rows of a table: of the rows with a key, only the newest stays.

Files of the table are never changed. Those with a row that is replaced are copied without it, in the commit
that adds the new rows (copy on write). The commit is refused if any other one came first, because a
compaction may have moved the rows to other files. Of the table's rows, Spark only gets the columns that
decide which of them are replaced.

The table is the one that results if the rows are taken one after the other, in the order of
`derive.row_order`: a row replaces the one with its key unless that one is newer by `order_by`. So it does
not depend on where steps end. If a transformation loses the order, rows that are equal in `order_by` are
compared by all their columns instead.

A row that deletes its key is taken in the same way: it deletes the row with its key unless that one is newer
by `order_by`. Without `deleted_for`, nothing is left of it, and any later row inserts the key again. With
`deleted_for`, the deletion is remembered in place of the row, where no reader of the table sees it, also if
the table never had the key. A remembered deletion is to later rows what a row is:

- An older row is left out.
- A newer row, and an equal one, is inserted, and takes the place of the deletion.
- A deletion that is newer or equal takes its place, and an older deletion changes nothing.

So of all rows and deletions of a key the newest one decides, for as long as deletions are remembered. One
is forgotten `deleted_for` after its commit or later, see `derive.remembered_deletions`; at once by the first
commit without `deleted_for` or with another `order_by`, by which it cannot be compared; and with all rows if
the table starts again. Deletions that were committed before `deleted_for` was set are not remembered.

A row may not know all of its values, see `derive.partial_rows`. It gets them from the row that it replaces;
they are null if there is none, or if that was deleted. A row that is left out because it is older changes
none of the values that the newer row has taken over from the one before it.
"""

from __future__ import annotations

import re
from datetime import date
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import DateType, DoubleType, FloatType, IntegralType, StringType

from kinesis_assets.derive.partial_rows import filled, has_unknown_values, unknown_columns
from kinesis_assets.derive.read import FILE_COLUMN, POSITION_COLUMN, read
from kinesis_assets.derive.row_order import ORDER_COLUMN
from kinesis_assets.derive.write import ChangedRows, conformed, removed_files, replaced_file, without_place
from kinesis_assets.schemas.ddl import UNCHANGED_COLUMN
from kinesis_assets.spark.carried_column import carried, is_in_order, with_carried
from kinesis_assets.spark.session import parallelism

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from kinesis_assets.derive.derivation import Upsert
    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.derive.row_order import RowOrder
    from kinesis_assets.table.data_file import TableFile


_PLACE_COLUMN = "__place"
"""The column with the place of a row among those that a transformation made of one row, as `explode` does."""

_RANK, _NEWEST, _DELETES, _LATER_DELETION = "__rank", "__newest", "__deletes", "__later_deletion"

_IS_REMEMBERED, _IS_BURIED = "__is_remembered", "__is_buried"
"""Whether a row is a deletion that the table remembers; and whether it is one to remember, if it is new."""

_INTERNAL = "__"

_MAP = "map<"
"""Spark does not compare values of a type that contains this."""

_EPOCH = date(1970, 1, 1).toordinal()

_MAY_BE_ANOTHER = re.compile("[\U00010000-\U0001ffff]")


def stored_rows(rows: DataFrame) -> DataFrame:
    """Return rows without the columns that only say how they replace others."""
    return rows.drop(ORDER_COLUMN, _PLACE_COLUMN, *unchanged_of(rows))


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
    order: RowOrder | None = None,
) -> ChangedRows:
    """Return what replaces the files of a table in which keys of new rows occur.

    Args:
        new: The new rows, see `with_order`. They are computed several times, so they should be cached.
        order: The order of the rows of the table, if it is comparable with that of the new ones. None if all
            new rows are later. It does not count if the new ones have lost theirs.
    """
    snapshot.refuse_irreplaceable()
    new = conformed(new, snapshot.schema)
    order = order if ORDER_COLUMN in new.columns else None
    has_key = all_present(upsert.key)
    keyed = new.where(has_key)
    compared, unknown = without_place(keyed), _unknown(keyed, upsert)
    limits = _limits(keyed, upsert.key)
    files, deletions = _files_within(snapshot, limits), _deletions_within(snapshot, upsert, limits)
    if files or deletions:
        names = {field["name"] for field in snapshot.schema["fields"]}
        columns = [name for name in _compared_columns(new, upsert) if name in names]
        keys = keyed.select(*(F.col(f"`{name}`") for name in upsert.key))
        if files:
            read_columns = [*columns, *(name for name in unknown if name in names and name not in columns)]
            present = _read_ordered(spark, snapshot, files, read_columns, order, with_place=True)
            known = present.join(keys, list(upsert.key), "left_semi")
            compared = compared.unionByName(known, allowMissingColumns=True)
        if deletions:
            remembered = _read_ordered(spark, snapshot, deletions, columns, order)
            known = remembered.join(keys, list(upsert.key), "left_semi")
            known = known.withColumn(_IS_REMEMBERED, F.lit(True))
            compared = compared.unionByName(known, allowMissingColumns=True)
    if unknown:
        compared = _filled(compared, upsert, unknown, tasks)
    if (unchanged := unchanged_of(new)) and not unknown:
        compared = compared.drop(*unchanged)
    ranked = _ranked(compared, upsert, tasks)
    internal = (ORDER_COLUMN, _PLACE_COLUMN, _NEWEST, _IS_REMEMBERED)
    without_key = without_place(new.where(~has_key).drop(*internal, *unchanged))
    is_new, is_newest = _marks(ranked, upsert).is_new, F.col(_NEWEST)
    if upsert.deleted_for is None:
        changed = ranked.where((is_new & is_newest) | (~is_new & ~is_newest))
        changed = cache(changed.drop(*internal))
        return ChangedRows(changed.unionByName(without_key), removed_files(changed, files))
    is_buried = F.col(_IS_BURIED)
    changed = ranked.where(
        (is_new & (is_newest | is_buried)) | (F.col(POSITION_COLUMN).isNotNull() & ~is_newest)
    )
    changed = cache(changed.drop(*internal))
    numbers, buried = changed.agg(F.collect_set(replaced_file()), F.count(F.when(is_buried, 1))).collect()[0]
    return ChangedRows(
        changed.where(~is_buried).drop(_IS_BURIED).unionByName(without_key),
        {number: files[number] for number in sorted(numbers)},
        changed.where(is_buried)
        .select(_compared_columns(new, upsert))
        .coalesce(max(1, tasks // parallelism(spark)))
        if buried
        else None,
    )


def _read_ordered(
    spark: SparkSession,
    snapshot: DerivedSnapshot,
    files: Sequence[TableFile],
    columns: Sequence[str],
    order: RowOrder | None,
    *,
    with_place: bool = False,
) -> DataFrame:
    """Return some columns of rows that were there before, with the column of their order if one is given."""
    if order is None:
        return read(spark, snapshot, files, columns=columns, with_place=with_place)
    columns = [*columns, order.batch_column]
    rows = read(spark, snapshot, files, columns=columns, order=order, with_place=with_place)
    return rows.drop(order.batch_column)


def all_present(key: Sequence[str]) -> Column:
    """Return the condition for rows that have a key."""
    condition = F.lit(True)
    for name in key:
        condition &= F.col(f"`{name}`").isNotNull()
    return condition


def _compared_columns(new: DataFrame, upsert: Upsert) -> list[str]:
    """Return the columns by which rows of one key are compared, and the key."""
    if ORDER_COLUMN in new.columns:
        return list(upsert.columns)
    others = (name for name in new.columns if name not in upsert.columns)
    return [*upsert.columns, *(name for name in others if name not in unchanged_of(new))]


def unchanged_of(rows: DataFrame) -> list[str]:
    """Return the column that names unknown values, if there is one, which is not stored."""
    return [UNCHANGED_COLUMN] if has_unknown_values(rows) else []


def _unknown(rows: DataFrame, upsert: Upsert) -> list[str]:
    """Return the columns whose values some new rows lack. Rows must have keys and versions."""
    if not has_unknown_values(rows):
        return []
    columns = {*rows.columns} - {*upsert.columns, UNCHANGED_COLUMN, ORDER_COLUMN, _PLACE_COLUMN}
    return [name for name in unknown_columns(rows) if name in columns]


class _Marks(NamedTuple):
    """What distinguishes the rows that are compared.

    Attributes:
        is_new: Whether a row is of this step, and neither in the table nor remembered by it.
        origin: Columns that order rows by it: from those that were there before to new ones.
        deletes: Whether a row deletes its key.
    """

    is_new: Column
    origin: tuple[Column, ...]
    deletes: Column


def _marks(rows: DataFrame, upsert: Upsert) -> _Marks:
    is_new = F.col(POSITION_COLUMN).isNull()
    deletes = F.coalesce(F.expr(upsert.delete_where or "false"), F.lit(False))
    if _IS_REMEMBERED not in rows.columns:
        return _Marks(is_new, (is_new,), is_new & deletes)
    is_remembered = F.coalesce(F.col(_IS_REMEMBERED), F.lit(False))
    is_new &= ~is_remembered
    # A row of the table that is equal to a remembered deletion was inserted after it.
    return _Marks(is_new, (is_new, ~is_remembered), is_remembered | (is_new & deletes))


def _filled(rows: DataFrame, upsert: Upsert, unknown: Sequence[str], tasks: int) -> DataFrame:
    """Return rows with the values that they lacked."""
    marks, version = _marks(rows, upsert), _version(rows, upsert)
    later = _later(rows, marks.origin)
    return filled(
        rows,
        unknown,
        key=upsert.key,
        version=version,
        sequence=later if ORDER_COLUMN in rows.columns else [version, *later],
        deletes=marks.deletes,
        remembers=upsert.deleted_for is not None,
        tasks=tasks,
    )


def _ranked(rows: DataFrame, upsert: Upsert, tasks: int) -> DataFrame:
    """Mark the row of each key that stays, if one does. A new row gets a file in which its key is.

    If deletions are remembered, mark the one that is to be remembered, too.
    """
    key = [F.col(f"`{name}`") for name in upsert.key]
    marks, newer = _marks(rows, upsert), _version(rows, upsert)
    later = _later(rows, marks.origin)
    same_key = Window.partitionBy(*key)
    ranked = rows.repartition(tasks, *key)
    stays = F.lit(True)
    if upsert.delete_where is not None:
        ranked = ranked.withColumn(_DELETES, marks.deletes)
        stays = ~F.col(_DELETES)
    if upsert.deleted_for is not None:
        order = [column.desc_nulls_last() for column in (newer, *later)]
    else:
        if upsert.delete_where is not None:
            # Of the deletions after a row, the newest one deletes it unless a newer row comes in between,
            # which then stays instead.
            after = same_key.orderBy(*(column.desc_nulls_last() for column in later)).rowsBetween(
                Window.unboundedPreceding, -1
            )
            deletion = F.max(F.when(F.col(_DELETES), newer)).over(after)
            ranked = ranked.withColumn(_LATER_DELETION, deletion)
            stays &= F.col(_LATER_DELETION).isNull() | (newer > F.col(_LATER_DELETION))
        order = [stays.desc(), *(column.desc_nulls_last() for column in (newer, *later))]
    ranked = ranked.withColumns(
        {
            _RANK: F.row_number().over(same_key.orderBy(*order)),
            FILE_COLUMN: F.coalesce(F.col(FILE_COLUMN), F.max(FILE_COLUMN).over(same_key)),
        }
    )
    is_first = F.col(_RANK) == 1
    if upsert.deleted_for is not None:
        ranked = ranked.withColumn(_IS_BURIED, is_first & ~stays)
    return ranked.withColumn(_NEWEST, is_first & stays).drop(_RANK, _DELETES, _LATER_DELETION)


def _version(rows: DataFrame, upsert: Upsert) -> Column:
    """Return the column by which of two rows the newer one is found, unless they are equal."""
    return F.struct(
        *(_without_nan(rows, name).alias(f"order_{number}") for number, name in enumerate(upsert.order_by))
    )


def _later(rows: DataFrame, origin: Sequence[Column]) -> list[Column]:
    """Return columns that order the rows of a key from the first to the last, most significant first."""
    values = [
        F.to_json(F.struct(column)) if _MAP in field.dataType.simpleString() else column
        for field in rows.schema
        if not field.name.startswith(_INTERNAL)
        for column in [F.col(f"`{field.name}`")]
    ]
    if ORDER_COLUMN in rows.columns:
        # Rows without an order were there before.
        return [F.col(ORDER_COLUMN), F.col(_PLACE_COLUMN), *origin, *values]
    return [*values, *origin]


def _without_nan(rows: DataFrame, name: str) -> Column:
    """Return a column with null in place of NaN, which Spark orders after all numbers."""
    column = F.col(f"`{name}`")
    if isinstance(rows.schema[name].dataType, FloatType | DoubleType):
        return F.when(~F.isnan(column), column)
    return column


def _files_within(snapshot: DerivedSnapshot, limits: Mapping[str, tuple[Any, Any]] | None) -> list[TableFile]:
    if limits is None:
        return []
    return [file for file in snapshot.data_files(list(limits)) if _may_contain(file, limits)]


def _deletions_within(
    snapshot: DerivedSnapshot, upsert: Upsert, limits: Mapping[str, tuple[Any, Any]] | None
) -> list[TableFile]:
    """Return the files with the deletions that a table remembers that may have a key within some limits."""
    if limits is None or upsert.deleted_for is None:
        return []
    files = (file.as_data_file(limits) for file in snapshot.deletions(upsert.order_by))
    return [file for file in files if _may_contain(file, limits)]


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


def matching(rows: DataFrame, groups: DataFrame, by: Sequence[str], how: str) -> DataFrame:
    """Join rows with those of the same group, which some columns identify. Null is a group too.

    With `left_semi` and `left_anti`, the rows whose group is, or is not, among some groups are returned.
    """
    others = groups.withColumnsRenamed({name: f"__group_{name}" for name in by})
    same = (F.col(f"`{name}`").eqNullSafe(F.col(f"`__group_{name}`")) for name in by)
    return rows.join(others, reduce(and_, same), how).drop(*(f"__group_{name}" for name in by))
