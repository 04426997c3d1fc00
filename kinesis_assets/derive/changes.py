"""The changes that a step of a derivation makes to its table: it appends, upserts or rolls up rows."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.errors import AnalysisException, PySparkAttributeError, PySparkTypeError, PySparkValueError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import StringType

from kinesis_assets.derive.bad_records import without_records
from kinesis_assets.derive.data_files import RECORD_ID, RecordCounts
from kinesis_assets.derive.derivation import CheckedRows, Rollup, Router, Upsert
from kinesis_assets.derive.read import read, shuffle_tasks, with_null_for_empty
from kinesis_assets.derive.rollup import group_changes
from kinesis_assets.derive.row_order import ORDER_COLUMN
from kinesis_assets.derive.upsert import stored_rows, upserted, with_order
from kinesis_assets.derive.write import ChangedRows
from kinesis_assets.errors import InvalidInput, KinesisAssetsError
from kinesis_assets.spark.carried_column import carried, carry, with_carried
from kinesis_assets.spark.pyspark_internals import is_remote, is_spark_3
from kinesis_assets.spark.session import first_line, spark_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from kinesis_assets.derive.derivation import Derivation, Transform
    from kinesis_assets.derive.derived_table import DerivedSnapshot, DerivedTable
    from kinesis_assets.derive.new_rows import NewRows
    from kinesis_assets.derive.policy import DeletedRows


def counted(rows: DataFrame, error_column: str) -> RecordCounts:
    """Let Spark count records, in a job. The arguments are those of `data_files.counts_of`."""
    names = [name for name in dict.fromkeys((*RECORD_ID, error_column)) if name in rows.columns]
    error = F.col(error_column)
    reason = F.concat_ws(": ", *(F.col(name).cast("string") for name in names))
    found = rows.agg(F.count(F.lit(1)), F.count(error), F.min(F.when(error.isNotNull(), reason))).collect()
    return RecordCounts(*found[0])


_REFUSALS = (AnalysisException, PySparkAttributeError, PySparkTypeError, PySparkValueError)
"""The errors with which Spark refuses a column, an expression or an argument, without running a job."""


@dataclass(frozen=True, slots=True)
class StepChanges:
    """The changes of one step.

    Attributes:
        count: Counts the records in a job; None if the tasks that write the rows do, or none are counted.
        plan: Returns what is written to a version of the table; None if the new rows are, whatever it has.
        lacking: What the source lacks of groups that are to be computed again. The plan keeps their rows.
    """

    new: CheckedRows
    count: Callable[[], RecordCounts] | None = None
    plan: Callable[[DerivedSnapshot], ChangedRows] | None = None
    lacking: DeletedRows | None = None

    def checked(self, counts: RecordCounts | None) -> RecordCounts | None:
        """Check the numbers of records if they are known, and return them."""
        if self.new.check is not None and counts is not None:
            self.new.check(counts)
        return counts

    def check_all(self) -> None:
        """Count and check all records now, also those that the tasks that write would count."""
        if self.count is None and self.new.check is not None and self.new.error_column is not None:
            self.checked(counted(self.new.rows, self.new.error_column))
        self.checked_now()

    def checked_now(self) -> RecordCounts | None:
        """Count and check the records before anything is written, unless the tasks that write count them."""
        return None if self.count is None else self.checked(self.count())


@contextmanager
def caching() -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Yield a function that keeps rows within the context once Spark has computed them."""
    with ExitStack() as cached:

        def cache(frame: DataFrame) -> DataFrame:
            # In memory Spark keeps each large text three times, and finds out too late that they do not fit.
            frame = frame.persist(StorageLevel.DISK_ONLY)
            cached.callback(frame.unpersist)
            return frame

        yield cache


