"""The columns of the raw table, for definitions, which are loaded without Arrow."""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """One column of the raw table.

    Attributes:
        name: The column's name.
        type: Arrow's name of the column's type.
        description: What it contains.
        nullable: Whether the column may be null.
    """

    name: str
    type: str
    description: str
    nullable: bool = False


COLUMNS = (
    Column("stream", "string", "Name of the stream."),
    Column("shard_id", "string", "Shard that had the record."),
    Column("sequence_number", "string", "Sequence number of the record, which ascends within its shard."),
    Column("sub_sequence_number", "int64", "Place of the record in its aggregate; 0 without aggregation."),
    Column("partition_key", "string", "Partition key; null if the producer gave none.", nullable=True),
    Column("data", "binary", "Payload, unchanged."),
    Column("approximate_arrival_timestamp", "timestamp[us, tz=UTC]", "When the stream received the record."),
    Column("arrival_date", "date32[day]", "Date of the arrival, UTC, by which the table is partitioned."),
    Column("batch_id", "int64", "Id of the attempt whose commit added the row."),
    Column("error", "string", "Why the record is damaged or misplaced; null otherwise.", nullable=True),
)
"""The columns of `data_file.TABLE_SCHEMA`."""
