"""What changed from some positions to later ones, in few bytes.

Most changes are alike: a shard was read on, so its sequence number and its times are somewhat later. Those
are columns of numbers, each as its difference from the base. A shard of which anything else changed is there
whole.
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
    """The shards that are not as the base has them, and what the commit wrote.

    Attributes:
        moved: How many shards were read on and changed in nothing else.
        columns: Of these: their places among the base's shards, and what `_COLUMNS` names.
        whole: The other changed shards.
        removed: Places of the base's shards that are in the archive since.
        landed: Of how many shards that are in the base the commit wrote rows, the range beginning after a
            record.
        landed_columns: Of these, likewise.
        landed_whole: Of the other shards.
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
    """What `apply` makes the same of.

    Args:
        base: The shards of the base.
        shards: The shards as the commit leaves them.
        landed: What the commit wrote, by shard id.
    """
    moved: list[tuple[int, ...]] = []
    brought: list[tuple[int, ...]] = []
    whole: dict[str, ShardPosition] = {}
    landed_whole = dict(landed)
    places = {shard_id: place for place, shard_id in enumerate(base)}
    for shard_id, shard in shards.items():
        before = base.get(shard_id)
        if before is shard or before == shard:
            continue
        if before is not None and (row := _moved_row(before, shard)) is not None:
            moved.append((places[shard_id], *row))
        else:
            whole[shard_id] = shard
    for shard_id, each in landed.items():
        before, now = base.get(shard_id), shards.get(shard_id)
        if before is None or now is None:
            continue
        if (row := _landed_row(before, now, each)) is not None:
            brought.append((places[shard_id], *row))
            del landed_whole[shard_id]
    return Changes(
        moved=len(moved),
        columns=_columns(moved),
        whole=whole,
        removed=tuple(place for shard_id, place in places.items() if shard_id not in shards),
        landed=len(brought),
        landed_columns=_columns(brought),
        landed_whole=landed_whole,
    )


def apply(
    base: Mapping[str, ShardPosition], changed: Changes
) -> tuple[dict[str, ShardPosition], dict[str, Landed]]:
    """The shards and what was written, as they were given to `changes`.

    Raises:
        msgspec.ValidationError: They are not the changes of such a base.
    """
    ids = list(base)
    shards, landed = dict(base), dict(changed.landed_whole)
    try:
        for place, *row in _rows(changed.columns, changed.moved):
            shards[ids[place]] = _moved(base[ids[place]], row)
        shards |= changed.whole
        for place in changed.removed:
            del shards[ids[place]]
        for place, *row in _rows(changed.landed_columns, changed.landed):
            landed[ids[place]] = _landed(base[ids[place]], shards[ids[place]], row)
    except (InvalidInput, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise msgspec.ValidationError(f"its changes are not of its base: {error!r}") from error
    return shards, landed


def _columns(rows: Sequence[tuple[int, ...]]) -> tuple[Column, ...]:
    return tuple(pack(column) for column in zip(*rows, strict=True))


def _rows(columns: Sequence[Column], count: int) -> Iterator[tuple[int, ...]]:
    return zip(*(unpack(column, count) for column in columns), strict=True)


def _moved_row(before: ShardPosition, shard: ShardPosition) -> tuple[int, ...] | None:
    """A shard that was read on, as numbers; None if anything else of it changed."""
    position = shard.position
    if position.kind is not PositionKind.AFTER_SEQUENCE_NUMBER:
        return None
    row = (
        int(position.sequence_number or 0) - _number(before),
        _or_none(position.sub_sequence_number),
        _or_none(_microseconds(shard.tip_time)),
        _or_none(_microseconds(shard.last_arrival)),
        _or_none(shard.bytes_per_second),
    )
    # Whatever a shard's position may hold one day: it is as it was, or the shard is there whole.
    return row if _moved(before, row) == shard else None


def _moved(before: ShardPosition, row: Sequence[int]) -> ShardPosition:
    number, sub, tip_time, last_arrival, rate = row
    return msgspec.structs.replace(
        before,
        position=Position.after(str(_number(before) + number), _none_or(sub)),
        tip_time=_time(_none_or(tip_time)),
        last_arrival=_time(_none_or(last_arrival)),
        bytes_per_second=_none_or(rate),
    )


def _landed_row(before: ShardPosition, now: ShardPosition, landed: Landed) -> tuple[int, ...] | None:
    """What was written of a shard, as numbers; None where numbers do not describe it completely."""
    start, last = landed.start, int(landed.last_sequence_number)
    if start.kind is not PositionKind.AFTER_SEQUENCE_NUMBER:
        return None
    row = (
        int(start.sequence_number or 0) - _number(before),
        _or_none(start.sub_sequence_number),
        last - int(landed.first_sequence_number),
        landed.rows,
        landed.bytes,
        landed.checksum,
    )
    return row if _landed(before, now, row) == landed else None


def _landed(before: ShardPosition, now: ShardPosition, row: Sequence[int]) -> Landed:
    start, sub, span, rows, size, checksum = row
    last = now.position.sequence_number or "0"
    return Landed(
        start=Position.after(str(_number(before) + start), _none_or(sub)),
        through=now.position,
        first_sequence_number=str(int(last) - span),
        last_sequence_number=last,
        rows=rows,
        bytes=size,
        checksum=checksum,
    )


def _number(shard: ShardPosition) -> int:
    return int(shard.position.sequence_number or 0)


def _or_none(value: int | None) -> int:
    return 0 if value is None else value + 1


def _none_or(value: int) -> int | None:
    return value - 1 if value else None


def _microseconds(time: datetime | None) -> int | None:
    return None if time is None else (time - _EPOCH) // _MICROSECOND


def _time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _EPOCH + microseconds * _MICROSECOND
