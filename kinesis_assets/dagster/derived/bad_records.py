"""Records that could not be decoded: how many there are in a step, and how many it may have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Self

from kinesis_assets.errors import BadRecordsRefused, InvalidInput
from kinesis_assets.schemas.ddl import KEEPING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from kinesis_assets.derive.changes import CheckedRows
    from kinesis_assets.derive.data_files import RecordCounts


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
            BadRecordsRefused: Too many are bad.
        """
        if counts.errors > self.share * counts.records:
            share = counts.errors / counts.records
            raise BadRecordsRefused(
                table,
                f"{counts.errors} of {counts.records} records (a share of {share:.3g}) are bad, "
                f"and {self.reason}. Nothing was committed. One of them is {counts.example}. Correct the "
                f"schema, the expression or the producer, or {self.instead}",
            )


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
        limit = BadRecordLimit.of_share(max_bad_share)
        return CheckedRows(rows, "error", check=None if limit is None else partial(limit.check, table))

    return transformed
