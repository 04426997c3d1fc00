"""The rows that a table should have according to its commits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date

    from kinesis_assets.table.positions.range_stats import RangeStats
    from kinesis_assets.table.row_predicates import PassedRecord


@dataclass(frozen=True, slots=True)
class CommittedRows:
    """The rows of one shard that a commit added.

    Attributes:
        commit_id: Id of the commit.
        batch_id: Batch id that the rows carry.
        shard_id: Shard id.
        stats: Range, count and checksum of the rows, as recorded with the commit.
        arrived_from: No row arrived before this day (UTC); None if unknown.
        arrived_through: The last row arrived on this day (UTC); None if unknown.
        filled: A replay filled the rows in behind the position: they may be rows that another batch lacks.
    """

    commit_id: int
    batch_id: int
    shard_id: str
    stats: RangeStats
    arrived_from: date | None = None
    arrived_through: date | None = None
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Rewind:
    """A seek that moved a shard's position back and removed its rows.

    Attributes:
        commit_id: Id of the commit.
        shard_id: Shard id.
        after: The rows after this were removed; None for all rows.
        rows: Number of rows removed.
    """

    commit_id: int
    shard_id: str
    after: PassedRecord | None
    rows: int


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """Everything that the commits record about rows.

    Attributes:
        committed: The rows that each commit added, by commit and shard.
        rewinds: The rows that seeks removed.
        floor: Rows that arrived before this day (UTC) were deleted; None if none were.
        unproven: Batch ids of commits that did not record the rows that they added.
        since: Nothing is known about batches with a smaller id.
        lowered: Id of each commit that lowered the floor, with the floor before it.
    """

    committed: Sequence[CommittedRows]
    rewinds: Sequence[Rewind]
    floor: date | None
    unproven: Collection[int]
    since: int
    lowered: Sequence[tuple[int, date]] = ()

    def floor_since(self, commit_id: int) -> date | None:
        """Return the highest floor since a commit: its rows that arrived before may have been deleted."""
        floors = [self.floor, *(floor for at, floor in self.lowered if at > commit_id)]
        return max((floor for floor in floors if floor is not None), default=None)
