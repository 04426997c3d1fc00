"""Which way a shard's position goes when it is set by hand, and what is left of what was known of it.

No call to the stream, and none to the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import SeekRefused
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.row_predicates import Passed, at, passed

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from datetime import datetime

    from kinesis_assets.seek.probe import Seen, Sight
    from kinesis_assets.table.positions import ShardPosition, StreamPositions


class Direction(StrEnum):
    """Which way a shard's position goes."""

    FORWARD = "forward"
    """Records are skipped; the gap is recorded."""
    BACK = "back"
    """Rows after the new position are taken out; the next run lands them again."""
    REOPEN = "reopen"
    """It is recorded as read to its end, but is open: reading continues at its position."""
    STAYS = "stays"
    """It stands there already, or the shard cannot be read any more."""


@dataclass(frozen=True, slots=True)
class Move:
    """What becomes of one shard.

    Attributes:
        shard_id: The shard.
        direction: See `Direction`.
        before: Where it stands.
        after: How it is left, without the seek itself.
        rows_removed: Rows that are taken out.
        gap: What is skipped.
    """

    shard_id: str
    direction: Direction
    before: ShardPosition
    after: ShardPosition
    rows_removed: int = 0
    gap: Gap | None = None


def plan_moves(
    positions: StreamPositions,
    sights: Mapping[str, Sight],
    chosen: Iterable[str],
    *,
    listed_open: Container[str],
    now: datetime,
    all_shards: bool,
) -> dict[str, Move]:
    """What becomes of each chosen shard, before the rows are looked at.

    Args:
        positions: As they stand, with every listed shard.
        sights: Where each chosen shard is to go, and what the stream shows there; a shard that is not listed
            has none.
        chosen: Shard ids.
        listed_open: The shards that the stream lists as open.
        now: The service's clock.
        all_shards: They were not named, so one that cannot be moved stays.

    Raises:
        SeekRefused: A shard that was named cannot be moved.
    """
    moves = {}
    for shard_id in chosen:
        shard = positions.shards[shard_id]
        direction = Direction.STAYS
        if shard_id in sights:
            direction = _direction(shard, sights[shard_id])
        wrongly_finished = shard.finished and shard_id in listed_open
        if direction is Direction.FORWARD and shard.finished and not wrongly_finished:
            if not all_shards:
                raise SeekRefused(shard_id, f"read to its end: nothing comes after {shard.position} to skip")
            direction = Direction.STAYS
        if direction is Direction.STAYS and wrongly_finished:
            reopened = msgspec.structs.replace(shard, finished=False)
            moves[shard_id] = Move(shard_id, Direction.REOPEN, shard, reopened)
        elif direction is Direction.STAYS:
            moves[shard_id] = Move(shard_id, direction, shard, shard)
        elif direction is Direction.BACK:
            moves[shard_id] = _back(shard_id, shard, sights[shard_id])
        else:
            moves[shard_id] = _forward(shard_id, shard, sights[shard_id], now)
    _reopen_empty(moves)
    return moves


def _direction(shard: ShardPosition, sight: Sight) -> Direction:
    target, there = sight.target, passed(shard.position)
    if target == shard.position:
        return Direction.STAYS
    if there is None:
        return _direction_of_unread(shard, sight)
    where = _where(sight)
    if where is not None and where < there:
        return Direction.BACK
    if where == there or _is_complete(shard, target):
        return Direction.STAYS
    nothing_left = target.kind is PositionKind.TRIM_HORIZON and where is None
    return Direction.STAYS if nothing_left else Direction.FORWARD


def _direction_of_unread(shard: ShardPosition, sight: Sight) -> Direction:
    """Of a shard that stands at TRIM_HORIZON or at a time: no record of it was ever read."""
    target, start = sight.target, shard.position.timestamp
    if start is None:
        read_until = shard.tip_time
        known = target.timestamp is not None and read_until is not None and target.timestamp <= read_until
        return Direction.STAYS if known else Direction.FORWARD
    arrival = target.timestamp
    if arrival is None and sight.first is not None:
        arrival = sight.first.arrival
    if arrival is not None and arrival < start:
        return Direction.BACK
    if target.kind is PositionKind.TRIM_HORIZON or _is_complete(shard, target):
        return Direction.STAYS
    return Direction.FORWARD


