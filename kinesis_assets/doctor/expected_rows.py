"""The rows that a table should have according to its commits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date

    from kinesis_assets.table.positions import Landed
    from kinesis_assets.table.row_predicates import Passed


@dataclass(frozen=True, slots=True)
class Brought:
    """What a commit says it brought of a shard.

    Attributes:
        token: The commit's.
        batch_id: Its rows carry it.
        shard_id: The shard.
        landed: The proof.
        arrived_from: None of the rows arrived before this day (UTC); None if that is not known.
        arrived_through: The last of the rows arrived on this day (UTC); None if that is not known.
        filled: They were filled in behind the position: they may be rows that another batch lacks.
    """

    token: int
    batch_id: int
    shard_id: str
    landed: Landed
    arrived_from: date | None = None
    arrived_through: date | None = None
    filled: bool = False

    @property
    def numbers(self) -> tuple[int, int]:
        """Its first and last sequence number."""
        return int(self.landed.first_sequence_number), int(self.landed.last_sequence_number)


@dataclass(frozen=True, slots=True)
class Rewind:
    """A commit that took a shard's rows out again.

    Attributes:
        token: The commit's.
        shard_id: The shard.
        after: Rows after this were taken out; None for all.
        rows: How many.
    """

    token: int
    shard_id: str
    after: Passed | None
    rows: int


@dataclass(frozen=True, slots=True)
class Accounts:
    """All that the commits say.

    Attributes:
        brought: What each brought of each shard.
        rewinds: What was taken out again.
        floor: Rows that arrived before this day (UTC) were taken out; None if none were.
        unproven: Batches whose commits do not tell what they brought.
        since: Of batches drawn before, nothing is known.
        lowered: Tokens of the commits that lowered the floor, with the floor before.
    """

    brought: Sequence[Brought]
    rewinds: Sequence[Rewind]
    floor: date | None
    unproven: Collection[int]
    since: int
    lowered: Sequence[tuple[int, date]] = ()

    def floor_since(self, token: int) -> date | None:
        """The highest floor since a commit: its rows that arrived before may have been deleted."""
        floors = [self.floor, *(floor for at, floor in self.lowered if at > token)]
        return max((floor for floor in floors if floor is not None), default=None)
