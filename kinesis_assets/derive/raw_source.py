"""A raw table as a source, and the rows that an amendment may have added again after they were consumed.

A replay adds the records that a table lacks, in a batch of its own. It may never have had them: they were in
a gap, or arrived before the stream's first run. Or it lost them: by a restore, by another program's DELETE,
or by its retention before the floor was lowered. The sequence numbers decide, with what the positions
recorded up to the consumer's position: a shard's position, its gaps, its seeks, and what earlier replays
filled.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from kinesis_assets.derive.cursor import RECORD_COLUMNS, BatchRecords, Cursor
from kinesis_assets.derive.source import Source, SourceCommit, commits_missing, of_amendment
from kinesis_assets.errors import PositionsUnreadable, TableUnsuitable
from kinesis_assets.kinesis.position import PositionKind, at, passed
from kinesis_assets.table import rewrites
from kinesis_assets.table.positions.positions_file import CommitRef

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from kinesis_assets.derive.source import Arrivals
    from kinesis_assets.kinesis.position import PassedRecord
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.positions.range_stats import RangeStats
    from kinesis_assets.table.raw_table import PositionedTable

_PARALLEL_READS = 16


class RawSource(Source):
    """One version of a raw table.

    Raises the errors of `derived_source.open_source`.
    """

    batch_column = "batch_id"
    keeps_rows = True
    date_column = "arrival_date"
    order_columns = RECORD_COLUMNS

    def __init__(self, table: PositionedTable) -> None:
        snapshot = table.snapshot()
        super().__init__(snapshot)
        self._table = table
        self._positions: StreamPositions | None = None
        self._amendment: Amendment | None = None
        owners = snapshot.owners
        if len(owners) > 1:
            raise TableUnsuitable(
                table.uri,
                f"has positions of several streams: {', '.join(sorted(owners))}. Use a new table for each "
                "stream, and derive from these",
            )
        if not owners:
            return
        (owner,) = owners
        positions = snapshot.positions_of(owner)
        if positions is not None:
            rewrites.refuse_rewritten(table, snapshot, positions)
            self._positions, self._amendment = positions, snapshot.amendment(positions.identity)

    @property
    def end(self) -> Cursor:
        """The cursor after all rows of this version."""
        return Cursor(
            source=self.id,
            commit=None if self._positions is None else self._positions.commit_id,
            amendment=None if self._amendment is None else self._amendment.commit_id,
        )

    def commits_since(self, cursor: Cursor, limit: int | None = None) -> list[SourceCommit]:
        """Return the commits after a cursor, see `Source`."""
        chain, amendments = self._table.chain, self._table.amendments
        since = () if self._positions is None else chain.since(self._positions, cursor.commit)
        try:
            landed = [SourceCommit(*commit) for commit in islice(since, limit)]
            amended = [
                of_amendment(each, None if each.previous is None else amendments.at(each.previous))
                for each in amendments.since(self._amendment, cursor.amendment)
            ]
        except PositionsUnreadable as error:
            raise commits_missing(self.uri, cursor, str(error)) from error
        # The order of the two chains among each other is that of their ids, which are drawn from the clock.
        return list(merge(reversed(landed), reversed(amended), key=attrgetter("id")))

    def with_rows(self, commits: Sequence[SourceCommit]) -> list[SourceCommit]:
        """Return commits with the number of their rows, see `Source`."""
        with ThreadPoolExecutor(_PARALLEL_READS) as pool:
            return list(pool.map(self._with_rows, commits))

    def _with_rows(self, commit: SourceCommit) -> SourceCommit:
        if commit.rows is not None:
            return commit
        try:
            added = self._table.chain.positions_at(commit.id).added
        except PositionsUnreadable as error:
            raise commits_missing(self.uri, self.end, str(error)) from error
        return replace(commit, rows=sum(range_.rows for range_ in added.values()), ranges=added)

    def recorded_batches(self) -> tuple[int, ...]:
        """Return the batch ids of the commits that are recorded, see `Source`."""
        landed = () if self._positions is None else self._table.chain.since(self._positions, None)
        recorded: list[list[CommitRef]] = []
        first = 0
        for commits in (landed, self._table.amendments.back_from(self._amendment)):
            newest_first: list[CommitRef] = []
            try:
                for each in commits:
                    newest_first.append(CommitRef(each.commit_id, each.batch_id))  # noqa: PERF401  # keeps what precedes an error
            except PositionsUnreadable:  # the earlier ones were pruned
                first = max(first, newest_first[-1].commit_id)
            recorded.append(newest_first[::-1])
        # The order of the two chains among each other, as in `commits_since`.
        merged = merge(*recorded, key=attrgetter("commit_id"))
        return tuple(each.batch_id for each in merged if each.commit_id >= first)

    @property
    def floor(self) -> date | None:
        """The first arrival date of the rows that the table keeps; None if it keeps all."""
        return None if self._amendment is None else self._amendment.floor

    def added_again(self, cursor: Cursor, commits: Sequence[SourceCommit]) -> tuple[BatchRecords, ...]:
        """Return the records that commits added again, see `Source`."""
        if self._positions is None or cursor.commit is None:
            return ()
        consumed = ConsumedRecords(self._table, self._positions.identity, cursor)
        return tuple(
            records
            for commit in commits
            if commit.amends and commit.rows
            for records in consumed.among(commit.batch_id, commit.ranges)
        )

    def was_restored(self, after: Cursor, through: Cursor) -> bool:
        """Return whether a restore was accepted between two positions, see `Source`."""
        if after.amendment == through.amendment or through.amendment is None:
            return False
        before = None if after.amendment is None else self._table.amendments.at(after.amendment).accepted
        return self._table.amendments.at(through.amendment).accepted != before

    def arrivals(self, commit: SourceCommit, shard_id: str) -> Arrivals:
        """Return the bounds of the arrival times of a shard's rows that a commit added, see `Source`."""
        if commit.amends:
            return None, None
        chain = self._table.chain
        try:
            positions = chain.positions_at(commit.id)
            through = positions.shards[shard_id].last_arrival
            if positions.previous is None:
                return None, through
            before = chain.positions_at(positions.previous).shards.get(shard_id)
        except PositionsUnreadable:  # they were pruned
            return None, None
        return None if before is None else before.seen_until, through

    def rewound_rows(self, commits: Sequence[SourceCommit]) -> int:
        """Return how many rows were deleted because positions were set back, see `Source`."""
        seeks = {commit.batch_id: commit.id for commit in commits if not commit.amends}
        found = 0
        for commit in commits:
            if commit.amends and commit.rewound:
                shards = self._table.chain.positions_at(seeks[commit.batch_id]).shards
                rewound = self._table.amendments.at(commit.id).rewound
                found += sum(shards[shard_id].seeks[-1].rows_removed for shard_id in rewound)
        return found


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

    def among(self, batch_id: int, ranges: Mapping[str, RangeStats]) -> tuple[BatchRecords, ...]:
        """Return the records that an amendment added, without those that were provably never consumed."""
        found = []
        for shard_id, stats in ranges.items():
            parts = _without([stats.places], self._not_read(shard_id))
            if parts and (first := self._first_read(shard_id)) is not None:
                parts = _without(parts, _without([(_START, first)], self._filled(shard_id)))
            found += [BatchRecords(batch_id, shard_id, *part) for part in parts]
        return tuple(found)

    def _not_read(self, shard_id: str) -> list[_Part]:
        """Return what was never read of a shard: what is after its position, and its gaps."""
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
        """Return whether a shard had been read at a commit. Then it had at later ones, unless it was set."""
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
