"""Roll-ups: aggregates of a table that are computed again only for the groups that changed."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.changed_rows import ChangedRows, removed_files, without_place
from kinesis_assets.derive.features import refuse_irreplaceable
from kinesis_assets.derive.files import files_of
from kinesis_assets.derive.read import FILE_COLUMN, POSITION_COLUMN, read, with_null_for_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.derive.new_rows import NewRows
    from kinesis_assets.derive.source import Source


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


def rolled_up(
    spark: SparkSession,
    snapshot: DerivedSnapshot,
    new: DataFrame,
    groups: DataFrame,
    by: Sequence[str],
    *,
    cache: Callable[[DataFrame], DataFrame],
) -> ChangedRows:
    """Return what replaces the files of a table with rows of some groups.

    Args:
        spark: The session.
        snapshot: The version of the table that is changed.
        new: The new rows of the groups. They replace all rows of these groups.
        groups: The groups. They are read several times, so they should be cached.
        by: The columns whose values identify a group.
        cache: Keeps rows once Spark has computed them.

    Raises:
        TableUnsuitable: The table has a feature with which its files cannot be replaced.
    """
    refuse_irreplaceable(snapshot.table.uri, snapshot.delta)
    files = files_of(snapshot.delta)
    present = read(spark, snapshot.table.folder, snapshot.delta, files, columns=by, with_place=True)
    replaced = cache(_matching(present, groups, by, "left_semi").select(FILE_COLUMN, POSITION_COLUMN))
    rows = without_place(new).unionByName(replaced, allowMissingColumns=True)
    return ChangedRows(rows, removed_files(replaced, files))


def _matching(rows: DataFrame, groups: DataFrame, by: Sequence[str], how: str) -> DataFrame:
    """Return the rows of a DataFrame whose group is, or is not, among some groups. Null is a group too."""
    others = groups.select(*(F.col(f"`{name}`").alias(f"__group_{name}") for name in by))
    same = (F.col(f"`{name}`").eqNullSafe(F.col(f"`__group_{name}`")) for name in by)
    return rows.join(others, reduce(and_, same), how)
