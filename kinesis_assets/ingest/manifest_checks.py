"""Checks of manifests against the requested ranges, made before the commit.

A manifest comes from another process, and a commit cannot be undone. So a manifest may name only new files of
this attempt in the table's folder, only requested shards, and no position before the start of its range.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from kinesis_assets.ingest.manifest import invalid
from kinesis_assets.kinesis.position import PositionKind
from kinesis_assets.kinesis.shards import NUMBER
from kinesis_assets.table.data_files.data_file import is_new_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kinesis_assets.ingest.manifest import Landing, ShardLanding, ShardResult
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.table.data_files.data_file import DataFile


_Shard = TypeVar("_Shard", bound="ShardResult")


def check_landing(stream: str, batch_id: int, ranges: Sequence[ShardRange], landing: Landing) -> None:
    """Check that a landing can be the result of these ranges.

    Raises:
        LandingFailed: It cannot.
    """
    check_manifest(
        stream,
        batch_id,
        ranges,
        files=landing.files,
        shards=landing.shards,
        wrong_shard=_wrong_landing,
    )


def check_manifest(
    stream: str,
    batch_id: int,
    ranges: Sequence[ShardRange],
    *,
    files: Sequence[DataFile],
    shards: Sequence[_Shard],
    wrong_shard: Callable[[ShardRange, _Shard], str | None],
) -> None:
    """Check the shards and files that a job's manifests report.

    Args:
        stream: The stream's name, for errors.
        batch_id: The attempt.
        ranges: The requested ranges, each of another shard.
        files: The files that the manifests name.
        shards: The shards that they report.
        wrong_shard: Returns why a shard cannot be the result of its range; None if it can.

    Raises:
        LandingFailed: A check failed.
    """
    wrong = _wrong_shards(ranges, shards) or _wrong_files(
        batch_id, files, {shard.shard_id: shard.stats.rows for shard in shards}
    )
    if not wrong:
        by_shard = {range_.shard_id: range_ for range_ in ranges}
        wrong = _first(wrong_shard(by_shard[shard.shard_id], shard) for shard in shards)
    if wrong:
        raise invalid(f"stream {stream}", wrong)


def common_checks(
    range_: ShardRange, shard: ShardResult, *, read: int, first_read: str | None
) -> tuple[tuple[bool, str], ...]:
    """Return the checks that every shard's report must pass, for `first_failed`.

    Args:
        range_: The requested range.
        shard: The report. Its `RangeStats` do not contradict themselves, or they could not be decoded.
        read: Number of records read.
        first_read: Sequence number of the first record read; None if none was read.
    """
    stats = shard.stats
    numbers = [first_read, stats.first_sequence_number, stats.last_sequence_number]
    return (
        (_wrong_end(shard), "both an end and an error, or neither, or another shard's error"),
        (stats.start != range_.start, "another start than that of the requested range"),
        (
            stats.rows > 0 and not is_ascending([*numbers, stats.through.sequence_number]),
            "rows that are not among the records that were read",
        ),
        (
            not is_reachable(range_, stats.through, read, first_read),
            "a position that cannot be reached from its start with these records",
        ),
    )


def _wrong_shards(ranges: Sequence[ShardRange], shards: Sequence[ShardResult]) -> str | None:
    requested = Counter(range_.shard_id for range_ in ranges)
    returned = Counter(shard.shard_id for shard in shards)
    if requested == returned:
        return None
    missing, other = sorted(requested - returned), sorted(returned - requested)
    return f"requested shards are missing: {missing[:3]}; shards that were not requested: {other[:3]}"


def _wrong_files(batch_id: int, files: Sequence[DataFile], rows: dict[str, int]) -> str | None:
    """Return why files are invalid; None if they are valid.

    Args:
        batch_id: The attempt.
        files: The files.
        rows: By shard id, the number of rows that the files must hold.
    """
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
        in_files, expected = found[shard_id], rows.get(shard_id)
        if in_files != expected:
            return f"{shard_id[:200]!r}: {expected} rows were read, and {in_files} are in the files"
    return None


def _wrong_landing(range_: ShardRange, shard: ShardLanding) -> str | None:
    stats, facts = shard.stats, shard.facts
    arrivals = [facts.first_arrival, facts.last_arrival]
    return first_failed(
        shard.shard_id,
        *common_checks(range_, shard, read=stats.rows, first_read=stats.first_sequence_number),
        (
            stats.rows > 0 and stats.last_sequence_number != stats.through.sequence_number,
            "a position that is not that of the last row",
        ),
        (facts.bad_records + facts.outside_hash_range > stats.rows, "more marked rows than rows"),
        (arrivals.count(None) != (0 if stats.rows else 2), "rows without arrivals, or arrivals without rows"),
        (any(_has_no_offset(gap) for gap in facts.gaps), "a gap whose times have no offset from UTC"),
    )


def _wrong_end(shard: ShardResult) -> bool:
    if shard.error is None:
        return shard.end is None
    return shard.end is not None or shard.error.shard_id != shard.shard_id


def _has_no_offset(gap: Gap) -> bool:
    return gap.until.tzinfo is None or (gap.since is not None and gap.since.tzinfo is None)


def is_reachable(range_: ShardRange, position: Position, records: int, first: str | None) -> bool:
    """Return whether a range can have been read up to a position.

    Args:
        range_: The range.
        position: The position.
        records: Number of records read.
        first: Sequence number of the first record read; None if none was read.
    """
    start = range_.start
    if not records:
        return (first, position) == (None, start)
    return (
        first is not None
        and position.kind is PositionKind.AFTER_SEQUENCE_NUMBER
        and is_ascending([start.sequence_number or "0", first, position.sequence_number])
        and _is_after(start, position)
        and _can_be_first(start, first)
        and _within(position, range_.up_to)
    )


def _can_be_first(start: Position, first: str) -> bool:
    """Return whether a record at or after a start can be the first one read from there."""
    if start.kind is PositionKind.AFTER_SEQUENCE_NUMBER and start.sub_sequence_number is None:
        return first != start.sequence_number
    return True


def _is_after(start: Position, position: Position) -> bool:
    """Return whether a position that is not before a start is after it."""
    if start.kind is not PositionKind.AFTER_SEQUENCE_NUMBER:
        return True
    before, after = start.sub_sequence_number, position.sub_sequence_number
    if start.sequence_number != position.sequence_number:
        return True
    return before is not None and (after is None or after > before)


def _within(position: Position, up_to: Position | None) -> bool:
    """Return whether a range that ends where a read from `up_to` starts can reach a position."""
    if up_to is None:
        return True
    if position.sequence_number == up_to.sequence_number:
        return up_to.kind is PositionKind.AFTER_SEQUENCE_NUMBER
    return is_ascending([position.sequence_number, up_to.sequence_number])


def is_ascending(numbers: Sequence[str | None]) -> bool:
    """Return whether all are sequence numbers, each at least as large as the one before it."""
    if not all(number is not None and NUMBER.fullmatch(number) for number in numbers):
        return False
    values = [int(number or 0) for number in numbers]
    return values == sorted(values)


def _first(found: Iterable[str | None]) -> str | None:
    return next((each for each in found if each), None)


def first_failed(shard_id: str, *checks: tuple[bool, str]) -> str | None:
    """Return the reason of the first check that failed, with the shard; None if all passed.

    Args:
        shard_id: The shard.
        checks: Whether each failed, and the reason if so.
    """
    return _first(f"{shard_id}: {reason}" for failed, reason in checks if failed)
