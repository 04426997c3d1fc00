"""Compare the rows of a table with the rows that its commits added.

A batch may lack rows for a good reason: a replay filled them in under another batch, a seek removed them, or
they expired. Missing rows are accepted only where that can be verified: because counts and checksums match
exactly, or because no row of the batch should be left. A shortfall is a problem only if nothing can explain
it: one that has a possible reason but no proof is reported as information.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.position import at
from kinesis_assets.operations.doctor.finding import Finding, Level
from kinesis_assets.operations.doctor.row_scan import Counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kinesis_assets.operations.doctor.history import CommittedRows, ExpectedRows, Rewind
    from kinesis_assets.table.positions.range_stats import RangeStats


@dataclass(frozen=True, slots=True)
class _Shortfall:
    """The rows of a shard that a batch lacks."""

    committed: CommittedRows
    missing: Counted

    @property
    def commit_id(self) -> int:
        return self.committed.commit_id

    @property
    def is_whole(self) -> bool:
        """Whether no row of the batch is left."""
        return self.missing.rows == self.committed.stats.rows


def differences(expected: ExpectedRows, counted: Mapping[tuple[int, str], Counted]) -> Iterator[Finding]:
    """Compare the rows in the table, by batch id and shard id, with those according to the commits."""
    added = {(committed.batch_id, committed.shard_id): committed for committed in expected.committed}
    shortfalls: dict[str, list[_Shortfall]] = defaultdict(list)
    for key, committed in added.items():
        found = counted.get(key, Counted())
        missing = Counted(committed.stats.rows - found.rows, committed.stats.checksum - found.checksum)
        if missing.rows > 0:
            shortfalls[committed.shard_id].append(_Shortfall(committed, missing))
        elif missing != Counted():
            yield _problem(committed.shard_id, _differs(committed, found.rows))
    shards = _by_shard(expected, shortfalls)
    for shard_id, of_shard in shortfalls.items():
        yield from _unexplained(of_shard, shards[shard_id])
    for (batch_id, shard_id), found in counted.items():
        unknown = (batch_id, shard_id) not in added and batch_id not in expected.unproven
        if unknown and batch_id >= expected.since:
            yield _problem(
                shard_id, f"batch {batch_id}: {found.rows} rows, but no commit added any of this shard"
            )


def unproven_rows(expected: ExpectedRows, counted: Mapping[tuple[int, str], Counted]) -> int:
    """Return the number of rows whose commits are unknown or did not record them, see `differences`."""
    return sum(
        found.rows
        for (batch_id, _), found in counted.items()
        if batch_id < expected.since or batch_id in expected.unproven
    )


def _by_shard(expected: ExpectedRows, shard_ids: Collection[str]) -> dict[str, ExpectedRows]:
    """Split the expected rows by shard."""
    committed: dict[str, list[CommittedRows]] = {shard_id: [] for shard_id in shard_ids}
    rewinds: dict[str, list[Rewind]] = {shard_id: [] for shard_id in shard_ids}
    for each in expected.committed:
        committed.get(each.shard_id, []).append(each)
    for rewind in expected.rewinds:
        rewinds.get(rewind.shard_id, []).append(rewind)
    return {
        shard_id: replace(expected, committed=committed[shard_id], rewinds=rewinds[shard_id])
        for shard_id in shard_ids
    }


def _unexplained(shortfalls: Sequence[_Shortfall], shard: ExpectedRows) -> Iterator[Finding]:
    """Report the shortfalls of a shard that cannot be verified."""
    fills = [committed for committed in shard.committed if committed.filled]
    partial = [shortfall for shortfall in shortfalls if not _should_be_empty(shortfall, shard)]
    closed, used = _filled_again(partial, fills)
    shortfalls = [shortfall for shortfall in shortfalls if shortfall.commit_id not in closed]
    spare = [fill for fill in fills if fill.commit_id not in used]
    left = [shortfall for shortfall in partial if shortfall.commit_id not in closed]
    without_cause = [shortfall for shortfall in left if not _possible_causes(shortfall, shard)]
    for group, filled in _groups(without_cause, spare):
        rows = _sum(filled).rows
        # As many rows but different ones, or fewer: some of the missing rows were never filled in.
        certain = rows <= _missing_rows(group).rows
        for shortfall in group:
            if certain:
                yield _lost(shortfall)
            else:
                yield _unproven(shortfall, f"a replay filled in {rows} rows of this range")
    for shortfall in left:
        if "floor" in _possible_causes(shortfall, shard):
            floor = shard.floor_since(shortfall.commit_id)
            yield _unproven(shortfall, f"some may have arrived before {floor}, the first day that was kept")
    yield from _not_matching_rewinds(
        [shortfall for shortfall in shortfalls if _possible_causes(shortfall, shard) == {"rewind"}],
        spare,
        shard,
    )


def _should_be_empty(shortfall: _Shortfall, shard: ExpectedRows) -> bool:
    """Whether no row of a batch is left, and none should be: all were removed by a seek, or expired."""
    committed = shortfall.committed
    if not shortfall.is_whole:
        return False
    floor = shard.floor_since(committed.commit_id)
    if floor is not None and committed.arrived_through is not None and committed.arrived_through < floor:
        return True
    return any(_removed_all(rewind, committed) for rewind in shard.rewinds)


def _filled_again(
    shortfalls: Sequence[_Shortfall], fills: Sequence[CommittedRows]
) -> tuple[set[int], set[int]]:
    """Find the shortfalls that replays have provably filled in.

    Counts and checksums must match exactly: of one shortfall and one fill, of all shortfalls that a fill
    overlaps, of all fills that a shortfall overlaps, or of all that overlap each other. A fill may itself
    lack rows, and be filled in by a later one.

    Returns:
        The commit ids of the shortfalls, and those of the fills that prove it.
    """
    closed: set[int] = set()
    used: set[int] = set()
    by_sum: dict[Counted, list[CommittedRows]] = defaultdict(list)
    for fill in fills:
        by_sum[_counted(fill)].append(fill)
    # The newest shortfall first: fewer fills are later than it.
    for shortfall in sorted(shortfalls, key=lambda shortfall: shortfall.commit_id, reverse=True):
        matching = (fill for fill in by_sum.get(shortfall.missing, ()) if fill.commit_id not in used)
        closing = next((fill for fill in matching if _may_close(fill, shortfall)), None)
        if closing is not None:
            closed.add(shortfall.commit_id)
            used.add(closing.commit_id)
    shortfalls = [shortfall for shortfall in shortfalls if shortfall.commit_id not in closed]
    fills = [fill for fill in fills if fill.commit_id not in used]
    for candidates, overlapping in _candidates(shortfalls, fills):
        remaining = [shortfall for shortfall in candidates if shortfall.commit_id not in closed]
        filled = [fill for fill in overlapping if fill.commit_id not in used]
        if remaining and _missing_rows(remaining) == _sum(filled):
            closed |= {shortfall.commit_id for shortfall in remaining}
            used |= {fill.commit_id for fill in filled}
    return closed, used


def _candidates(
    shortfalls: Sequence[_Shortfall], fills: Sequence[CommittedRows]
) -> Iterator[tuple[Sequence[_Shortfall], Sequence[CommittedRows]]]:
    """Yield shortfalls and fills that may be the same rows, the simplest combinations first."""
    for fill in fills:
        yield [shortfall for shortfall in shortfalls if _may_close(fill, shortfall)], [fill]
    for shortfall in shortfalls:
        yield [shortfall], [fill for fill in fills if _may_close(fill, shortfall)]
    yield from _groups(shortfalls, fills)


def _groups(
    shortfalls: Sequence[_Shortfall], fills: Sequence[CommittedRows]
) -> Iterator[tuple[list[_Shortfall], list[CommittedRows]]]:
    """Group shortfalls with all the fills that may have closed any of them."""
    ungrouped, unused = list(shortfalls), list(fills)
    while ungrouped:
        group = [ungrouped.pop(0)]
        overlapping: list[CommittedRows] = []
        while more := [fill for fill in unused if any(_may_close(fill, shortfall) for shortfall in group)]:
            overlapping += more
            added = {fill.commit_id for fill in more}
            unused = [fill for fill in unused if fill.commit_id not in added]
            joined = {
                shortfall.commit_id
                for shortfall in ungrouped
                if any(_may_close(fill, shortfall) for fill in more)
            }
            group += [shortfall for shortfall in ungrouped if shortfall.commit_id in joined]
            ungrouped = [shortfall for shortfall in ungrouped if shortfall.commit_id not in joined]
        yield group, overlapping


def _may_close(fill: CommittedRows, shortfall: _Shortfall) -> bool:
    """Whether a fill is later than a shortfall and overlaps its range."""
    (first, last), (begin, end) = fill.stats.numbers, shortfall.committed.stats.numbers
    return fill.commit_id > shortfall.commit_id and first <= end and begin <= last


def _counted(committed: CommittedRows) -> Counted:
    return Counted(committed.stats.rows, committed.stats.checksum)


def _sum(committed: Sequence[CommittedRows]) -> Counted:
    return sum(map(_counted, committed), Counted())


def _missing_rows(shortfalls: Sequence[_Shortfall]) -> Counted:
    return sum((shortfall.missing for shortfall in shortfalls), Counted())


def _possible_causes(shortfall: _Shortfall, shard: ExpectedRows) -> set[str]:
    """Return what may have removed some rows of a batch: "rewind", "floor", both or neither."""
    committed = shortfall.committed
    causes: set[str] = set()
    if any(_removed_some(rewind, committed) for rewind in shard.rewinds):
        causes.add("rewind")
    floor = shard.floor_since(committed.commit_id)
    if floor is None or (committed.arrived_from is not None and committed.arrived_from > floor):
        return causes
    # The floor keeps the last row of a batch that ends after it, unless a replay added that row again.
    last_is_kept = committed.arrived_through is not None and committed.arrived_through >= floor
    refilled = any(fill.filled and _may_close(fill, shortfall) for fill in shard.committed)
    if not (last_is_kept and shortfall.is_whole) or refilled:
        causes.add("floor")
    return causes


def _removed_some(rewind: Rewind, committed: CommittedRows) -> bool:
    """Whether a seek removed rows of an older batch, if the batch had any after the new position."""
    _, last = committed.stats.numbers
    return rewind.commit_id >= committed.commit_id and (
        rewind.after is None or (last, math.inf) > rewind.after
    )


def _removed_all(rewind: Rewind, committed: CommittedRows) -> bool:
    """Whether a seek removed all rows of an older batch."""
    first, _ = committed.stats.numbers
    return rewind.commit_id >= committed.commit_id and (
        rewind.after is None or at(str(first)) >= rewind.after
    )


def _not_matching_rewinds(
    shortfalls: Sequence[_Shortfall], spare: Sequence[CommittedRows], shard: ExpectedRows
) -> Iterator[Finding]:
    """Report shortfalls that only seeks can explain and that do not match them.

    Args:
        shortfalls: The shortfalls whose only possible cause is a seek.
        spare: The fills that closed no shortfall.
    """
    left = [shortfall for shortfall in shortfalls if not _should_be_empty(shortfall, shard)]
    if not left or _was_read_again(shortfalls, shard):
        return
    missing = _missing_rows(shortfalls).rows
    # A row that was filled in and then removed is missing twice.
    removed = sum(rewind.rows for rewind in shard.rewinds) + _sum(spare).rows
    if missing > removed:
        sentence = f"{missing} rows are missing, more than the {removed} that seeks removed"
        yield _problem(left[0].committed.shard_id, sentence)
        return
    for shortfall in left:
        yield _unproven(shortfall, "a seek removed rows after the position that it set")


def _was_read_again(shortfalls: Sequence[_Shortfall], shard: ExpectedRows) -> bool:
    """Whether the batches after the only seek start with exactly the rows that are missing."""
    if len(shard.rewinds) != 1:
        return False
    later = [
        committed
        for committed in shard.committed
        if committed.commit_id > shard.rewinds[0].commit_id and not committed.filled
    ]
    later.sort(key=lambda committed: committed.commit_id)
    return _missing_rows(shortfalls) in accumulate(map(_counted, later))


def _problem(shard_id: str, sentence: str) -> Finding:
    return Finding("rows", Level.PROBLEM, sentence, shard_id)


def _lost(shortfall: _Shortfall) -> Finding:
    committed = shortfall.committed
    return _problem(committed.shard_id, _differs(committed, committed.stats.rows - shortfall.missing.rows))


def _unproven(shortfall: _Shortfall, reason: str) -> Finding:
    committed = shortfall.committed
    sentence = (
        f"batch {committed.batch_id} added {committed.stats.rows} rows, {shortfall.missing.rows} of them "
        f"are missing: {reason}, but whether these are the same rows cannot be proven; to be sure, replay "
        f"{_range(committed.stats)}"
    )
    return Finding("rows", Level.INFO, sentence, committed.shard_id)


def _differs(committed: CommittedRows, rows: int) -> str:
    """Describe how a number of rows that carry the batch id differ from the commit."""
    stats = committed.stats
    added = f"batch {committed.batch_id} added {stats.rows} rows"
    if rows < stats.rows:
        return f"{added}, {stats.rows - rows} of them are missing; replay {_range(stats)}"
    if rows > stats.rows:
        return f"{added}, but {rows} rows carry its id: some are duplicates"
    return (
        f"{added}, and as many carry its id, but they are different rows: their checksum differs; replay "
        f"{_range(stats)}"
    )


def _range(stats: RangeStats) -> str:
    return f"{stats.first_sequence_number} to {stats.last_sequence_number}"
