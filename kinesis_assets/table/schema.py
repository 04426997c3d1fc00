"""The columns of the raw table, and the names that those of others can have, for definitions.

Definitions are loaded without Arrow.
"""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """One column of the raw table. Its type is named as in Spark SQL."""

    name: str
    type: str
    description: str
    nullable: bool = False


COLUMNS = (
    Column("stream", "string", "Name of the stream."),
    Column("shard_id", "string", "Shard that had the record."),
    Column("sequence_number", "string", "Sequence number of the record, which ascends within its shard."),
    Column("sub_sequence_number", "bigint", "Place of the record in its aggregate; 0 without aggregation."),
    Column("partition_key", "string", "Partition key; null if the producer gave none.", nullable=True),
    Column("data", "binary", "Payload, unchanged."),
    Column("approximate_arrival_timestamp", "timestamp", "When the stream received the record."),
    Column("arrival_date", "date", "Date of the arrival, UTC, by which the table is partitioned."),
    Column("batch_id", "bigint", "Id of the attempt whose commit added the row."),
    Column("error", "string", "Why the record is damaged or misplaced; null otherwise.", nullable=True),
)
"""The columns of `data_file.TABLE_SCHEMA`."""

NOT_IN_ICEBERG = frozenset({"arrival_date"})
"""The columns that an Iceberg table does not have: it is partitioned by a transform of the arrival."""

_BATCH_COLUMN = "_batch_id"

_INTERNAL = "__"

_INVALID_IN_NAMES = frozenset(" ,;{}()\n\t=.`")
"""Characters that the names of columns cannot contain, in Delta tables or as names in Spark SQL."""


def refusal_of(name: str) -> str | None:
    """Return why no column of a derived table can have a name; None if one can."""
    if name.lower() == _BATCH_COLUMN:
        return "is that of the column with the batch id of each row"
    if name.startswith(_INTERNAL):
        return f"begins with {_INTERNAL}, as those of columns that are added while rows are processed"
    if not _INVALID_IN_NAMES.isdisjoint(name):
        return "has a space, a dot, a backtick or one of ,;{}()="
    return None if name else "is empty"
