"""Computes the rows of the groups of a roll-up again, unless the source has lost some that they were made of.

Only the groups are computed again in which rows were added, replaced or deleted. A group of which rows have
expired in the source cannot be computed again, and keeps its rows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import DataType, TimestampType

from kinesis_assets.derive.data_files import BATCH_COLUMN
from kinesis_assets.derive.policy import DeletedRows, Deletion
from kinesis_assets.derive.read import FILE_COLUMN, POSITION_COLUMN, read, shuffle_tasks, with_null_for_empty
from kinesis_assets.derive.upsert import matching
from kinesis_assets.derive.write import ChangedRows, conformed, removed_files, without_place
from kinesis_assets.errors import InvalidInput

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


def group_changes(
    spark: SparkSession,
    rows: NewRows,
    by: Sequence[str],
    transformed: Callable[[DataFrame], DataFrame],
    *,
    table: str,
    present: DerivedSnapshot | None,
    nulled: Sequence[str],
    cache: Callable[[DataFrame], DataFrame],
) -> tuple[DataFrame, Callable[[DerivedSnapshot], ChangedRows], DeletedRows | None]:
    """Compute the groups again in which rows were added, replaced or deleted.

    Args:
        by: The columns whose values identify a group.
        transformed: Returns rows of the table, from all rows that the source has of some groups.
        present: The table; None if it does not exist, or is about to lose its rows.
        nulled: The columns of the table in which an empty text is the same as null.

    Returns:
        The new rows; what is written to a version of the table; and what the source lacks of groups, which
        keep their rows.

    Raises:
        InvalidInput: The source lacks a column of *by*, or has one whose values cannot be compared, or the
            rows of the table are of a group that was not given, or have the column `FIRST_ARRIVAL`.
    """
    source = rows.source
    _check_groups(table, source, by)
    texts = [name for name in by if name in nulled]
    # Spark does not merge the small partitions of a shuffle in a cached DataFrame itself.
    tasks = shuffle_tasks(spark, rows.bytes)
    replaced = read(spark, source.snapshot, rows.replaced, columns=by)
    touched = with_null_for_empty(rows.read(spark, columns=by).unionByName(replaced), texts)
    groups = cache(touched.distinct().coalesce(tasks))

    def of_source(columns: Sequence[str] | None = None) -> DataFrame:
        found = read(spark, source.snapshot, source.snapshot.data_files(), columns=columns)
        return matching(with_null_for_empty(found, texts), groups, by, "left_semi")

    new = cache(with_null_for_empty(transformed(of_source()), nulled).coalesce(tasks))
    incomplete = lacking = None
    if set(by) <= set(new.columns):  # otherwise they are refused
        _check_returned_groups(table, new, groups, by)
        if (date_column := source.expiry_column) is not None:
            _check_returned_names(table, new)
            dated = of_source(list(dict.fromkeys([*by, date_column])))
            first = _utc_date(dated.schema[date_column].dataType, F.min(f"`{date_column}`"))
            arrivals = cache(dated.groupBy(*by).agg(first.alias(FIRST_ARRIVAL)))
            new = matching(new, arrivals, by, "inner")
            if present is not None:
                incomplete = _incomplete_groups(spark, present, arrivals, by, source)
    if incomplete is not None:
        incomplete = cache(incomplete)
        if (row := incomplete.first()) is None:
            incomplete = None
        else:
            count, example = incomplete.count(), _named(row, by)
            lacking = DeletedRows(deletion=Deletion.INCOMPLETE, groups=count, example=example)
    plan = partial(_rolled_up, spark, new=new, groups=groups, by=by, cache=cache, incomplete=incomplete)
    return new, plan, lacking


def _check_groups(table: str, source: Source, by: Sequence[str]) -> None:
    """Check that a source has the columns of a roll-up, and that their values can be compared."""
    types = {field["name"]: field["type"] for field in source.snapshot.schema["fields"]}
    if missing := [name for name in by if name not in types]:
        raise InvalidInput(
            f"table {table}: by: the source {source.uri} has no column {', '.join(missing)}. Nothing was "
            f"written. Its columns are {', '.join(types)}"
        )
    if nested := [name for name in by if not isinstance(types[name], str)]:
        raise InvalidInput(
            f"table {table}: by: the values of {', '.join(nested)} have parts, so they cannot be compared. "
            "Nothing was written. Add columns with these parts to the source"
        )


def _check_returned_groups(table: str, new: DataFrame, groups: DataFrame, by: Sequence[str]) -> None:
    """Check that new rows replace those of their groups."""
    other = matching(new.select(*by), groups, by, "left_anti").first()
    if other is not None:
        raise InvalidInput(
            f"table {table}: by: the function returned rows of the group {_named(other, by)}, but it was "
            "given no rows with these values, so those of the group that it was given would stay beside "
            "them. Nothing was written. Return the columns of by unchanged, or compute them in a table that "
            "is the upstream of the roll-up"
        )


def _check_returned_names(table: str, new: DataFrame) -> None:
    """Check that new rows have no column that each roll-up of a table whose rows expire gets."""
    if FIRST_ARRIVAL in map(str.lower, new.columns):
        raise InvalidInput(
            f"table {table}: the function returns {FIRST_ARRIVAL}, which each roll-up of a raw table, or of "
            "a derived one with retention_days, has for the first date of a group. Nothing was written. "
            "Rename the column"
        )


def _utc_date(kind: DataType, value: Column) -> Column:
    """Return the date of a value in UTC, whatever the time zone of the session is."""
    if not isinstance(kind, TimestampType):
        return value.cast("date")
    return F.date_from_unix_date(F.floor(F.unix_micros(value) / _DAY).cast("int"))


def _incomplete_groups(
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
    return matching(before, now, by, "inner").where(lacks).drop(_NOW)


def _rolled_up(
    spark: SparkSession,
    snapshot: DerivedSnapshot,
    new: DataFrame,
    groups: DataFrame,
    by: Sequence[str],
    *,
    cache: Callable[[DataFrame], DataFrame],
    incomplete: DataFrame | None,
) -> ChangedRows:
    """Return what replaces the files of a table with rows of some groups.

    Args:
        new: The new rows of the groups. They replace all rows of these groups.
        groups: The groups. They are read several times, so they should be cached.
        incomplete: The groups that keep their rows; None if there are none.
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


def _named(row: Row, by: Sequence[str]) -> str:
    return ", ".join(f"{name} = {str(row[name])[:80]!r}" for name in by)
