"""How many records of a step could not be decoded. Spark tasks import this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import pyarrow.compute as pc

if TYPE_CHECKING:
    import pyarrow as pa

PLACE = ("shard_id", "sequence_number")
"""The columns that say which record it is, where rows have them."""

_EXAMPLE_CHARACTERS = 500

_Count = Annotated[int, msgspec.Meta(ge=0)]


class RecordCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Numbers of records.

    Attributes:
        records: Number of records.
        errors: Number of those that could not be decoded.
        example: One of them with the reason; None if there are none.
    """

    records: _Count = 0
    errors: _Count = 0
    example: str | None = None

    def __add__(self, other: RecordCounts) -> RecordCounts:
        return RecordCounts(
            self.records + other.records, self.errors + other.errors, self.example or other.example
        )


def counts_of(batch: pa.RecordBatch, error_column: str) -> RecordCounts:
    """Count the records of a batch.

    Args:
        batch: A row for each record.
        error_column: The column with the reason why a record could not be decoded.
    """
    is_error = pc.is_valid(batch[error_column])
    errors = pc.sum(is_error, min_count=0).as_py()
    if not errors:
        return RecordCounts(batch.num_rows)
    first = pc.index(is_error, True).as_py()
    names = [name for name in dict.fromkeys((*PLACE, error_column)) if name in batch.schema.names]
    found = (batch[name][first].as_py() for name in names)
    example = ": ".join(str(value) for value in found if value is not None)
    return RecordCounts(batch.num_rows, errors, example[:_EXAMPLE_CHARACTERS])