@contextmanager
def changes_of(
    spark: SparkSession,
    rows: NewRows,
    derivation: Derivation,
    *,
    table: DerivedTable,
    present: DerivedSnapshot | None = None,
) -> Iterator[StepChanges]:
    """Yield the changes of a step, with their rows cached within the context.

    Args:
        present: The table; None if it does not exist, or is about to lose its rows.

    Raises:
        InvalidInput: The transformation fails or returns no DataFrame, the source lacks a column of a
            roll-up, a roll-up returns a group that it was not given, Spark cannot analyze the transformation
            or the condition of an upsert, or a key has an empty text in a partition column.
    """
    mode = derivation.mode
    with caching() as cache:
        if isinstance(mode, Rollup):
            new, of_groups, lacking = group_changes(
                spark,
                rows,
                mode.by,
                lambda found: _transformed(spark, table.uri, derivation.transform, found).rows,
                table=table.uri,
                present=present,
                nulled=table.columns_in_log(derivation.partition_by),
                cache=cache,
            )
            yield StepChanges(CheckedRows(new), plan=of_groups, lacking=lacking)
            return
        source_rows = rows.read(spark, in_order=mode is not None)
        if isinstance(mode, Upsert):
            source_rows = carry(source_rows, ORDER_COLUMN, in_order=bool(rows.order.within))
        checked = ordered_rows(spark, table, derivation, source_rows)
        count = None if checked.records is None else partial(counted, checked.records, "error")
        source = rows.source
        replaces = source.replaces if rows.replaced else ()
        if not isinstance(mode, Upsert) and not replaces:
            yield StepChanges(checked, count)
            return
        checked = replace(checked, rows=cache(checked.rows))
        if count is None and checked.error_column is not None:
            count = partial(counted, checked.rows, checked.error_column)
        new = checked.of_table
        plan: Callable[[DerivedSnapshot], ChangedRows]
        if not isinstance(mode, Upsert):
            others = read(spark, source.snapshot, rows.replaced, schema=source.schema, columns=replaces)
            changed = ChangedRows(new)
            plan = partial(without_records, spark, changed=changed, records=others, by=replaces, cache=cache)
        else:
            refuse_empty_keys(table, checked.rows, derivation)
            tasks = shuffle_tasks(spark, rows.bytes)
            plan = partial(upserted, spark, new=new, upsert=mode, cache=cache, tasks=tasks)
        new_rows = CheckedRows(stored_rows(new), check=checked.check, separate=checked.separate)
        yield StepChanges(new_rows, count, plan)


def ordered_rows(
    spark: SparkSession, table: DerivedTable, derivation: Derivation, source_rows: DataFrame
) -> CheckedRows:
    """Return the rows of some rows of the source, with the columns of their order if these carry it.

    The arguments and errors are those of `changes_of`. The derivation is no roll-up.
    """
    checked = _transformed(spark, table.uri, derivation.transform, source_rows)
    mode = derivation.mode
    key = mode.key if isinstance(mode, Upsert) else ()
    # A router returns no empty text, and its rows do not enter the JVM.
    by = () if isinstance(mode, Router) else table.columns_in_log(derivation.partition_by)
    replaced = [name for name in by if name not in key]
    rows = with_null_for_empty(checked.rows, replaced)
    if isinstance(mode, Upsert):
        _check_condition(table.uri, rows, mode.delete_where)
        rows = _with_valid_texts(rows, mode.columns)
    return replace(checked, rows=with_order(rows))


def _transformed(
    spark: SparkSession, table: str, transform: Transform, source_rows: DataFrame
) -> CheckedRows:
    """Return the rows that a transformation returns, analyzed by Spark."""
    try:
        rows = _called(table, transform, source_rows)
        checked = rows if isinstance(rows, CheckedRows) else CheckedRows(rows)
        if not isinstance(checked.rows, DataFrame):
            raise InvalidInput(
                f"table {table}: the function {_name(transform)} must return a DataFrame of Spark, but it "
                f"returned {_described(checked.rows)}. Nothing was written. Correct the function"
            )
        checked.rows.schema  # noqa: B018  # a session on Spark Connect analyzes only now
        _analyze(checked.rows)
        checked = replace(checked, rows=_in_session(spark, checked.rows))
    except _REFUSALS as error:
        raise InvalidInput(
            f"table {table}: Spark refuses the transformation, so nothing was written: {first_line(error)}. "
            "Correct the function"
        ) from error
    return checked


