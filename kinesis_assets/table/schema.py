"""The columns of the raw table, for definitions, which are loaded without Arrow."""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """One column of the raw table.

    Attributes:
        name: The column's name.
        type: Arrow's name of the column's type.
        nullable: Whether the column may be null.
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
"""The columns of `data_file.TABLE_SCHEMA`."""
