"""A compact encoding of the differences between two sets of positions.

Most changes are alike: more of a shard was read, so its sequence number and its times are somewhat later.
These are stored as columns of numbers, relative to the base. A shard with any other change is stored
completely.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.number_columns import Column, pack, unpack
from kinesis_assets.table.positions import Landed, ShardPosition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Changes(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The shards that differ from the base, and the rows that the commit added.

    It is stored as an array, so the order of the fields is fixed.

    Attributes:
        moved: Number of shards in `columns`: those that were read further and have no other change.
        columns: Their indexes among the base's shards, then the numbers of `_encode_moved`.
        whole: The other changed shards, by shard id.
        removed: Indexes of the base's shards that have been moved to the archive.
        landed: Number of ranges in `landed_columns`: those of shards in the base that start after a record.
        landed_columns: The indexes of their shards, then the numbers of `_encode_landed`.
        landed_whole: The other ranges, by shard id.
    """

    moved: int
    columns: tuple[Column, ...]
    whole: dict[str, ShardPosition]
    removed: tuple[int, ...]
    landed: int
    landed_columns: tuple[Column, ...]
    landed_whole: dict[str, Landed]


def changes(
    base: Mapping[str, ShardPosition], shards: Mapping[str, ShardPosition], landed: Mapping[str, Landed]
) -> Changes:
    """Encode the differences from a base; `apply` decodes them.

    Args:
        base: The shards of the base.
        shards: The shards after the commit.
        landed: The rows that the commit added, by shard id.
    """
    moved: list[tuple[int, ...]] = []
    ranges: list[tuple[int, ...]] = []
    whole: dict[str, ShardPosition] = {}
    landed_whole = dict(landed)
    index = {shard_id: number for number, shard_id in enumerate(base)}
    for shard_id, shard in shards.items():
        before = base.get(shard_id)
        if before is shard or before == shard:
            continue
        if before is not None and (row := _encode_moved(before, shard)) is not None:
            moved.append((index[shard_id], *row))
        else:
            whole[shard_id] = shard
    for shard_id, each in landed.items():
        before, now = base.get(shard_id), shards.get(shard_id)
        if before is None or now is None:
            continue
        if (row := _encode_landed(before, now, each)) is not None:
            ranges.append((index[shard_id], *row))
            del landed_whole[shard_id]
    return Changes(
        moved=len(moved),
        columns=_columns(moved),
        whole=whole,
        removed=tuple(number for shard_id, number in index.items() if shard_id not in shards),
        landed=len(ranges),
        landed_columns=_columns(ranges),
        landed_whole=landed_whole,
    )


def apply(
    base: Mapping[str, ShardPosition], changed: Changes
) -> tuple[dict[str, ShardPosition], dict[str, Landed]]:
    """Return the `shards` and `landed` that were passed to `changes`.

    Args:
        base: The shards of the base.
        changed: The differences from it.

    Raises:
        msgspec.ValidationError: They are not differences from this base.
    """
    ids = list(base)
    shards, landed = dict(base), dict(changed.landed_whole)
    try:
        for index, *row in _rows(changed.columns, changed.moved):
            shards[ids[index]] = _decode_moved(base[ids[index]], row)
        shards |= changed.whole
        for index in changed.removed:
            del shards[ids[index]]
        for index, *row in _rows(changed.landed_columns, changed.landed):
            landed[ids[index]] = _decode_landed(base[ids[index]], shards[ids[index]], row)
    except (InvalidInput, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise msgspec.ValidationError(f"its changes do not match its base: {error!r}") from error
    return shards, landed


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


def _encode_landed(before: ShardPosition, now: ShardPosition, landed: Landed) -> tuple[int, ...] | None:
    """Encode the added rows of a shard as numbers; return None if numbers do not describe them completely."""
    start, last = landed.start, int(landed.last_sequence_number)
    if start.kind is not PositionKind.AFTER_SEQUENCE_NUMBER:
        return None
    row = (
        int(start.sequence_number or 0) - _number(before),
        _encode_optional(start.sub_sequence_number),
        last - int(landed.first_sequence_number),
        landed.rows,
        landed.bytes,
        landed.checksum,
    )
    return row if _decode_landed(before, now, row) == landed else None


def _decode_landed(before: ShardPosition, now: ShardPosition, row: Sequence[int]) -> Landed:
    start, sub, distance, rows, size, checksum = row
    last = now.position.sequence_number or "0"
    return Landed(
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
