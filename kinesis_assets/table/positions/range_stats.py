"""The facts about one range of a shard, from the task that read it to the event that reports it."""

from __future__ import annotations

from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Annotated, Self

import msgspec

from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position, passed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.kinesis.position import PassedRecord


Count = Annotated[int, msgspec.Meta(ge=0)]


class RangeStats(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts about one range of a shard and its rows.

    The rows of a range are the records that were written to the table: of a run, all records of the range; of
    a replay, those that the table lacked. They carry the `batch_id` of the commit that added them.

    Each commit stores the facts of its ranges, which are sufficient to verify the rows and to report the
    commit again. Every change of the fields therefore is a change of the stored formats.

    Attributes:
        through: The position at which the next read would start. As for every position, `Position` documents
            which kinds include the record that they name.
        first_sequence_number: Sequence number of the first row; None if there are no rows, as for the last.
        bytes: Payload bytes of the rows, without partition keys.
        checksum: Checksum of all rows, see `records.checksum`; 0 if there are no rows.

    Raises:
        ValueError: The fields contradict each other: rows without sequence numbers, or the reverse.
    """

    start: Position
    through: Position
    first_sequence_number: str | None
    last_sequence_number: str | None
    rows: Count
    bytes: Count
    checksum: Count

    def __post_init__(self) -> None:
        numbers = (self.first_sequence_number, self.last_sequence_number)
        if numbers.count(None) != (0 if self.rows else len(numbers)):
            raise ValueError("rows without sequence numbers, or sequence numbers without rows")
        if not self.rows and (self.bytes, self.checksum) != (0, 0):
            raise ValueError("bytes or a checksum of no rows")

    @classmethod
    def unread(cls, position: Position) -> Self:
        """Return the facts of a range that was not read."""
        return cls(
            start=position,
            through=position,
            first_sequence_number=None,
            last_sequence_number=None,
            rows=0,
            bytes=0,
            checksum=0,
        )

    @property
    def numbers(self) -> tuple[int, int]:
        """The sequence numbers of the first and the last row, both inclusive; zeros if there are no rows."""
        return int(self.first_sequence_number or 0), int(self.last_sequence_number or 0)

    @property
    def places(self) -> tuple[PassedRecord, PassedRecord]:
        """The places before the first and after the last row, also within the records of aggregates."""
        first, last = self.numbers
        start, end = passed(self.start), passed(self.through)
        return (
            start if start is not None and start[0] == first else (first, -1),
            end if end is not None and end[0] == last else (last, inf),
        )


def with_rows(stats: Mapping[str, RangeStats]) -> dict[str, RangeStats]:
    """Return those of some ranges that have rows, by shard id; a commit stores no others."""
    return {shard_id: each for shard_id, each in stats.items() if each.rows}


def check_rows(stats: Mapping[str, RangeStats]) -> None:
    """Check that each of some stored ranges, by shard id, has rows.

    Raises:
        msgspec.ValidationError: One has none.
    """
    for shard_id, each in stats.items():
        if not each.rows:
            raise msgspec.ValidationError(f"its range of {shard_id} has no rows")


Time = Annotated[datetime, msgspec.Meta(tz=True)]


class ReadingFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts about reading one shard. `RangeStats` has those that are stored with the rows.

    Attributes:
        bad_records: Number of rows that are damaged aggregates, kept as they were received.
        outside_hash_range: Number of rows whose hash key belongs to another shard.
        first_arrival: Approximate arrival timestamp of the first row, as of the last; None without rows.
        millis_behind_latest: Milliseconds from the end of the range to the tip, as the last response reported
            them; None if there was none. See `ShardOutcome` for the lag.
        gaps: Ranges in which records may be missing and which the policy allowed to be skipped.
    """

    bad_records: Count
    outside_hash_range: Count
    first_arrival: Time | None
    last_arrival: Time | None
    millis_behind_latest: Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)] | None
    gaps: tuple[Gap, ...]
    throttles: Count

    @classmethod
    def unread(cls, *, gaps: tuple[Gap, ...] = (), throttles: int = 0) -> Self:
        """Return the facts of a shard of which nothing was read or committed."""
        return cls(
            bad_records=0,
            outside_hash_range=0,
            first_arrival=None,
            last_arrival=None,
            millis_behind_latest=None,
            gaps=gaps,
            throttles=throttles,
        )
