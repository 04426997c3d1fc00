"""Rows of a step of which some may be of records that could not be decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.record_counts import PLACE, RecordCounts

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """Rows of which some may be of records that could not be decoded.

    Attributes:
        rows: The rows.
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


def counted(rows: DataFrame, error_column: str) -> RecordCounts:
    """Let Spark count records, in a job. The arguments are those of `record_counts.counts_of`."""
    names = [name for name in dict.fromkeys((*PLACE, error_column)) if name in rows.columns]
    error = F.col(error_column)
    reason = F.concat_ws(": ", *(F.col(name).cast("string") for name in names))
    found = rows.agg(F.count(F.lit(1)), F.count(error), F.min(F.when(error.isNotNull(), reason))).collect()
    return RecordCounts(*found[0])
