"""The raw table's columns by name: definitions show them, and are loaded without Arrow."""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """One column of the raw table.

    Attributes:
        name: Its name.
        type: Arrow's name of its type.
        nullable: Whether it may be null.
    """

    name: str
    type: str
    nullable: bool = False


COLUMNS = (
    Column("stream", "string"),
    Column("shard_id", "string"),
    Column("sequence_number", "string"),
    Column("sub_sequence_number", "int64"),
    Column("partition_key", "string", nullable=True),
    Column("data", "binary"),
    Column("approximate_arrival_timestamp", "timestamp[us, tz=UTC]"),
    Column("arrival_date", "date32[day]"),
    Column("batch_id", "int64"),
    Column("error", "string", nullable=True),
)
"""As `files.TABLE_SCHEMA` has them."""
