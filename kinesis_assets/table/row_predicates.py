"""SQL predicates for the rows of a table that come after positions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.position import PositionKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.kinesis.position import Position

PassedRecord = tuple[int, float]
"""The last sequence number and sub-sequence number that a position has passed. The latter is infinity if the
whole record was passed, and -1 if none of it was. Later positions compare as greater."""


def at(sequence_number: str) -> PassedRecord:
    """Return the value for a position just before a record."""
    return int(sequence_number), -1


def passed(position: Position) -> PassedRecord | None:
    """Return what a position has passed; None if it names no record."""
    if position.sequence_number is None:
        return None
    if position.kind is PositionKind.AT_SEQUENCE_NUMBER:
        return at(position.sequence_number)
    sub = position.sub_sequence_number
    return int(position.sequence_number), math.inf if sub is None else sub


def rows_after(stream: str, places: Mapping[str, PassedRecord]) -> str:
    """Return a predicate for the rows of some shards after what was passed there, in the SQL of delta-rs.

    Args:
        places: What was passed, by shard id; at least one shard.
    """
    shards = (f"(shard_id = {sql_text(shard_id)} AND {later(*place)})" for shard_id, place in places.items())
    return f"stream = {sql_text(stream)} AND ({' OR '.join(shards)})"


def later(number: int, sub: float) -> str:
    """Return a predicate for the records of a shard after a place, see `PassedRecord`."""
    # Sequence numbers are text of different lengths, and delta-rs cannot write CAST or length() to its log.
    text = sql_text(str(number))
    same_length = "_" * len(str(number))
    later = f"sequence_number > {text}"
    if sub != math.inf:
        later += f" OR (sequence_number = {text} AND sub_sequence_number > {int(sub)})"
    return f"(sequence_number LIKE '{same_length}_%' OR (sequence_number LIKE '{same_length}' AND ({later})))"


def sql_text(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
