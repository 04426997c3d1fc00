"""Computes the rows of groups again: which groups changed, their rows, and those that the source has lost.

Only the groups are computed again in which rows were added, replaced or deleted. A group of which rows have
expired in the source cannot be computed again, and keeps its rows.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import DataType, TimestampType

from kinesis_assets.derive.conforming import conformed
from kinesis_assets.derive.data_files import BATCH_COLUMN
from kinesis_assets.derive.policy import DeletedRows, Deletion
from kinesis_assets.derive.read import FILE_COLUMN, POSITION_COLUMN, read, with_null_for_empty
from kinesis_assets.derive.upsert import ChangedRows, matching, removed_files, without_place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.derive.new_rows import NewRows
    from kinesis_assets.derive.source import Source


_DAY = 24 * 3600 * 1_000_000
"""In microseconds."""

FIRST_ARRIVAL = "_first_arrival"
"""The column of a roll-up with the first date of the rows of a row's group, by which these expire. For one of
a raw table it is the arrival date."""

_NOW = "__now"


def touched_groups(
    spark: SparkSession, source: Source, rows: NewRows, by: Sequence[str], nulled: Sequence[str]
) -> DataFrame:
    """Return the groups in which rows were added, replaced or deleted, each once.

    Args:
        source: The version of the source to which the rows belong.
        rows: The new rows, with the files of those that were replaced.
        by: The columns whose values identify a group.
        nulled: The columns of the table in which an empty text is the same group as null.
    """
    added = rows.read(spark, columns=by)
    replaced = read(spark, source.snapshot, rows.replaced, columns=by)
    return with_null_for_empty(added.unionByName(replaced), nulled).distinct()


def rows_of_groups(
    spark: SparkSession, source: Source, groups: DataFrame, by: Sequence[str], nulled: Sequence[str]
) -> DataFrame:
    """Return all rows of some groups in a version of a source. The arguments are as above."""
    rows = read(spark, source.snapshot, source.snapshot.data_files())
    rows = with_null_for_empty(rows, [name for name in by if name in nulled])
    return matching(rows, groups, by, "left_semi")


def other_group(new: DataFrame, groups: DataFrame, by: Sequence[str]) -> str | None:
    """Return a group of new rows that is not among those that they were computed for; None without one."""
    row = matching(new.select(*by), groups, by, "left_anti").first()
    return None if row is None else _named(row, by)


def first_arrivals(
    spark: SparkSession, source: Source, groups: DataFrame, by: Sequence[str], nulled: Sequence[str]
) -> DataFrame:
    """Return the columns *by* and `FIRST_ARRIVAL` of groups. The arguments are as above."""
    date_column = str(source.expiry_column)
    columns = list(dict.fromkeys([*by, date_column]))
    rows = read(spark, source.snapshot, source.snapshot.data_files(), columns=columns)
    rows = with_null_for_empty(rows, [name for name in by if name in nulled])
    found = matching(rows, groups, by, "left_semi").groupBy(*by)
    return found.agg(
        _utc_date(rows.schema[date_column].dataType, F.min(f"`{date_column}`")).alias(FIRST_ARRIVAL)
    )


def _utc_date(kind: DataType, value: Column) -> Column:
    """Return the date of a value in UTC, whatever the time zone of the session is."""
    if not isinstance(kind, TimestampType):
        return value.cast("date")
    return F.date_from_unix_date(F.floor(F.unix_micros(value) / _DAY).cast("int"))


def with_first_arrival(new: DataFrame, arrivals: DataFrame, by: Sequence[str]) -> DataFrame:
    """Add the first arrival date of its group to each new row of a roll-up."""
    return _joined(new, arrivals, by)


def incomplete_groups(
    spark: SparkSession, snapshot: DerivedSnapshot, arrivals: DataFrame, by: Sequence[str], source: Source
) -> DataFrame | None:
    """Return the groups of which the source lacks rows that it had when they were last computed.

    Rows expire by whole days, the first ones first. So all rows of the group's first day have. Other rows of
    a derived source may be replaced, and the groups are computed again then.

    Args:
        snapshot: The table. It has groups whose first day is unknown, from older releases, or before rows of
            the source expired. They are left out, unless all rows that the source has are about to expire.

    Returns:
        The columns *by* and `FIRST_ARRIVAL`, that of the table; None if it is unknown for all groups.
    """
    names = {field["name"] for field in snapshot.schema["fields"]}
    if FIRST_ARRIVAL not in names and source.keeps_rows:
        return None
    columns = [name for name in (*by, FIRST_ARRIVAL) if name in names]
    present = read(spark, snapshot, snapshot.data_files(), columns=columns)
    if FIRST_ARRIVAL not in names:
        present = present.withColumn(FIRST_ARRIVAL, F.lit(None).cast("date"))
    before = present.groupBy(*by).agg(F.min(FIRST_ARRIVAL).alias(FIRST_ARRIVAL))
    if source.keeps_rows:
        lacks = F.col(_NOW) > F.col(FIRST_ARRIVAL)
        if source.floor is not None:
            lacks |= F.col(FIRST_ARRIVAL) < F.lit(source.floor)
    else:
        lacks = F.coalesce(FIRST_ARRIVAL, _NOW) < F.lit(source.floor)
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
        new: The new rows of the groups. They replace all rows of these groups.
        groups: The groups. They are read several times, so they should be cached.
        incomplete: What `incomplete_groups` returned. These groups keep their rows.
    """
    snapshot.refuse_irreplaceable()
    new = conformed(new, snapshot.schema)
    files = snapshot.data_files()
    if incomplete is not None:
        kept = read(spark, snapshot, files).drop(BATCH_COLUMN)
        kept = matching(kept, incomplete, by, "left_semi")
        new = matching(new, incomplete, by, "left_anti").unionByName(kept, allowMissingColumns=True)
    present = read(spark, snapshot, files, columns=by, with_place=True)
    replaced = cache(matching(present, groups, by, "left_semi").select(FILE_COLUMN, POSITION_COLUMN))
    rows = without_place(new).unionByName(replaced, allowMissingColumns=True)
    return ChangedRows(rows, removed_files(replaced, files))


def _joined(rows: DataFrame, values: DataFrame, by: Sequence[str]) -> DataFrame:
    """Add other columns of the same group to rows whose group has any."""
    renamed = values.withColumnsRenamed({name: f"__group_{name}" for name in by})
    same = (F.col(f"`{name}`").eqNullSafe(F.col(f"`__group_{name}`")) for name in by)
    return rows.join(renamed, reduce(and_, same)).drop(*(f"__group_{name}" for name in by))


def _named(row: Row, by: Sequence[str]) -> str:
    return ", ".join(f"{name} = {str(row[name])[:80]!r}" for name in by)
