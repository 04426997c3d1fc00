"""Finds rows that an amendment may have added again, after a consumer of the table consumed them.

A replay adds the records that a table lacks, in a batch of its own. It may never have had them: they were in
a gap, or arrived before the stream's first run. Or it lost them: by a restore, by another program's DELETE,
or by its retention before the floor was lowered. The sequence numbers decide, with what the positions
recorded up to the consumer's position: a shard's position, its gaps, its seeks, and what earlier replays
filled.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from kinesis_assets.derive.cursor import Records
from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.kinesis.position import PositionKind
from kinesis_assets.table.row_predicates import at, passed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from kinesis_assets.derive.cursor import Cursor
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.positions.range_stats import RangeStats
    from kinesis_assets.table.row_predicates import PassedRecord
    from kinesis_assets.table.table import PositionedTable

_Part = tuple["PassedRecord", "PassedRecord"]
"""A part of a shard: the records after the first place, up to the second."""

_START: PassedRecord = (-1, -1)
_END: PassedRecord = (1 << 512, math.inf)  # greater than any sequence number


class ConsumedRecords:
    """The records of a raw table that a consumer may have consumed, as of its position.

    Args:
        identity: The stream of its newest positions.
    """

    def __init__(self, table: PositionedTable, identity: StreamIdentity, cursor: Cursor) -> None:
        self._table = table
        self._identity = identity
        self._cursor = cursor

    def among(self, batch_id: int, ranges: Mapping[str, RangeStats]) -> tuple[Records, ...]:
        """Return the records that an amendment added, without those that were provably never consumed."""
        found = []
        for shard_id, stats in ranges.items():
            parts = _without([stats.places], self._not_read(shard_id))
            if parts and (first := self._first_read(shard_id)) is not None:
                parts = _without(parts, _without([(_START, first)], self._filled(shard_id)))
            found += [Records(batch_id, shard_id, *part) for part in parts]
        return tuple(found)

    def _not_read(self, shard_id: str) -> list[_Part]:
        """Return the part of a shard after its position, and its gaps, as far as they were never read."""
        if self._positions is None:
            return []
        shard = self._positions.shards.get(shard_id)
        if shard is None or self._positions.identity != self._identity:
            return [(_START, _END)]
        sought = [
            (passed(seek.after) or _START, place)
            for seek in shard.seeks
            if (place := passed(seek.before)) is not None
        ]
        read_before_seeks = max((place for _, place in sought), default=_START)
        parts: list[_Part] = [(passed(shard.position) or _START, _END)]
        parts += [
            (passed(gap.after) or read_before_seeks, at(gap.next_sequence_number))
            for gap in shard.gaps
            if gap.next_sequence_number is not None and self._knows_amendments_since(gap.until)
        ]
        return _without(parts, [*sought, *self._filled(shard_id)])

    def _filled(self, shard_id: str) -> list[_Part]:
        """Return the parts of a shard that amendments filled and the consumer has consumed."""
        ranges = (amendment.filled.get(shard_id) for amendment in self._amendments)
        return [range_.places for range_ in ranges if range_ is not None]

    def _first_read(self, shard_id: str) -> PassedRecord | None:
        """Return the place before the first record of a shard that was read; None if that is unknown.

        It is known if all commits and amendments are recorded, and the position was never set by hand.
        """
        chain, positions = self._table.chain, self._positions
        if positions is None or positions.shards[shard_id].seeks or not self._knows_amendments_since(None):
            return None
        if not self._is_read(positions.commit_id, shard_id):  # it is in the archive, or nothing is known
            return None
        try:
            commits = [each.commit_id for each in chain.since(positions, None)][::-1]
            if chain.positions_at(commits[0]).adopted:  # the table had rows before
                return None
            number = bisect_left(commits, True, key=lambda commit_id: self._is_read(commit_id, shard_id))
            added = chain.positions_at(commits[number]).added.get(shard_id)
        except PositionsUnreadable:  # they were pruned
            return None
        return None if added is None else (added.numbers[0], -1)

    def _is_read(self, commit_id: int, shard_id: str) -> bool:
        """Return whether a shard was read after a commit. It stays so as long as no position is set."""
        shard = self._table.chain.positions_at(commit_id).shards.get(shard_id)
        return shard is not None and shard.position.kind is PositionKind.AFTER_SEQUENCE_NUMBER

    @cached_property
    def _positions(self) -> StreamPositions | None:
        """The positions that the consumer has consumed; None if their file was pruned."""
        commit_id, chain = self._cursor.commit, self._table.chain
        if commit_id is None:
            return None
        try:
            return chain.with_all_archived(chain.positions_at(commit_id))
        except PositionsUnreadable:
            return None

    @cached_property
    def _amendments(self) -> list[Amendment]:
        """The amendments that the consumer has consumed, newest first, as far as they are kept."""
        found: list[Amendment] = []
        amendments, commit_id = self._table.amendments, self._cursor.amendment
        with suppress(PositionsUnreadable):
            found.extend(amendments.back_from(None if commit_id is None else amendments.at(commit_id)))
        return found

    def _knows_amendments_since(self, time: datetime | None) -> bool:
        """Return whether all amendments since a time are kept; all of the table without one."""
        if not self._amendments:
            return self._cursor.amendment is None
        oldest = self._amendments[-1]
        return oldest.previous is None or (time is not None and oldest.at < time)


def _without(parts: Sequence[_Part], others: Sequence[_Part]) -> list[_Part]:
    left = list(parts)
    for start, end in others:
        sides = [
            side for first, last in left for side in ((first, min(last, start)), (max(first, end), last))
        ]
        left = [(first, last) for first, last in sides if first < last]
    return left
