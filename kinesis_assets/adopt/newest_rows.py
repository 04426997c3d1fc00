"""The newest row of each shard in a table, computed from the rows alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

from kinesis_assets.errors import TableUnreachable
from kinesis_assets.table.row_predicates import sql_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kinesis_assets.table.snapshot import TableSnapshot

# Sequence numbers are stored as text. Texts of the same length sort as numbers do.
_NUMBERS = """
    SELECT stream, shard_id, max(sequence_number) AS number, count(*) AS found,
        max(approximate_arrival_timestamp) AS arrival
    FROM rows GROUP BY stream, shard_id, character_length(sequence_number)
"""


@dataclass(frozen=True, slots=True)
class NewestRow:
    """The newest row of a shard.

    Attributes:
        sequence_number: The largest sequence number, compared as an integer.
        sub_sequence_number: The largest sub-sequence number of that record.
        rows: Number of rows of the shard.
        last_arrival: The latest arrival time, UTC.
    """

    sequence_number: str
    sub_sequence_number: int
    rows: int
    last_arrival: datetime


def newest_rows(uri: str, snapshot: TableSnapshot) -> Mapping[str, Mapping[str, NewestRow]]:
    """Return the newest row of each shard, by stream name and shard id.

    Memory grows with the number of shards only.

    Args:
        uri: URI of the table, for errors.
        snapshot: The table.

    Raises:
        TableUnreachable: The rows cannot be read.
    """
    found: dict[str, dict[str, NewestRow]] = {}
    for row in _query(uri, snapshot, _NUMBERS):
        shards = found.setdefault(row["stream"], {})
        other = shards.get(row["shard_id"])
        number, rows, arrival = row["number"], int(row["found"]), row["arrival"]
        if other is not None:
            number = max(number, other.sequence_number, key=int)
            rows, arrival = rows + other.rows, max(arrival, other.last_arrival)
        shards[row["shard_id"]] = NewestRow(number, 0, rows, arrival)
    numbers = {row.sequence_number for shards in found.values() for row in shards.values()}
    if not numbers:
        return found
    subs = (
        "SELECT stream, shard_id, sequence_number, max(sub_sequence_number) AS sub FROM rows "  # noqa: S608  # quoted
        f"WHERE sequence_number IN ({', '.join(map(sql_text, sorted(numbers)))}) "
        "GROUP BY stream, shard_id, sequence_number"
    )
    for row in _query(uri, snapshot, subs):
        newest = found[row["stream"]][row["shard_id"]]
        if newest.sequence_number == row["sequence_number"]:
            found[row["stream"]][row["shard_id"]] = NewestRow(
                newest.sequence_number, int(row["sub"]), newest.rows, newest.last_arrival
            )
    return found


def _query(uri: str, snapshot: TableSnapshot, query: str) -> list[dict[str, Any]]:
    try:
        table = QueryBuilder().register("rows", snapshot.delta).execute(query).read_all()
    except (DeltaError, OSError) as error:
        raise TableUnreachable(uri, f"its rows cannot be read: {error}") from None
    columns = {name: table[name].to_pylist() for name in table.column_names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
