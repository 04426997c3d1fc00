"""The rows against what the commits say they brought: each batch's, of each shard, and nothing else.

What a batch lacks may be well: filled in again by a later batch, taken out by hand, expired. It is taken for
well only where that is proven, by sums that match exactly or since nothing of the batch is due any more.
What could be explained and is not proven is told apart from what nothing explains.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kinesis_assets.doctor.expected_rows import Brought
from kinesis_assets.doctor.row_scan import Counted
from kinesis_assets.table.row_predicates import at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kinesis_assets.doctor.expected_rows import Accounts, Rewind
    from kinesis_assets.table.positions import Landed


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the rows are not what the commits say.

    Attributes:
        shard_id: Of which shard.
        sentence: What is different, and what to do.
        certain: Nothing explains it; else something may, and it cannot be proven that it does.
    """

    shard_id: str
    sentence: str
    certain: bool = True


@dataclass(frozen=True, slots=True)
class _Hole:
    """What a batch lacks of a shard."""

    brought: Brought
    lacking: Counted

    @property
    def token(self) -> int:
        return self.brought.token

    @property
    def is_whole(self) -> bool:
        """Nothing of the batch is left."""
        return self.lacking.rows == self.brought.landed.rows


_NOTHING = Counted(0, 0)


def differences(accounts: Accounts, counted: Mapping[tuple[int, str], Counted]) -> Iterator[Difference]:
    """Where the rows are not what the commits say.

    Args:
        accounts: What they say.
        counted: The rows, by batch id and shard id.
    """
    proven = {(each.batch_id, each.shard_id): each for each in accounts.brought}
    holes: dict[str, list[_Hole]] = defaultdict(list)
    for key, each in proven.items():
        found = counted.get(key, _NOTHING)
        lacking = Counted(each.landed.rows - found.rows, each.landed.checksum - found.checksum)
        if lacking.rows > 0:
            holes[each.shard_id].append(_Hole(each, lacking))
        elif lacking != _NOTHING:
            yield Difference(each.shard_id, _differs(each, found.rows))
    shards = _of_shards(accounts, holes)
    for shard_id, of_shard in holes.items():
        yield from _unexplained(of_shard, shards[shard_id])
    for (batch_id, shard_id), found in counted.items():
        unknown = (batch_id, shard_id) not in proven and batch_id not in accounts.unproven
        if unknown and batch_id >= accounts.since:
            told = f"batch {batch_id}: {found.rows} rows, but no commit brought any of that shard"
            yield Difference(shard_id, told)


def unproven_rows(accounts: Accounts, counted: Mapping[tuple[int, str], Counted]) -> int:
    """Rows of batches that the known commits do not tell of."""
    return sum(
        found.rows
        for (batch_id, _), found in counted.items()
        if batch_id < accounts.since or batch_id in accounts.unproven
    )


def _of_shards(accounts: Accounts, shard_ids: Collection[str]) -> dict[str, Accounts]:
    """The accounts of some shards, each by itself."""
    brought: dict[str, list[Brought]] = {shard_id: [] for shard_id in shard_ids}
    rewinds: dict[str, list[Rewind]] = {shard_id: [] for shard_id in shard_ids}
    for each in accounts.brought:
        brought.get(each.shard_id, []).append(each)
    for rewind in accounts.rewinds:
        rewinds.get(rewind.shard_id, []).append(rewind)
    return {
        shard_id: replace(accounts, brought=brought[shard_id], rewinds=rewinds[shard_id])
        for shard_id in shard_ids
    }


