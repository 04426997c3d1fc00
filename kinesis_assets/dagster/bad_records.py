"""Records that could not be decoded: how many there are in a step, and how many it may have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Self

from kinesis_assets.errors import BadRecordsRefused, InvalidInput
from kinesis_assets.schemas.ddl import KEEPING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from kinesis_assets.decoders.typed_columns import RecordCounts
    from kinesis_assets.derive.changes import CheckedRows


@dataclass(frozen=True, slots=True)
class BadRecordLimit:
    """How many records of a step may be bad.

    Attributes:
        share: The maximum share of all records.
        reason: Which setting says so, for the error.
        instead: What to do to accept more of them, for the error.
    """

    share: float
    reason: str
    instead: str

    @classmethod
    def of_share(cls, share: float | None) -> Self | None:
        """Return the limit of the setting `max_bad_share`."""
        if share is None:
            return None
        return cls(share, f"max_bad_share is {share:g}", "raise max_bad_share")

    def check(self, table: str, counts: RecordCounts) -> None:
        """Check the records of a step.

        Raises:
            BadRecordsRefused: Too many could not be decoded.
        """
        if counts.errors > self.share * counts.records:
            raise BadRecordsRefused(
                table,
                f"{counts.errors} of {counts.records} records cannot be decoded, and {self.reason}. Nothing "
                f"was committed. One of them is {counts.example}. Correct the schema or the producer, or "
                f"{self.instead}",
            )


def checked_records(
    table: str, records: DataFrame, limit: BadRecordLimit | None
) -> tuple[DataFrame, Callable[[], None] | None]:
    """Let Spark count the bad records while it computes them, if there is a limit.

    Args:
        table: The table's path or URI, for the error.
        records: A row for each record. The column `error` is not null if it could not be decoded.
        limit: How many of them may be bad; None if all may.

    Returns:
        The records, and the check that `CheckedRows` has of them.
    """
    if limit is None:
        return records, None
    from kinesis_assets.decoders.typed_columns import counted  # noqa: PLC0415  # loads PySpark

    counted_records, counts = counted(records)
    return counted_records, lambda: limit.check(table, counts())


def with_bad_records(
    transform: Callable[[DataFrame], DataFrame], table: str, max_bad_share: float | None
) -> Callable[[DataFrame], DataFrame | CheckedRows]:
    """Return a transformation of which the rows of records that could not be decoded are counted.

    Without a limit, they are counted only if the rows have all columns of `typed_columns`: a column `error`
    alone may mean something else.

    Args:
        transform: The transformation.
        table: The table's path or URI, for errors.
        max_bad_share: The maximum share of these rows; None if there is no limit.
    """

    @wraps(transform)
    def transformed(new: DataFrame) -> DataFrame | CheckedRows:
        from pyspark.sql import DataFrame  # noqa: PLC0415  # loads PySpark

        from kinesis_assets.derive.changes import CheckedRows  # noqa: PLC0415  # likewise

        rows = transform(new)
        if not isinstance(rows, DataFrame):
            return rows  # which is refused
        if max_bad_share is None and not {*KEEPING} <= {*rows.columns}:
            return rows
        if "error" not in rows.columns:
            raise InvalidInput(
                f"table {table}: max_bad_share: the function returns no column error, so bad records cannot "
                "be counted; return the one of from_json or typed_columns"
            )
        return CheckedRows(*checked_records(table, rows, BadRecordLimit.of_share(max_bad_share)), "error")

    return transformed
