"""Roll-ups: aggregates of a table that are computed again only for the groups that changed."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.changed_rows import ChangedRows, removed_files, without_place
from kinesis_assets.derive.data_files import BATCH_COLUMN
from kinesis_assets.derive.features import refuse_irreplaceable
from kinesis_assets.derive.files import files_of
from kinesis_assets.derive.policy import DeletedRows, Deletion
from kinesis_assets.derive.read import FILE_COLUMN, POSITION_COLUMN, read, with_null_for_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from pyspark.sql import DataFrame, Row, SparkSession

    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.derive.new_rows import NewRows
    from kinesis_assets.derive.source import Source


FIRST_ARRIVAL = "_first_arrival"
"""The column of a roll-up of a raw table with the first arrival date of the rows of a row's group."""

_NOW = "__now"


def touched_groups(
    spark: SparkSession, source: Source, rows: NewRows, by: Sequence[str], partition_by: Sequence[str]
) -> DataFrame:
    """Return the groups in which rows were added, replaced or deleted, each once.

    Args:
        spark: The session.
        source: The version of the source to which the rows belong.
        rows: The new rows, with the files of those that were replaced.
        by: The columns whose values identify a group.
        partition_by: The partition columns of the table. An empty text in them is the same group as null.
    """
    added = read(
        spark,
        source.folder,
        source.delta,
        rows.files,
        columns=by,
        selection=rows.selection,
        batch_column=rows.order.batch_column,
    )
    replaced = read(spark, source.folder, source.delta, rows.replaced, columns=by)
    return with_null_for_empty(added.unionByName(replaced), partition_by).distinct()


def rows_of_groups(
    spark: SparkSession, source: Source, groups: DataFrame, by: Sequence[str], partition_by: Sequence[str]
) -> DataFrame:
    """Return all rows of some groups in a version of a source. The arguments are as above."""
    rows = read(spark, source.folder, source.delta, files_of(source.delta))
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
    rows = read(spark, source.folder, source.delta, files_of(source.delta), columns=columns)
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
        spark: The session.
        snapshot: The table. Groups whose first day is unknown, from older releases, are left out.
        arrivals: What `first_arrivals` returned.
        by: The columns whose values identify a group.
        floor: The first arrival date that the source keeps; None if it keeps all.

    Returns:
        The columns *by* and `FIRST_ARRIVAL`, that of the table; None if it has no such column.
    """
    if FIRST_ARRIVAL not in {field.name for field in snapshot.delta.schema().fields}:
        return None
    columns = [*by, FIRST_ARRIVAL]
    present = read(spark, snapshot.table.folder, snapshot.delta, files_of(snapshot.delta), columns=columns)
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
        spark: The session.
        snapshot: The version of the table that is changed.
        new: The new rows of the groups. They replace all rows of these groups.
        groups: The groups. They are read several times, so they should be cached.
        by: The columns whose values identify a group.
        cache: Keeps rows once Spark has computed them.
        incomplete: What `incomplete_groups` returned. These groups keep their rows.

    Raises:
        TableUnsuitable: The table has a feature with which its files cannot be replaced.
    """
    refuse_irreplaceable(snapshot.table.uri, snapshot.delta)
    files = files_of(snapshot.delta)
    if incomplete is not None:
        kept = read(spark, snapshot.table.folder, snapshot.delta, files).drop(BATCH_COLUMN)
        kept = _matching(kept, incomplete, by, "left_semi")
        new = _matching(new, incomplete, by, "left_anti").unionByName(kept, allowMissingColumns=True)
    present = read(spark, snapshot.table.folder, snapshot.delta, files, columns=by, with_place=True)
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
