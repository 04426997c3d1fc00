"""A compact encoding of the differences between two sets of positions.

Most changes are alike: more of a shard was read, so its sequence number and its times are somewhat later.
These are stored as columns of numbers, relative to the base. A shard with any other change is stored
completely. The bytes of a column of large integers, such as sequence numbers, compress well.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.positions.positions import ShardPosition
from kinesis_assets.table.positions.range_stats import RangeStats

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_MAX_WIDTH = 64
"""Maximum bytes of a difference: a sequence number has up to 129 digits, which are 429 bits."""


class Column(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A column of integers.

    Attributes:
        lowest: The smallest number, as decimal text.
        width: Bytes of each number's difference from `lowest`.
        packed: The differences: the lowest byte of each number, then the next byte of each, and so on.
            Similar bytes are thus adjacent.
    """

    lowest: str
    width: int
    packed: bytes


def pack(numbers: Sequence[int]) -> Column:
    """Encode numbers as a column."""
    lowest = min(numbers, default=0)
    width = -(-(max(numbers, default=0) - lowest).bit_length() // 8)
    rows = b"".join([(number - lowest).to_bytes(width, "little") for number in numbers])
    return Column(str(lowest), width, b"".join([rows[byte::width] for byte in range(width)]))


def unpack(column: Column, count: int) -> list[int]:
    """Decode the numbers of a column that `pack` returned.

    Raises:
        msgspec.ValidationError: The column is damaged or has another count.
    """
    if not 0 <= column.width <= _MAX_WIDTH or len(column.packed) != column.width * count:
        raise msgspec.ValidationError(
            f"a column has {len(column.packed)} bytes instead of {count} x {column.width}"
        )
    try:
        lowest = int(column.lowest)
    except ValueError as error:
        raise msgspec.ValidationError(f"the lowest value of a column is not a number: {error}") from error
    if not column.width:
        return [lowest] * count
    return [lowest + int.from_bytes(column.packed[row::count], "little") for row in range(count)]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Changes(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The shards that differ from the base, and the ranges whose rows the commit added.

    It is stored as an array, so the order of the fields is fixed.

    Attributes:
        moved: Number of shards in `columns`: those that were read further and have no other change.
        columns: Their indexes among the base's shards, then the numbers of `_encode_moved`.
        whole: The other changed shards, by shard id.
        removed: Indexes of the base's shards that have been moved to the archive.
        added: Number of ranges in `added_columns`: those of shards in the base that start after a record.
        added_columns: The indexes of their shards, then the numbers of `_encode_added`.
        added_whole: The other ranges, by shard id.
    """

    moved: int
    columns: tuple[Column, ...]
    whole: dict[str, ShardPosition]
    removed: tuple[int, ...]
    added: int
    added_columns: tuple[Column, ...]
    added_whole: dict[str, RangeStats]


def changes(
    base: Mapping[str, ShardPosition], shards: Mapping[str, ShardPosition], added: Mapping[str, RangeStats]
) -> Changes:
    """Encode the differences of the shards after a commit from a base; `apply` decodes them.

    The ranges are those whose rows the commit added.
    """
    moved: list[tuple[int, ...]] = []
    ranges: list[tuple[int, ...]] = []
    whole: dict[str, ShardPosition] = {}
    added_whole = dict(added)
    index = {shard_id: number for number, shard_id in enumerate(base)}
    for shard_id, shard in shards.items():
        before = base.get(shard_id)
        if before is shard or before == shard:
            continue
        if before is not None and (row := _encode_moved(before, shard)) is not None:
            moved.append((index[shard_id], *row))
        else:
            whole[shard_id] = shard
    for shard_id, each in added.items():
        before, now = base.get(shard_id), shards.get(shard_id)
        if before is None or now is None:
            continue
        if (row := _encode_added(before, now, each)) is not None:
            ranges.append((index[shard_id], *row))
            del added_whole[shard_id]
    return Changes(
        moved=len(moved),
        columns=_columns(moved),
        whole=whole,
        removed=tuple(number for shard_id, number in index.items() if shard_id not in shards),
        added=len(ranges),
        added_columns=_columns(ranges),
        added_whole=added_whole,
    )


def apply(
    base: Mapping[str, ShardPosition], changed: Changes
) -> tuple[dict[str, ShardPosition], dict[str, RangeStats]]:
    """Return the `shards` and `added` that were passed to `changes`.

    Raises:
        msgspec.ValidationError: The changes are not from this base.
    """
    ids = list(base)
    shards, added = dict(base), dict(changed.added_whole)
    try:
        for index, *row in _rows(changed.columns, changed.moved):
            shards[ids[index]] = _decode_moved(base[ids[index]], row)
        shards |= changed.whole
        for index in changed.removed:
            del shards[ids[index]]
        for index, *row in _rows(changed.added_columns, changed.added):
            added[ids[index]] = _decode_added(base[ids[index]], shards[ids[index]], row)
    except (InvalidInput, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise msgspec.ValidationError(f"its changes do not match its base: {error!r}") from error
    return shards, added


def _columns(rows: Sequence[tuple[int, ...]]) -> tuple[Column, ...]:
    return tuple(pack(column) for column in zip(*rows, strict=True))


def _rows(columns: Sequence[Column], count: int) -> Iterator[tuple[int, ...]]:
    return zip(*(unpack(column, count) for column in columns), strict=True)


def _encode_moved(before: ShardPosition, shard: ShardPosition) -> tuple[int, ...] | None:
    """Encode a shard that was read further as numbers; return None if anything else of it changed."""
    position = shard.position
    if position.kind is not PositionKind.AFTER_SEQUENCE_NUMBER:
        return None
    row = (
        int(position.sequence_number or 0) - _number(before),
        _encode_optional(position.sub_sequence_number),
        _encode_optional(_microseconds(shard.tip_time)),
        _encode_optional(_microseconds(shard.last_arrival)),
        _encode_optional(shard.bytes_per_second),
    )
    # A shard that does not decode to the same value, as with fields added later, is stored completely.
    return row if _decode_moved(before, row) == shard else None


def _decode_moved(before: ShardPosition, row: Sequence[int]) -> ShardPosition:
    number, sub, tip_time, last_arrival, rate = row
    return msgspec.structs.replace(
        before,
        position=Position.after(str(_number(before) + number), _decode_optional(sub)),
        tip_time=_time(_decode_optional(tip_time)),
        last_arrival=_time(_decode_optional(last_arrival)),
        bytes_per_second=_decode_optional(rate),
    )


def _encode_added(before: ShardPosition, now: ShardPosition, stats: RangeStats) -> tuple[int, ...] | None:
    """Encode a range as numbers; return None if numbers do not describe it completely."""
    start, (first, last) = stats.start, stats.numbers
    if start.kind is not PositionKind.AFTER_SEQUENCE_NUMBER:
        return None
    row = (
        int(start.sequence_number or 0) - _number(before),
        _encode_optional(start.sub_sequence_number),
        last - first,
        stats.rows,
        stats.bytes,
        stats.checksum,
    )
    return row if _decode_added(before, now, row) == stats else None


def _decode_added(before: ShardPosition, now: ShardPosition, row: Sequence[int]) -> RangeStats:
    start, sub, distance, rows, size, checksum = row
    last = now.position.sequence_number or "0"
    return RangeStats(
        start=Position.after(str(_number(before) + start), _decode_optional(sub)),
        through=now.position,
        first_sequence_number=str(int(last) - distance),
        last_sequence_number=last,
        rows=rows,
        bytes=size,
        checksum=checksum,
    )


def _number(shard: ShardPosition) -> int:
    return int(shard.position.sequence_number or 0)


def _encode_optional(value: int | None) -> int:
    return 0 if value is None else value + 1


def _decode_optional(value: int) -> int | None:
    return value - 1 if value else None


def _microseconds(time: datetime | None) -> int | None:
    return None if time is None else (time - _EPOCH) // _MICROSECOND


def _time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _EPOCH + microseconds * _MICROSECOND
