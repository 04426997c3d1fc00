"""Predicates for the rows of a table: those after positions, and those that arrived before a day.

Each is evaluated on rows in Arrow, or as a condition in SQL, by delta-rs, Spark and other engines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    import pyarrow as pa

    from kinesis_assets.kinesis.position import PassedRecord
    from kinesis_assets.table.data_file import FileStats


class RowPredicate(Protocol):
    """A condition on rows."""

    @property
    def sql(self) -> str:
        """The condition in SQL; every text in it has passed through `sql_text`."""

    def may_include(self, file: FileStats) -> bool:
        """Return whether a data file may have such rows."""

    def includes_all(self, file: FileStats) -> bool:
        """Return whether all rows of a data file are certainly such rows."""

    def matches(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row whether it is one, from its columns except the payload. No value is null."""


@dataclass(frozen=True, slots=True)
class RowsAfter:
    """The rows of some shards after what was passed there.

    Attributes:
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

    def may_include(self, file: FileStats) -> bool:
        """Return whether a data file may have such rows."""
        return any(map(file.may_contain_shard, self.places))

    def includes_all(self, file: FileStats) -> bool:
        """Return that this is not known without reading the rows."""
        del file
        return False

    def matches(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row whether it is one."""
        import pyarrow.compute as pc  # noqa: PLC0415  # definitions load no Arrow

        shards = rows["shard_id"]
        found = pc.equal(rows["sub_sequence_number"], -1)
        for shard_id, place in self.places.items():
            found = pc.or_(found, pc.and_(pc.equal(shards, shard_id), are_later(rows, *place)))
        return pc.and_(pc.equal(rows["stream"], self.stream), found)


@dataclass(frozen=True, slots=True)
class ArrivedBefore:
    """The rows that arrived before a day, UTC."""

    day: date

    @property
    def sql(self) -> str:
        """The condition in SQL."""
        return f"arrival_date < '{self.day}'"

    def may_include(self, file: FileStats) -> bool:
        """Return whether a data file may have such rows."""
        return file.arrival_date < self.day

    def includes_all(self, file: FileStats) -> bool:
        """Return whether all rows of a data file are such rows."""
        return self.may_include(file)

    def matches(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row whether it is one."""
        import pyarrow.compute as pc  # noqa: PLC0415  # as above

        midnight = datetime.combine(self.day, datetime.min.time(), UTC)
        return pc.less(rows["approximate_arrival_timestamp"], midnight)


def are_later(rows: pa.RecordBatch, number: int, sub: float) -> pa.BooleanArray:
    """Return for each row of a shard whether it is after a place, see `PassedRecord`. No value is null."""
    import pyarrow.compute as pc  # noqa: PLC0415  # as above

    numbers, text = rows["sequence_number"], str(number)
    lengths = pc.utf8_length(numbers)
    later = pc.greater(numbers, text)
    if sub != math.inf:
        same = pc.equal(numbers, text)
        later = pc.or_(later, pc.and_(same, pc.greater(rows["sub_sequence_number"], int(sub))))
    return pc.or_(pc.greater(lengths, len(text)), pc.and_(pc.equal(lengths, len(text)), later))


def later(number: int, sub: float) -> str:
    """Return a condition for the records of a shard after a place, see `PassedRecord`."""
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
