"""What comes after a position: as integers, and as rows of the table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.position import PositionKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.kinesis.position import Position

Passed = tuple[int, float]
"""The last sequence number and sub-sequence number that a position has passed: infinity for all of that
record, -1 for nothing of it. Later positions are greater."""


def at(sequence_number: str) -> Passed:
    """Everything before a record."""
    return int(sequence_number), -1


def passed(position: Position) -> Passed | None:
    """What a position has passed; None for one that names no record."""
    if position.sequence_number is None:
        return None
    if position.kind is PositionKind.AT_SEQUENCE_NUMBER:
        return at(position.sequence_number)
    sub = position.sub_sequence_number
    return int(position.sequence_number), math.inf if sub is None else sub


def rows_after(stream: str, places: Mapping[str, Passed]) -> str:
    """The rows of some shards that come after what is passed there, in delta-rs' SQL.

    Args:
        stream: The stream's name.
        places: By shard id; at least one.
    """
    shards = (f"(shard_id = {sql_text(shard_id)} AND {_after(*place)})" for shard_id, place in places.items())
    return f"stream = {sql_text(stream)} AND ({' OR '.join(shards)})"


def _after(number: int, sub: float) -> str:
    # Numbers are text of different lengths, and delta-rs writes no CAST and no length() into its log.
    text = sql_text(str(number))
    same_length = "_" * len(str(number))
    later = f"sequence_number > {text}"
    if sub != math.inf:
        later += f" OR (sequence_number = {text} AND sub_sequence_number > {int(sub)})"
    return f"(sequence_number LIKE '{same_length}_%' OR (sequence_number LIKE '{same_length}' AND ({later})))"


def sql_text(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
