"""Predicates for the rows of a table: those after positions, and those that arrived before a day."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kinesis_assets.kinesis.position import PositionKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

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


class RowPredicate(Protocol):
    """A condition on rows."""

    @property
    def sql(self) -> str:
        """The condition in the SQL of delta-rs; every text in it has passed through `sql_text`."""


@dataclass(frozen=True, slots=True)
class RowsAfter:
    """The rows of some shards after what was passed there.

    Attributes:
        stream: The name of the stream.
        places: What was passed, by shard id; at least one shard.
    """

    stream: str
    places: Mapping[str, PassedRecord]

    @property
    def sql(self) -> str:
        """The condition in SQL."""
        shards = (
            f"(shard_id = {sql_text(shard_id)} AND {later(*place)})"
            for shard_id, place in self.places.items()
        )
        return f"stream = {sql_text(self.stream)} AND ({' OR '.join(shards)})"


@dataclass(frozen=True, slots=True)
class ArrivedBefore:
    """The rows that arrived before a day, UTC."""

    day: date

    @property
    def sql(self) -> str:
        """The condition in SQL."""
        return f"arrival_date < '{self.day}'"


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
