"""The bad records of a typed table: where they are kept, their rows in the source, and how they are removed.

They are rows of the table, or it has separated them. Those are rows of its table of errors, as far as that
one has consumed them; the others are in the files that the later commits of the table name. So each bad
record is found once, however far the table of errors is behind.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import StructType

from kinesis_assets.derive.cursor import RECORD_COLUMNS
from kinesis_assets.derive.data_files import BATCH_COLUMN, FOUND_COLUMN
from kinesis_assets.derive.derived_source import ErrorsSource
from kinesis_assets.derive.derived_table import refuse_rewritten, refuse_unknown_rows
from kinesis_assets.derive.read import FILE_COLUMN, POSITION_COLUMN, adding_order, read
from kinesis_assets.derive.row_order import ORDER_COLUMN, RowOrder
from kinesis_assets.derive.upsert import matching
from kinesis_assets.derive.write import removed_files
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import DOCUMENT_NUMBER
from kinesis_assets.spark.arrow_steps import map_in_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.derive.source import Source
    from kinesis_assets.derive.write import ChangedRows
    from kinesis_assets.table.data_file import TableFile

FOUND_BY = RowOrder(BATCH_COLUMN, ())
"""The order of the rows of a table: that of the commits that added them."""

IDENTITY = ErrorsSource.replaces
"""The columns that identify a bad record, or a bad document of a record that was split."""

_KEPT = (*RECORD_COLUMNS, "data", "error")
"""The columns of a bad record that is a row of its table."""


def kept_in_table(spark: SparkSession, snapshot: DerivedSnapshot) -> DataFrame:
    """Return the bad records that are rows of a table, with the columns that keep them and `FOUND_COLUMN`.

    A row whose error a function has set itself is not kept with its record, and is none of them.

    Raises:
        InvalidInput: The table does not have these columns.
    """
    names = {field["name"] for field in snapshot.schema["fields"]}
    if missing := [name for name in _KEPT if name not in names]:
        raise InvalidInput(
            f"table {snapshot.table.uri}: it keeps no bad records, since it has no column "
            f"{', '.join(missing)}. Nothing was changed. Set on_bad_record to keep or separate, or return "
            "the columns of from_json"
        )
    columns = [name for name in (*_KEPT, DOCUMENT_NUMBER, BATCH_COLUMN) if name in names]
    rows = read(spark, snapshot, _files_with_errors(snapshot), columns=columns)
    bad = rows.where(F.col("error").isNotNull() & F.col("sequence_number").isNotNull())
    return identified(bad.withColumnRenamed(BATCH_COLUMN, FOUND_COLUMN))


def identified(bad: DataFrame) -> DataFrame:
    """Return bad records with all columns of their identity."""
    if DOCUMENT_NUMBER in bad.columns:
        return bad
    return bad.withColumn(DOCUMENT_NUMBER, F.lit(None).cast("int"))


def separated(spark: SparkSession, typed: DerivedSnapshot, errors: DerivedSnapshot | None) -> DataFrame:
    """Return the bad records that a table has separated, with `FOUND_COLUMN`.

    Args:
        typed: The table, opened after *errors*.
        errors: Its table of errors; None if that does not exist yet.

    Raises:
        SourceCommitsMissing: The table of errors has not consumed commits that are no longer recorded.
    """
    source = ErrorsSource(typed)
    newest = None
    if errors is not None:
        refuse_unknown_rows(errors)
        refuse_rewritten(errors)
        newest = errors.newest
    commits = source.commits_since(source.start if newest is None else source.accepted(newest.cursor))
    order = RowOrder(BATCH_COLUMN, tuple(commit.batch_id for commit in commits))
    files = [each.file for each in source.files_of(commits)]
    rows = of_separated(read(spark, typed, files, schema=source.schema, order=order))
    if errors is not None:
        taken_over = read(spark, errors, errors.data_files()).drop(BATCH_COLUMN)
        if FOUND_COLUMN not in taken_over.columns:  # a release before redrives wrote all of its rows
            taken_over = taken_over.withColumn(FOUND_COLUMN, F.lit(None).cast("long"))
        rows = rows.unionByName(taken_over.withColumn(ORDER_COLUMN, F.lit("")), allowMissingColumns=True)
    replaced = [file.as_data_file() for commit in commits for file in commit.replaced]
    if not replaced:
        return rows.drop(ORDER_COLUMN)
    names = (*source.replaces, BATCH_COLUMN)
    fields = [field for field in source.schema["fields"] if field["name"] in names]
    redriven = read(spark, typed, replaced, schema={"type": "struct", "fields": fields}, order=order)
    return _before(rows, redriven, source.replaces)


def _before(rows: DataFrame, redriven: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return bad records without those that a later commit has decoded again."""
    others = redriven.select(
        *(F.col(name).alias(f"__{name}") for name in by), F.col(ORDER_COLUMN).alias("__by")
    )
    is_later = F.col("__by") > F.col(ORDER_COLUMN)
    for name in by:
        is_later &= F.col(name).eqNullSafe(F.col(f"__{name}"))
    return rows.join(others, is_later, "left_anti").drop(ORDER_COLUMN)


def of_separated(rows: DataFrame) -> DataFrame:
    """Return the records of `ErrorsSource` with the batch id of the commit that found them to be bad."""
    found = F.coalesce(F.col(FOUND_COLUMN), F.col(BATCH_COLUMN))
    return rows.withColumn(FOUND_COLUMN, found).drop(BATCH_COLUMN)


