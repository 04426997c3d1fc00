"""How a derived table is computed from its source: the function, and how its rows replace others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.commit_entry import Definition, Kind
from kinesis_assets.derive.policy import MAX_BYTES, TIME_ZONE, OnDeleted

if TYPE_CHECKING:
    from datetime import timedelta

    from kinesis_assets.derive.data_files import RecordCounts
    from kinesis_assets.table.format import SourceFormat


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """Rows of which some may be of records that could not be decoded.

    Attributes:
        error_column: The column that is not null in rows of records that could not be decoded. These rows are
            counted. None if there is no such column.
        keeps_errors: Whether these rows are rows of the table. Otherwise they are only counted, and
            *error_column* is no column of the table.
        check: It is called with the counts before the rows are committed, and raises an error to refuse them.
            None if they are not checked.
        records: A row for each record, with a column `error`, if that is not what *rows* are. They are
            counted in a job of their own. None otherwise.
        separate: The rows of a table of errors, one for each record that could not be decoded. They are
            written to files that this table consumes. None if there is no such table.
    """

    rows: DataFrame
    error_column: str | None = None
    keeps_errors: bool = True
    check: Callable[[RecordCounts], None] | None = None
    records: DataFrame | None = None
    separate: DataFrame | None = None

    @property
    def of_table(self) -> DataFrame:
        """The rows of the table."""
        if self.error_column is None or self.keeps_errors:
            return self.rows
        return self.rows.where(F.col(self.error_column).isNull()).drop(self.error_column)


Transform = Callable[["DataFrame"], "DataFrame | CheckedRows"]
"""A function from rows of the source to rows of the table."""


@dataclass(frozen=True, slots=True)
class Upsert:
    """How rows replace others.

    Attributes:
        key: The columns that identify a row. A row in which one of them is null replaces no other.
        order_by: The columns by which the newest row of a key is found, most significant first. Of equal rows
            the later one is newer, see `derive.upsert`. Null and NaN are older than any value.
        delete_where: A condition in Spark SQL. A row for which it is true deletes its key unless a row before
            it is newer. Later rows insert the key again.
        deleted_for: How long deletions are remembered at least. Later rows that are older than a remembered
            deletion do not insert the key again. None if deletions are not remembered.
    """

    key: tuple[str, ...]
    order_by: tuple[str, ...]
    delete_where: str | None = None
    deleted_for: timedelta | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns by which rows replace others, each once."""
        return tuple(dict.fromkeys((*self.key, *self.order_by)))


@dataclass(frozen=True, slots=True)
class Rollup:
    """How the rows of a table replace others group by group.

    Attributes:
        by: The columns, of the source and of the table, whose values identify a group.
    """

    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Router:
    """Rows are appended, and others consume those with some values of the column `policy.ROUTE_COLUMN`.

    The function gets rows with the column `row_order.ORDER_COLUMN`, the order of their commits.

    Attributes:
        routes: The number of values that the column can have, null included.
    """

    routes: int


@dataclass(frozen=True, slots=True)
class Derivation:
    """How a derived table is computed.

    Attributes:
        source: The path or URI of the source, a raw or derived table.
        transform: From rows of the source to rows of the table. With a roll-up it gets all rows of each
            group that changed. Otherwise it must treat each row on its own, since rows arrive in steps of
            any size.
        mode: How rows replace others; None to append them.
        max_bytes: Size of the source's files in bytes after which a step includes no further commit.
        all_columns: Whether the rows must have all columns of the table. Otherwise those that they lack are
            null in them.
        careful: The transformation of a step whose job failed. It takes longer, and returns a row instead of
            an error for a record for which an expression fails. None if there is none.
        owner: The key of the asset of the table; None to run it for whichever asset owns it.
        source_format: Returns the format of the source; None if it is a Delta table.
    """

    source: str
    transform: Transform
    mode: Upsert | Rollup | Router | None = None
    partition_by: tuple[str, ...] = ()
    on_deleted: OnDeleted = OnDeleted.FAIL
    max_bytes: int = MAX_BYTES
    all_columns: bool = False
    time_zone: str = TIME_ZONE
    careful: Transform | None = None
    owner: str | None = None
    source_format: SourceFormat | None = None

    @property
    def definition(self) -> Definition:
        """The owner and the definition that the table's commits record."""
        if self.mode is None:
            return Definition(owner=self.owner, kind=Kind.APPEND)
        if isinstance(self.mode, Router):
            return Definition(owner=self.owner, kind=Kind.ROUTER)
        if isinstance(self.mode, Rollup):
            return Definition(owner=self.owner, kind=Kind.ROLLUP, key=self.mode.by)
        return Definition(owner=self.owner, kind=Kind.UPSERT, key=self.mode.key)

    @property
    def compared(self) -> tuple[str, ...]:
        """The columns by which rows replace others, which new rows must have."""
        if isinstance(self.mode, Upsert):
            return self.mode.columns
        return self.mode.by if isinstance(self.mode, Rollup) else ()

    @property
    def step_bytes(self) -> float:
        """The size of a step. A roll-up has one step, which computes each group once."""
        return inf if isinstance(self.mode, Rollup) else self.max_bytes
