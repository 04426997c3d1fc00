"""Plan the moves of a seek: the direction of each shard, and what is kept of the facts about it.

This module calls neither the stream nor the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import SeekRefused
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import PassedRecord, Position, PositionKind, at, passed

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from datetime import datetime

    from kinesis_assets.operations.seek.first_records import FirstRecord, Target
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions


_PROBING = timedelta(minutes=15)
"""Time in which a catch-up finds the first record that it skips. A seek that takes longer is refused."""


class Direction(StrEnum):
    """The direction in which a seek moves a shard's position."""

    FORWARD = "forward"
    """Records are skipped, and the gap is recorded."""
    BACK = "back"
    """The rows after the new position are removed; the next run adds them again."""
    REOPEN = "reopen"
    """The shard was recorded as finished, but it is open: reading continues at its position."""
    STAYS = "stays"
    """The position does not change: it is already the requested one, or the shard can no longer be read."""


@dataclass(frozen=True, slots=True)
class Move:
    """The move of one shard.

    Attributes:
        after: The shard after the move, without the record of the seek itself.
        gap: The records that are skipped; None if none are.
    """

    direction: Direction
    before: ShardPosition
    after: ShardPosition
    rows_removed: int = 0
    gap: Gap | None = None


def plan_moves(
    positions: StreamPositions,
    targets: Mapping[str, Target],
    chosen: Iterable[str],
    *,
    listed_open: Container[str],
    now: datetime,
    all_shards: bool,
    to_fill: bool,
) -> dict[str, Move]:
    """Plan the move of each chosen shard, without the numbers of rows that are removed.

    Args:
        targets: The targets of chosen shards, by shard id. A shard without one stays.
        listed_open: The shards that the stream lists as open.
        all_shards: The shards were not named, so a shard that cannot be moved stays.
        to_fill: Of a catch-up: no shard goes back or is reopened, and the gaps are marked to be filled.

    Raises:
        SeekRefused: A shard that was named cannot be moved.
    """
    moves = {}
    for shard_id in chosen:
        shard = positions.shards[shard_id]
        direction = Direction.STAYS
        if shard_id in targets:
            direction = _direction(shard, targets[shard_id])
        if to_fill and (shard.finished or direction is Direction.BACK):
            direction = Direction.STAYS  # a run has read it to its end, or to the tip
        wrongly_finished = shard.finished and shard_id in listed_open and not to_fill
        if direction is Direction.FORWARD and shard.finished and not wrongly_finished:
            if not all_shards:
                raise SeekRefused(
                    shard_id, f"finished: there is no record after {shard.position} to skip; name open shards"
                )
            direction = Direction.STAYS
        if direction is Direction.STAYS and wrongly_finished:
            reopened = msgspec.structs.replace(shard, finished=False)
            moves[shard_id] = Move(Direction.REOPEN, shard, reopened)
        elif direction is Direction.STAYS:
            moves[shard_id] = Move(direction, shard, shard)
        elif direction is Direction.BACK:
            moves[shard_id] = _back(shard_id, shard, targets[shard_id])
        else:
            moves[shard_id] = _forward(shard, targets[shard_id], now, to_fill=to_fill)
    _reopen_empty(moves)
    return moves


def _direction(shard: ShardPosition, target: Target) -> Direction:
    position, current = target.position, passed(shard.position)
    if position == shard.position:
        return Direction.STAYS
    if current is None:
        return _direction_of_unread(shard, target)
    new = _passed_at_target(target)
    if new is not None and new < current:
        return Direction.BACK
    if new == current or _is_complete(shard, position):
        return Direction.STAYS
    nothing_left = position.kind is PositionKind.TRIM_HORIZON and new is None
    return Direction.STAYS if nothing_left else Direction.FORWARD


def _direction_of_unread(shard: ShardPosition, target: Target) -> Direction:
    """Return the direction of a shard at TRIM_HORIZON or at a time: no record of it was ever read."""
    position, start = target.position, shard.position.timestamp
    if start is None:
        read_until = shard.tip_time
        is_read = (
            position.timestamp is not None and read_until is not None and position.timestamp <= read_until
        )
        return Direction.STAYS if is_read else Direction.FORWARD
    arrival = position.timestamp
    if arrival is None and target.first is not None:
        arrival = target.first.arrival
    if arrival is not None and arrival < start:
        return Direction.BACK
    if position.kind is PositionKind.TRIM_HORIZON or _is_complete(shard, position):
        return Direction.STAYS
    return Direction.FORWARD


def _is_complete(shard: ShardPosition, position: Position) -> bool:
    """Whether a position is a time up to which all records were read or skipped."""
    until = shard.complete_until
    return position.timestamp is not None and until is not None and position.timestamp <= until