def _unexplained(holes: Sequence[_Hole], shard: Accounts) -> Iterator[Difference]:
    """Which of a shard's holes are not proven to be well."""
    fills = [each for each in shard.brought if each.filled]
    closed, used = _filled_again([hole for hole in holes if not _is_due(hole, shard)], fills)
    holes = [hole for hole in holes if hole.token not in closed]
    spare = [fill for fill in fills if fill.token not in used]
    left = [hole for hole in holes if not _is_due(hole, shard)]
    untouched = [hole for hole in left if not _excuses(hole, shard)]
    for group, filled in _groups(untouched, spare):
        rows = sum(fill.landed.rows for fill in filled)
        # As many and others, or fewer: some of what is lacking was never filled in.
        certain = rows <= sum(hole.lacking.rows for hole in group)
        for hole in group:
            yield _lost(hole) if certain else _unproven(hole, f"a replay filled in {rows} rows there")
    for hole in left:
        why = _excuses(hole, shard)
        if "floor" in why:
            floor = shard.floor_since(hole.token)
            yield _unproven(hole, f"some may have arrived before {floor}, from where rows were kept")
    yield from _unlike_the_rewinds(
        [hole for hole in holes if _excuses(hole, shard) == {"rewind"}], spare, shard
    )


def _is_due(hole: _Hole, shard: Accounts) -> bool:
    """Whether nothing of a batch is left, and nothing is to be left: all of it was taken out or expired."""
    each = hole.brought
    if not hole.is_whole:
        return False
    floor = shard.floor_since(each.token)
    if floor is not None and each.arrived_through is not None and each.arrived_through < floor:
        return True
    return any(_took(rewind, each, all_of_it=True) for rewind in shard.rewinds)


def _filled_again(holes: Sequence[_Hole], fills: Sequence[Brought]) -> tuple[set[int], set[int]]:
    """The holes that are proven to be filled in again, and the fills that prove it: their tokens.

    Rows and checksums of both match exactly: of a hole and a fill, of all holes of a fill, of all fills of a
    hole, of all that overlap. A fill may lack rows itself, and be filled in again.
    """
    closed: set[int] = set()
    used: set[int] = set()
    alike: dict[Counted, list[Brought]] = defaultdict(list)
    for fill in fills:
        alike[_sum([fill])].append(fill)
    # The newest hole first: fewer fills came after it.
    for hole in sorted(holes, key=lambda hole: hole.token, reverse=True):
        same = (fill for fill in alike.get(hole.lacking, ()) if fill.token not in used)
        closing = next((fill for fill in same if _may_close(fill, hole)), None)
        if closing is not None:
            closed.add(hole.token)
            used.add(closing.token)
    holes = [hole for hole in holes if hole.token not in closed]
    fills = [fill for fill in fills if fill.token not in used]
    for candidates, by in _candidates(holes, fills):
        lacking = [hole for hole in candidates if hole.token not in closed]
        filled = [fill for fill in by if fill.token not in used]
        if lacking and _lacking(lacking) == _sum(filled):
            closed |= {hole.token for hole in lacking}
            used |= {fill.token for fill in filled}
    return closed, used


def _candidates(
    holes: Sequence[_Hole], fills: Sequence[Brought]
) -> Iterator[tuple[Sequence[_Hole], Sequence[Brought]]]:
    """Holes and fills that may be the same rows, the plainest first."""
    yield from (([hole for hole in holes if _may_close(fill, hole)], [fill]) for fill in fills)
    yield from (([hole], [fill for fill in fills if _may_close(fill, hole)]) for hole in holes)
    yield from _groups(holes, fills)


def _groups(holes: Sequence[_Hole], fills: Sequence[Brought]) -> Iterator[tuple[list[_Hole], list[Brought]]]:
    """Holes with all the fills that may have closed any of them."""
    ungrouped, unused = list(holes), list(fills)
    while ungrouped:
        group, by = [ungrouped.pop(0)], list[Brought]()
        while more := [fill for fill in unused if any(_may_close(fill, hole) for hole in group)]:
            by += more
            added = {fill.token for fill in more}
            unused = [fill for fill in unused if fill.token not in added]
            joined = {hole.token for hole in ungrouped if any(_may_close(fill, hole) for fill in more)}
            group += [hole for hole in ungrouped if hole.token in joined]
            ungrouped = [hole for hole in ungrouped if hole.token not in joined]
        yield group, by


def _may_close(fill: Brought, hole: _Hole) -> bool:
    (first, last), (begin, end) = fill.numbers, hole.brought.numbers
    return fill.token > hole.token and first <= end and begin <= last


