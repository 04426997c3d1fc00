"""Whether manifests can be true: they are checked against what the driver asked for, before the commit.

A manifest is a message from outside, and a commit is for good. So no manifest may name a file that is not one
of this attempt's in the table's folder, a shard that was not asked for, or a position behind the start.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kinesis_assets.ingest.manifest import invalid
from kinesis_assets.kinesis.position import PositionKind
from kinesis_assets.kinesis.shards import NUMBER
from kinesis_assets.table.data_file import is_new_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kinesis_assets.ingest.land import Landing, ShardLanding
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.replay.task import Filling, ShardFilling
    from kinesis_assets.table.data_file import DataFile


def check_landing(stream: str, batch_id: int, ranges: Sequence[ShardRange], landing: Landing) -> None:
    """See that a landing can be one of these ranges.

    Raises:
        LandingFailed: It cannot.
    """
    wrong = (
        _wrong_shards(ranges, landing.shards)
        or _wrong_files(batch_id, landing.files, {shard.shard_id: shard.rows for shard in landing.shards})
        or _first(map(_wrong_landing, _in_order(ranges, landing.shards), landing.shards))
    )
    if wrong:
        raise invalid(stream, wrong)


def check_filling(stream: str, batch_id: int, ranges: Sequence[ShardRange], filling: Filling) -> None:
    """See that a filling can be one of these ranges.

    Raises:
        LandingFailed: It cannot.
    """
    wrong = (
        _wrong_shards(ranges, filling.shards)
        or _wrong_files(batch_id, filling.files, {shard.shard_id: shard.rows for shard in filling.shards})
        or _first(map(_wrong_filling, _in_order(ranges, filling.shards), filling.shards))
    )
    if wrong:
        raise invalid(stream, wrong)


def _wrong_shards(ranges: Sequence[ShardRange], shards: Sequence[ShardLanding | ShardFilling]) -> str | None:
    asked = Counter(range_.shard_id for range_ in ranges)
    returned = Counter(shard.shard_id for shard in shards)
    if asked == returned:
        return None
    missing, other = sorted(asked - returned), sorted(returned - asked)
    return f"requested shards are missing: {missing[:3]}; shards that were not requested: {other[:3]}"


def _wrong_files(batch_id: int, files: Sequence[DataFile], rows: dict[str, int]) -> str | None:
    """What is wrong with files: their names, or that they do not hold so many rows of each shard."""
    if len({file.path for file in files}) < len(files):
        return "a file is named twice"
    found: Counter[str] = Counter()
    for file in files:
        name = repr(file.path[:200])
        if file.batch_id != batch_id or not is_new_file(file):
            return f"{name} is not a file of batch {batch_id}"
        if not file.rows_by_shard or min(file.rows_by_shard.values()) < 1:
            return f"{name} has no rows"
        found.update(file.rows_by_shard)
    for shard_id in sorted(found.keys() | rows.keys()):
        in_files, told = found[shard_id], rows.get(shard_id)
        if in_files != told:
            return f"{shard_id[:200]!r}: {told} rows were read, and {in_files} are in the files"
    return None


def _wrong_landing(range_: ShardRange, shard: ShardLanding) -> str | None:
    arrivals = [shard.first_arrival, shard.last_arrival]
    return _first_that_holds(
        shard.shard_id,
        (_wrong_end(shard), "both an end and an error, or neither, or another shard's error"),
        (_wrong_sums(shard), "bytes or a checksum of no rows"),
        (shard.bad_records + shard.outside_hash_range > shard.rows, "more marked rows than rows"),
        (arrivals.count(None) != (0 if shard.rows else 2), "rows without arrivals, or arrivals without rows"),
        (any(_has_no_offset(gap) for gap in shard.gaps), "a gap whose times have no offset from UTC"),
        (
            not _can_move(range_, shard.position, shard.rows, shard.first_sequence_number),
            "a position that cannot be reached from its start with these rows",
        ),
    )


def _wrong_filling(range_: ShardRange, shard: ShardFilling) -> str | None:
    first, last, through = shard.first_sequence_number, shard.last_sequence_number, shard.through
    return _first_that_holds(
        shard.shard_id,
        (shard.start != range_.start, "another start than that of the requested range"),
        (_wrong_end(shard), "both an end and an error, or neither, or another shard's error"),
        (_wrong_sums(shard), "bytes or a checksum of no rows"),
        (shard.rows > shard.read, "more rows than records"),
        (
            [first, last].count(None) != (0 if shard.rows else 2),
            "rows without numbers, or numbers without rows",
        ),
        (
            shard.rows > 0 and not _in_row([shard.first_read, first, last, through.sequence_number]),
            "rows that are not among the records that were read",
        ),
        (
            not _can_move(range_, through, shard.read, shard.first_read),
            "a position that cannot be reached from its start with these records",
        ),
    )


def _wrong_end(shard: ShardLanding | ShardFilling) -> bool:
    if shard.error is None:
        return shard.end is None
    return shard.end is not None or shard.error.shard_id != shard.shard_id


def _wrong_sums(shard: ShardLanding | ShardFilling) -> bool:
    return not shard.rows and (shard.bytes, shard.checksum) != (0, 0)


def _has_no_offset(gap: Gap) -> bool:
    return gap.until.tzinfo is None or (gap.since is not None and gap.since.tzinfo is None)


def _can_move(range_: ShardRange, position: Position, records: int, first: str | None) -> bool:
    """Whether a range can have been read up to a position, with so many records from a first one on."""
    start = range_.start
    if not records:
        return (first, position) == (None, start)
    return (
        first is not None
        and position.kind is PositionKind.AFTER_SEQUENCE_NUMBER
        and _in_row([start.sequence_number or "0", first, position.sequence_number])
        and _is_after(start, position)
        and _begins(start, first)
        and _within(position, range_.up_to)
    )


def _begins(start: Position, first: str) -> bool:
    """Whether a record can be the first of a read from a start that it is not before."""
    if start.kind is PositionKind.AFTER_SEQUENCE_NUMBER and start.sub_sequence_number is None:
        return first != start.sequence_number
    return True


def _is_after(start: Position, position: Position) -> bool:
    """Whether a position that is not before a start is one that moved."""
    if start.kind is not PositionKind.AFTER_SEQUENCE_NUMBER:
        return True
    before, after = start.sub_sequence_number, position.sub_sequence_number
    if start.sequence_number != position.sequence_number:
        return True
    return before is not None and (after is None or after > before)


def _within(position: Position, up_to: Position | None) -> bool:
    """Whether a range that ends where a read from `up_to` begins can have come to a position."""
    if up_to is None:
        return True
    if position.sequence_number == up_to.sequence_number:
        return up_to.kind is PositionKind.AFTER_SEQUENCE_NUMBER
    return _in_row([position.sequence_number, up_to.sequence_number])


def _in_row(numbers: Sequence[str | None]) -> bool:
    """Whether these are sequence numbers, none of them smaller than the one before it."""
    if not all(number is not None and NUMBER.fullmatch(number) for number in numbers):
        return False
    values = [int(number or 0) for number in numbers]
    return values == sorted(values)


def _in_order(
    ranges: Sequence[ShardRange], shards: Sequence[ShardLanding | ShardFilling]
) -> Iterable[ShardRange]:
    """The ranges in the order of their shards, all of which were asked for."""
    by_shard = {range_.shard_id: range_ for range_ in ranges}
    return (by_shard[shard.shard_id] for shard in shards)


def _first(found: Iterable[str | None]) -> str | None:
    return next((each for each in found if each), None)


def _first_that_holds(shard_id: str, *wrongs: tuple[bool, str]) -> str | None:
    return _first(f"{shard_id}: {what}" for holds, what in wrongs if holds)