def _forward(shard: ShardPosition, target: Target, now: datetime, *, to_fill: bool) -> Move:
    """Return the move of a shard that skips records.

    The gap starts at the first record that it skips, if that is known: a replay that still finds this record
    has provably read the whole gap. If records may have expired before, the gap starts at the position.

    The gap of a catch-up ends before the record at which the next run starts. A shard without such a record,
    or without any before it, stays.
    """
    first, skipped, current = target.first, target.unread, passed(shard.position)
    if skipped is not None and first is not None and at(skipped.sequence_number) >= at(first.sequence_number):
        skipped = None
    complete = _is_available(shard, now)
    if to_fill and (first is None or (complete and skipped is None)):
        # Nothing is skipped, so nothing is gained; and if that response was wrong, a move would lose records.
        return Move(Direction.STAYS, shard, shard)
    gap = Gap(
        after=shard.position,
        since=None if shard.is_unread else shard.complete_until,  # nothing is read before the first plan
        next_sequence_number=None if first is None else first.sequence_number,
        until=now if first is None else first.arrival,
        to_fill=to_fill,
    )
    if complete and skipped is not None and (current is None or at(skipped.sequence_number) > current):
        start = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=skipped.sequence_number)
        gap = msgspec.structs.replace(gap, after=start, since=gap.since or skipped.arrival)
    at_record = to_fill or target.position.kind is PositionKind.TRIM_HORIZON
    after = msgspec.structs.replace(
        shard,
        position=_at_first(target) if at_record else target.position,
        finished=False,
        tip_time=None,
        last_arrival=None,
        wanted_from=gap.until if at_record else target.position.timestamp or gap.until,
        gaps=(*shard.gaps, gap),
    )
    return Move(Direction.FORWARD, shard, after, gap=gap)


def _is_available(shard: ShardPosition, now: datetime) -> bool:
    """Whether no unread record of a shard can have expired before its target was read."""
    since, hours = shard.complete_until, shard.retention_hours
    return since is not None and hours is not None and since + timedelta(hours=hours) > now + _PROBING


def _back(shard_id: str, shard: ShardPosition, target: Target) -> Move:
    new, first = _passed_at_target(target), target.first
    if new is not None and (target.oldest is None or new < at(target.oldest.sequence_number)):
        available = (
            "no record of the shard is available for that long"
            if target.oldest is None
            else f"the first record that is available for that long is {target.oldest}"
        )
        raise SeekRefused(
            shard_id,
            f"records after {target.position} have expired or will before a run can read them: {available}. "
            "Rows removed by a seek could not be added again; nothing was changed. Choose a later position, "
            "or fill in missing records with a replay, which removes nothing",
        )
    after = msgspec.structs.replace(
        shard,
        position=_at_first(target),
        finished=False,
        tip_time=None,
        last_arrival=None,
        wanted_from=first.arrival if first else target.position.timestamp or shard.wanted_from,
        gaps=shard.gaps if new is None or first is None else _gaps_before(shard.gaps, new, first),
    )
    return Move(Direction.BACK, shard, after)


def _passed_at_target(target: Target) -> PassedRecord | None:
    """Return what a shard at the target has passed; None if that is unknown."""
    if target.position.sequence_number is not None:
        return passed(target.position)
    return None if target.first is None else at(target.first.sequence_number)


def _at_first(target: Target) -> Position:
    """Return the target as the sequence number of its first record, if there is one."""
    if target.position.sequence_number is not None or target.first is None:
        return target.position
    return Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=target.first.sequence_number)


def _gaps_before(gaps: Sequence[Gap], new: PassedRecord, first: FirstRecord) -> tuple[Gap, ...]:
    """Return the gaps before a new position. A gap around it ends at the first record that is read again."""
    kept = []
    for gap in gaps:
        start = passed(gap.after)
        if gap.next_sequence_number is not None and at(gap.next_sequence_number) <= new:
            kept.append(gap)
        elif start is None or start < new:
            kept.append(
                msgspec.structs.replace(gap, next_sequence_number=first.sequence_number, until=first.arrival)
            )
    return tuple(kept)


def _reopen_empty(moves: dict[str, Move]) -> None:
    """Reopen chosen shards without records whose parents are read again."""
    while empty := {
        shard_id: move
        for shard_id, move in moves.items()
        if move.after.finished
        and passed(move.after.position) is None
        and any(parent in moves and not moves[parent].after.finished for parent in move.after.parents)
    }:
        for shard_id, move in empty.items():
            after = msgspec.structs.replace(move.before, finished=False)
            moves[shard_id] = replace(move, direction=Direction.BACK, after=after)


def moving(moves: Mapping[str, Move]) -> dict[str, Move]:
    """Return the moves that change a shard."""
    return {shard_id: move for shard_id, move in moves.items() if move.direction is not Direction.STAYS}


def going_back(moves: Mapping[str, Move]) -> dict[str, Move]:
    """Return the moves that go back."""
    return {shard_id: move for shard_id, move in moves.items() if move.direction is Direction.BACK}