def _lacking(holes: Sequence[_Hole]) -> Counted:
    return Counted(sum(hole.lacking.rows for hole in holes), sum(hole.lacking.checksum for hole in holes))


def _sum(brought: Sequence[Brought]) -> Counted:
    return Counted(sum(each.landed.rows for each in brought), sum(each.landed.checksum for each in brought))


def _excuses(hole: _Hole, shard: Accounts) -> set[str]:
    """What may have taken some of a batch's rows out."""
    each, why = hole.brought, set()
    if any(_took(rewind, each) for rewind in shard.rewinds):
        why.add("rewind")
    floor = shard.floor_since(each.token)
    if floor is None or (each.arrived_from is not None and each.arrived_from > floor):
        return why
    # A last row that did not arrive before is kept: something else took it, or a replay brought it again.
    kept = each.arrived_through is not None and each.arrived_through >= floor
    refilled = any(fill.filled and _may_close(fill, hole) for fill in shard.brought)
    if not (kept and hole.is_whole) or refilled:
        why.add("floor")
    return why


def _took(rewind: Rewind, each: Brought, *, all_of_it: bool = False) -> bool:
    """Whether a rewind took rows of a batch out, if there were any: some of it, or all."""
    if rewind.token < each.token:
        return False
    first, last = each.numbers
    return rewind.after is None or (
        at(str(first)) >= rewind.after if all_of_it else (last, math.inf) > rewind.after
    )


def _unlike_the_rewinds(
    holes: Sequence[_Hole], spare: Sequence[Brought], shard: Accounts
) -> Iterator[Difference]:
    """Of the holes that only rewinds can explain, those that are not proven; or that more is gone."""
    left = [hole for hole in holes if not _is_due(hole, shard)]
    if not left or _was_read_again(holes, shard):
        return
    gone = _lacking(holes).rows
    # What was filled in again and then taken out is lacking twice.
    taken = sum(rewind.rows for rewind in shard.rewinds) + _sum(spare).rows
    if gone > taken:
        told = f"{gone} rows are gone, more than the {taken} that were taken out by hand"
        yield Difference(left[0].brought.shard_id, told)
        return
    for hole in left:
        yield _unproven(hole, "rows after a position that was set back by hand were taken out")


def _was_read_again(holes: Sequence[_Hole], shard: Accounts) -> bool:
    """Whether what the batches brought after the only rewind begins with exactly what is lacking."""
    if len(shard.rewinds) != 1:
        return False
    lacking, read = _lacking(holes), _NOTHING
    later = [each for each in shard.brought if each.token > shard.rewinds[0].token and not each.filled]
    for each in sorted(later, key=lambda each: each.token):
        read = Counted(read.rows + each.landed.rows, read.checksum + each.landed.checksum)
        if read == lacking:
            return True
    return False


def _lost(hole: _Hole) -> Difference:
    each = hole.brought
    return Difference(each.shard_id, _differs(each, each.landed.rows - hole.lacking.rows))


def _unproven(hole: _Hole, why: str) -> Difference:
    each = hole.brought
    told = (
        f"batch {each.batch_id} brought {each.landed.rows} rows, {hole.lacking.rows} of them are gone: {why}"
    )
    sure = f"that it is these cannot be proven; to be sure, replay {_range(each.landed)}"
    return Difference(each.shard_id, f"{told}, but {sure}", certain=False)


def _differs(each: Brought, rows: int) -> str:
    said = f"batch {each.batch_id} brought {each.landed.rows} rows"
    if rows < each.landed.rows:
        return f"{said}, {each.landed.rows - rows} of them are gone; replay {_range(each.landed)}"
    if rows > each.landed.rows:
        return f"{said}, but {rows} carry it: some are there twice"
    return f"{said}, and as many carry it, but others: their checksum differs; replay {_range(each.landed)}"


def _range(landed: Landed) -> str:
    return f"{landed.first_sequence_number} to {landed.last_sequence_number}"
