"""The rows against what the commits say they brought: each batch's, of each shard, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinesis_assets.spark.scan import Counted
from kinesis_assets.table.after import passed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import date

    from kinesis_assets.table.after import Passed
    from kinesis_assets.table.positions import Landed


@dataclass(frozen=True, slots=True)
class Brought:
    """What a commit says it brought of a shard.

    Attributes:
        token: The commit's.
        batch_id: Its rows carry it.
        shard_id: The shard.
        landed: The proof.
        arrived_from: None of the rows arrived before this day (UTC); None if that is not known.
        filled: They were filled in behind the position: they may be rows that another batch lacks.
    """

    token: int
    batch_id: int
    shard_id: str
    landed: Landed
    arrived_from: date | None = None
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
    """

    brought: Sequence[Brought]
    rewinds: Sequence[Rewind]
    floor: date | None
    unproven: Collection[int]
    since: int


_NOTHING = Counted(0, 0)


def differences(accounts: Accounts, counted: Mapping[tuple[int, str], Counted]) -> Iterator[tuple[str, str]]:
    """Where the rows are not what the commits say: a shard, and a sentence.

    Args:
        accounts: What they say.
        counted: The rows, by batch id and shard id.
    """
    proven = {(each.batch_id, each.shard_id): each for each in accounts.brought}
    holes: dict[str, list[tuple[Brought, Counted]]] = defaultdict(list)
    gone: dict[str, int] = defaultdict(int)
    for key, each in proven.items():
        found = counted.get(key, _NOTHING)
        lacking = Counted(each.landed.rows - found.rows, each.landed.checksum - found.checksum)
        if lacking.rows > 0 and (why := _excuses(each, accounts)):
            gone[each.shard_id] += lacking.rows if why == {"rewind"} else 0
        elif lacking.rows > 0 and not each.filled:
            holes[each.shard_id].append((each, lacking))
        elif lacking != _NOTHING:
            yield each.shard_id, _differs(each, found.rows)
    for shard_id, of_shard in holes.items():
        if not _filled_again(of_shard, accounts):
            for each, lacking in of_shard:
                yield shard_id, _differs(each, each.landed.rows - lacking.rows)
    yield from _unlike_the_rewinds(accounts, gone)
    for (batch_id, shard_id), found in counted.items():
        unknown = (batch_id, shard_id) not in proven and batch_id not in accounts.unproven
        if unknown and batch_id >= accounts.since:
            yield shard_id, f"batch {batch_id}: {found.rows} rows, but no commit brought any of that shard"


def unproven_rows(accounts: Accounts, counted: Mapping[tuple[int, str], Counted]) -> int:
    """Rows of batches that the known commits do not tell of."""
    return sum(
        found.rows
        for (batch_id, _), found in counted.items()
        if batch_id < accounts.since or batch_id in accounts.unproven
    )


def _filled_again(holes: Sequence[tuple[Brought, Counted]], accounts: Accounts) -> bool:
    """Whether what a shard's batches lack was filled in since then, by batches of their own.

    These may have filled in more than that, where records had been passed by.
    """
    fills = {
        fill.token: fill.landed
        for fill in accounts.brought
        for hole, _ in holes
        if fill.filled and fill.shard_id == hole.shard_id and fill.token > hole.token
        if fill.numbers[0] <= hole.numbers[1] and hole.numbers[0] <= fill.numbers[1]
    }
    rows = sum(landed.rows for landed in fills.values()) - sum(lacking.rows for _, lacking in holes)
    checksum = sum(landed.checksum for landed in fills.values()) - sum(
        lacking.checksum for _, lacking in holes
    )
    return rows > 0 or (rows, checksum) == (0, 0)


def _excuses(each: Brought, accounts: Accounts) -> set[str]:
    """What may have taken some of its rows out."""
    why = set()
    if accounts.floor is not None and (each.arrived_from is None or each.arrived_from <= accounts.floor):
        why.add("floor")
    if any(_took(rewind, each) for rewind in accounts.rewinds):
        why.add("rewind")
    return why


def _took(rewind: Rewind, each: Brought) -> bool:
    if rewind.shard_id != each.shard_id or rewind.token < each.token:
        return False
    through = passed(each.landed.through)
    return rewind.after is None or through is None or through > rewind.after


def _unlike_the_rewinds(accounts: Accounts, gone: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Where more or fewer rows are gone than were taken out; with a floor it cannot be told."""
    if accounts.floor is not None:
        return
    for shard_id in sorted({rewind.shard_id for rewind in accounts.rewinds}):
        taken = sum(rewind.rows for rewind in accounts.rewinds if rewind.shard_id == shard_id)
        # What was filled in again and then taken out is lacking twice.
        taken += sum(
            each.landed.rows for each in accounts.brought if each.filled and each.shard_id == shard_id
        )
        if gone.get(shard_id, 0) > taken:
            yield (
                shard_id,
                f"{gone[shard_id]} rows are gone, more than the {taken} that were taken out by hand",
            )


def _differs(each: Brought, rows: int) -> str:
    said = f"batch {each.batch_id} brought {each.landed.rows} rows"
    if rows < each.landed.rows:
        return f"{said}, {each.landed.rows - rows} of them are gone; replay {_range(each.landed)}"
    if rows > each.landed.rows:
        return f"{said}, but {rows} carry it: some are there twice"
    return f"{said}, and as many carry it, but others: their checksum differs; replay {_range(each.landed)}"


def _range(landed: Landed) -> str:
    return f"{landed.first_sequence_number} to {landed.last_sequence_number}"