def _is_complete(shard: ShardPosition, target: Position) -> bool:
    """Whether a target is a time up to which nothing is left to be skipped."""
    until = shard.complete_until
    return target.timestamp is not None and until is not None and target.timestamp <= until


def _forward(shard_id: str, shard: ShardPosition, sight: Sight, now: datetime) -> Move:
    unread = shard.position.kind is PositionKind.TRIM_HORIZON and shard.tip_time is None
    first = sight.first
    gap = Gap(
        after=shard.position,
        since=None if unread else shard.complete_until,  # before its first plan nothing of it was read
        next_sequence_number=None if first is None else first.sequence_number,
        until=now if first is None else first.arrival,
    )
    after = msgspec.structs.replace(
        shard,
        position=_at_first(sight) if sight.target.kind is PositionKind.TRIM_HORIZON else sight.target,
        finished=False,
        tip_time=None,
        last_arrival=None,
        wanted_from=sight.target.timestamp or gap.until,
        gaps=(*shard.gaps, gap),
    )
    return Move(shard_id, Direction.FORWARD, shard, after, gap=gap)


def _back(shard_id: str, shard: ShardPosition, sight: Sight) -> Move:
    where, first = _where(sight), sight.first
    if where is not None and (sight.oldest is None or where < at(sight.oldest.sequence_number)):
        have = (
            "has none of its records any more" if sight.oldest is None else f"has it from {sight.oldest} on"
        )
        raise SeekRefused(
            shard_id,
            f"{sight.target} is before what the stream still has for long enough to be read again: it {have}."
            " What was taken out could not come back; go to a later position, or fill what is missing by a "
            "replay, which takes nothing out",
        )
    after = msgspec.structs.replace(
        shard,
        position=_at_first(sight),
        finished=False,
        tip_time=None,
        last_arrival=None,
        wanted_from=first.arrival if first else sight.target.timestamp or shard.wanted_from,
        gaps=shard.gaps if where is None or first is None else _gaps_before(shard.gaps, where, first),
    )
    return Move(shard_id, Direction.BACK, shard, after)


def _where(sight: Sight) -> Passed | None:
    """What a target has passed; None where nothing was seen that would tell."""
    if sight.target.sequence_number is not None:
        return passed(sight.target)
    return None if sight.first is None else at(sight.first.sequence_number)


def _at_first(sight: Sight) -> Position:
    """A target as the record that is the first one read."""
    if sight.target.sequence_number is not None or sight.first is None:
        return sight.target
    return Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=sight.first.sequence_number)


def _gaps_before(gaps: Sequence[Gap], where: Passed, first: Seen) -> tuple[Gap, ...]:
    """What is left of the gaps: from the first record on, everything is read again."""
    left = []
    for gap in gaps:
        begins = passed(gap.after)
        if gap.next_sequence_number is not None and at(gap.next_sequence_number) <= where:
            left.append(gap)
        elif begins is None or begins < where:
            left.append(
                msgspec.structs.replace(gap, next_sequence_number=first.sequence_number, until=first.arrival)
            )
    return tuple(left)


def _reopen_empty(moves: dict[str, Move]) -> None:
    """Chosen shards that gave no record wait again for a parent that is read again."""
    while empty := [
        move
        for move in moves.values()
        if move.after.finished
        and passed(move.after.position) is None
        and any(parent in moves and not moves[parent].after.finished for parent in move.after.parents)
    ]:
        for move in empty:
            after = msgspec.structs.replace(move.before, finished=False)
            moves[move.shard_id] = replace(move, direction=Direction.BACK, after=after)


def moving(moves: Mapping[str, Move]) -> dict[str, Move]:
    """Return the moves that change a position."""
    return {key: move for key, move in moves.items() if move.direction is not Direction.STAYS}


def going_back(moves: Mapping[str, Move]) -> dict[str, Move]:
    """Return the moves that remove rows."""
    return {key: move for key, move in moves.items() if move.direction is Direction.BACK}