def _called(table: str, transform: Transform, source_rows: DataFrame) -> DataFrame | CheckedRows:
    """Return what a transformation returns. Its own errors become an error that names the table.

    Errors of Spark and of this package pass, and so does what Dagster reacts to, such as `RetryRequested`.
    """
    passed: tuple[type[Exception], ...] = (KinesisAssetsError, *spark_errors())
    try:
        return transform(source_rows)
    except passed:
        raise
    except Exception as error:
        kind = type(error)
        if kind.__module__.partition(".")[0] == "dagster":
            raise
        reason = f"{kind.__name__}: {next(iter(str(error).splitlines()), '')}".rstrip(": ")
        raise InvalidInput(
            f"table {table}: the function {_name(transform)} failed, so nothing was written: {reason}. "
            "Correct the function, or what it uses"
        ) from error


def _name(transform: Transform) -> str:
    return getattr(transform, "__name__", "of the table")


def _analyze(rows: DataFrame) -> None:
    """Let Spark analyze rows. On Spark Connect, the schema after a filter is known without that."""
    rows.select(F.lit(True)).schema  # noqa: B018  # this analyzes


def _in_session(spark: SparkSession, rows: DataFrame) -> DataFrame:
    """Return rows as those of a session. They have another one if a function has joined its rows to them.

    On Spark Connect, such a join is not possible.
    """
    if rows.sparkSession is spark or is_remote():
        return rows
    full, column = with_carried(rows), carried(rows)
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in full.schema]
    united = spark.range(0).select(columns).union(full)
    return united if column is None else carry(united, column, in_order=False)


def _described(value: object) -> str:
    kind = type(value)
    return "None" if value is None else f"an object of the type {kind.__module__}.{kind.__qualname__}"


def _check_condition(table: str, rows: DataFrame, condition: str | None) -> None:
    """Let Spark analyze the condition of deleted rows."""
    if condition is None:
        return
    try:
        _analyze(rows.select(F.expr(condition)))  # a filter would also find columns that are not selected
        _analyze(rows.where(F.expr(condition)))
    except _REFUSALS as error:
        raise InvalidInput(
            f"table {table}: Spark refuses delete_where, so nothing was written: {first_line(error)}. "
            "Correct the condition, which sees the columns that the function returns"
        ) from error


def _with_valid_texts(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return rows whose texts in some columns are UTF-8, as they are stored, so that these are compared."""
    for field in rows.schema:
        if field.name in columns and isinstance(field.dataType, StringType):
            text = F.col(f"`{field.name}`")
            valid = F.decode(text.cast("binary"), "UTF-8") if is_spark_3() else F.make_valid_utf8(text)
            rows = rows.withColumn(field.name, valid)
    return rows


def refuse_empty_keys(table: DerivedTable, rows: DataFrame, derivation: Derivation) -> None:
    """Check that no row has an empty text in a column of the key that is a partition column too.

    Delta stores null in its place, so the row would have no key, and no later one would replace it.
    """
    types = {field.name: field.dataType for field in rows.schema}
    key = derivation.mode.key if isinstance(derivation.mode, Upsert) else ()
    by = table.columns_in_log(derivation.partition_by)
    texts = [name for name in by if name in key and isinstance(types.get(name), StringType)]
    if not texts:
        return
    is_empty = [F.count(F.when(F.col(f"`{name}`") == "", 1)) for name in texts]
    (counts,) = rows.agg(*is_empty).collect()
    for name, count in zip(texts, counts, strict=True):
        if count:
            raise InvalidInput(
                f"table {table.uri}: the key column {name} is an empty text in {count} new rows. It is a "
                "partition column too, in which Delta stores null instead, so these rows would have no key. "
                f"Nothing was written. Return another value, as by coalesce(nullif({name}, ''), 'none'), or "
                f"null for rows without a key, or leave {name} out of partition_by"
            )
