"""What a step of a derivation changes in its table: rows that are appended, upserted or rolled up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import (
    AnalysisException,
    PySparkAttributeError,
    PySparkTypeError,
    PySparkValueError,
)

from kinesis_assets.derive.changed_rows import ChangedRows
from kinesis_assets.derive.read import read, shuffle_tasks, with_null_for_empty
from kinesis_assets.derive.rollup import rolled_up, rows_of_groups, touched_groups
from kinesis_assets.derive.upsert import Upsert, upserted
from kinesis_assets.errors import InvalidInput
from kinesis_assets.spark.session import first_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.derive.new_rows import NewRows
    from kinesis_assets.derive.source import Source


@dataclass(frozen=True, slots=True)
class Rollup:
    """How the rows of a table replace others group by group.

    Attributes:
        by: The columns, of the source and of the table, whose values identify a group.
    """

    by: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that new rows must have."""
        return self.by


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """Rows that are committed only if a check accepts them.

    Attributes:
        rows: The rows.
        check: It is called when Spark has computed all rows, before they are committed. It raises an error to
            refuse them.
    """

    rows: DataFrame
    check: Callable[[], None]


Transform = Callable[["DataFrame"], "DataFrame | CheckedRows"]
"""A function from rows of the source to rows of the table."""

_REFUSALS = (AnalysisException, PySparkAttributeError, PySparkTypeError, PySparkValueError)
"""The errors with which Spark refuses a column, an expression or an argument, without running a job."""


@dataclass(frozen=True, slots=True)
class StepChanges:
    """The changes of one step.

    Attributes:
        rows: The rows that the transformation returned.
        check: Raises an error to refuse the rows; None if they are not checked. See `CheckedRows`.
        plan: Returns what is written to a version of the table.
        cache: Keeps rows, once Spark has computed them, until the step ends.
    """

    rows: DataFrame
    check: Callable[[], None] | None
    plan: Callable[[DerivedSnapshot], ChangedRows]
    cache: Callable[[DataFrame], DataFrame]

    def check_now(self) -> None:
        """Let Spark compute the rows, and check them, before anything is written."""
        if self.check is not None:
            self.cache(self.rows).count()
            self.check()


@contextmanager
def changes_of(
    spark: SparkSession,
    source: Source,
    rows: NewRows,
    transform: Transform,
    mode: Upsert | Rollup | None,
    *,
    table: str,
    partition_by: Sequence[str],
) -> Iterator[StepChanges]:
    """Yield the changes of a step, with their rows cached within the context.

    Args:
        spark: The session.
        source: The version of the source to which the new rows belong.
        rows: The new rows.
        transform: From rows of the source to rows of the table.
        mode: How the rows replace others; None to append them.
        table: The table's URI, for errors.
        partition_by: The partition columns of the table.

    Raises:
        InvalidInput: Spark cannot analyze the transformation.
    """
    with ExitStack() as cached:

        def cache(frame: DataFrame) -> DataFrame:
            frame = frame.persist()
            cached.callback(frame.unpersist)
            return frame

        if isinstance(mode, Rollup):
            groups = cache(touched_groups(spark, source, rows, mode.by, partition_by))
            source_rows = rows_of_groups(spark, source, groups, mode.by, partition_by)
            new, check = _transformed(table, transform, source_rows)
            new = cache(with_null_for_empty(new, partition_by))
            plan = partial(rolled_up, spark, new=new, groups=groups, by=mode.by, cache=cache)
            yield StepChanges(new, check, plan, cache)
            return
        source_rows = read(
            spark,
            source.folder,
            source.delta,
            rows.files,
            selection=rows.selection,
            batch_column=rows.batch_column,
        )
        new, check = _transformed(table, transform, source_rows)
        new = with_null_for_empty(new, partition_by)
        if mode is None:
            yield StepChanges(new, check, lambda _: ChangedRows(new), cache)
        else:
            new, tasks = cache(new), shuffle_tasks(spark, rows.bytes)
            plan = partial(upserted, spark, new=new, upsert=mode, cache=cache, tasks=tasks)
            yield StepChanges(new, check, plan, cache)


def _transformed(
    table: str, transform: Transform, source_rows: DataFrame
) -> tuple[DataFrame, Callable[[], None] | None]:
    """Return the rows that a transformation returns, analyzed by Spark, and their check."""
    try:
        rows, check = _with_check(transform(source_rows))
        rows.schema  # noqa: B018  # a session on Spark Connect analyzes only now
    except _REFUSALS as error:
        raise InvalidInput(
            f"table {table}: Spark refuses the transformation, so nothing was written: {first_line(error)}. "
            "Correct the function"
        ) from error
    return rows, check


def _with_check(rows: DataFrame | CheckedRows) -> tuple[DataFrame, Callable[[], None] | None]:
    return (rows.rows, rows.check) if isinstance(rows, CheckedRows) else (rows, None)