def in_source(
    spark: SparkSession, source: Source, bad: DataFrame, *, cache: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """Return bad records as rows of the source of their table, with the column of their order.

    This is the order of the commits that found them, as in `FOUND_BY`, and then that of the records in their
    source. So a record is later than the rows of the same commit, whose place in the source is not known.

    Columns that are not kept with a bad record have their value in the source, or null if it no longer has
    the record. Its `error` is that of the source, too: other reasons are to be found again.
    """
    types = {field.name: field.dataType for field in StructType.fromJson(dict(source.schema))}
    by = [*RECORD_COLUMNS, *[DOCUMENT_NUMBER] * has_documents(source)]
    present = _present(spark, source, bad, cache, by) if {*RECORD_COLUMNS} <= {*types} else None
    kept = [name for name in bad.columns if name in types and name != "error"]
    columns = [F.col(f"`{name}`").cast(types[name]).alias(name) for name in kept]
    rows = bad.select(*columns, F.coalesce(F.col(FOUND_COLUMN), F.lit(0)).alias(FOUND_COLUMN))
    others = [name for name in types if name not in kept]
    if present is None:
        rows = rows.withColumns({name: F.lit(None).cast(types[name]) for name in others})
    else:
        rows = matching(rows, present.select(*by, *(f"`{name}`" for name in others)), by, "left")
    return _ordered(rows.select(*(f"`{name}`" for name in types), FOUND_COLUMN))


def has_documents(source: Source) -> bool:
    """Return whether the rows of a source are documents of records already, as those of a router are."""
    return DOCUMENT_NUMBER in {field["name"] for field in source.schema["fields"]}


def whole_records(
    spark: SparkSession, source: Source, documents: DataFrame, *, cache: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """Return the records of bad documents as rows of the source, as far as it has them, like `in_source`."""
    found = documents.groupBy(*RECORD_COLUMNS).agg(
        F.min(F.coalesce(F.col(FOUND_COLUMN), F.lit(0))).alias(FOUND_COLUMN)
    )
    rows = _present(spark, source, documents, cache, RECORD_COLUMNS)
    columns = [f"`{name}`" for name in rows.columns]
    return _ordered(rows.join(found, [*RECORD_COLUMNS]).select(*columns, FOUND_COLUMN))


def _ordered(rows: DataFrame) -> DataFrame:
    within = [name for name in IDENTITY if name in rows.columns]
    order = RowOrder(FOUND_COLUMN, (), within)
    schema = rows.withColumn(ORDER_COLUMN, F.lit("")).schema
    return map_in_arrow(rows, adding_order(lambda batches: batches, order), schema).drop(FOUND_COLUMN)


def _present(
    spark: SparkSession,
    source: Source,
    bad: DataFrame,
    cache: Callable[[DataFrame], DataFrame],
    by: Sequence[str],
) -> DataFrame:
    """Return the rows of the source that have some records, one for each, which some columns identify.

    First only these columns are read, and then only the files that have some of the records.
    """
    records = cache(bad.select(*by).distinct())
    files = source.snapshot.data_files()
    if source.date_column is not None and source.date_column in bad.columns:
        dates = {row[0] for row in bad.select(source.date_column).distinct().collect()}
        files = [file for file in files if file.partition[source.date_column] in dates]
    placed = read(spark, source.snapshot, files, columns=by, with_place=True)
    with_some = removed_files(matching(placed, records, by, "left_semi"), files)
    rows = read(spark, source.snapshot, list(with_some.values()), schema=source.schema)
    return matching(rows, records, by, "left_semi").dropDuplicates([*by])


def without_records(
    spark: SparkSession,
    snapshot: DerivedSnapshot,
    *,
    changed: ChangedRows,
    records: DataFrame,
    by: Sequence[str],
    cache: Callable[[DataFrame], DataFrame],
) -> ChangedRows:
    """Return changes of a table that also remove the bad records among some.

    Args:
        changed: The changes. They replace no bad record.
    """
    snapshot.refuse_irreplaceable()
    files = _files_with_errors(snapshot)
    names = {field["name"] for field in snapshot.schema["fields"]}
    by = [name for name in by if name in names]  # a table without documents has no column of their numbers
    present = read(spark, snapshot, files, columns=[*by, "error"], with_place=True)
    bad = present.where(F.col("error").isNotNull())
    places = cache(matching(bad, records, by, "left_semi").select(FILE_COLUMN, POSITION_COLUMN))
    removed = dict(changed.removed)
    known = {file.path: number for number, file in removed.items()}
    numbers: list[int] = []
    for number, file in removed_files(places, files).items():
        own = known.get(file.path, max(removed, default=-1) + 1)
        removed[own] = file
        numbers += [number, own]
    if numbers:
        own_number = F.create_map(*map(F.lit, numbers))[F.col(FILE_COLUMN)]
        places = places.withColumn(FILE_COLUMN, own_number)
    rows = changed.rows.unionByName(places, allowMissingColumns=True)
    return replace(changed, rows=rows, removed=removed)


def _files_with_errors(snapshot: DerivedSnapshot) -> list[TableFile]:
    files = snapshot.data_files(["error"])
    return [file for file in files if file.rows is None or file.nulls["error"] != file.rows]
