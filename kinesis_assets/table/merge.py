"""How the positions of two runs are merged."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import PositionConflict
from kinesis_assets.kinesis.shards import unfinished_parents

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kinesis_assets.table.positions import ShardPosition, StreamPositions


def merge(
    current: StreamPositions,
    expected: StreamPositions,
    moved: Mapping[str, ShardPosition],
    moved_by: Mapping[str, StreamPositions],
) -> tuple[dict[str, ShardPosition], dict[str, PositionConflict]]:
    """Put an attempt's shards into the positions that stand now.

    Args:
        current: What stands in the table, with every listed shard.
        expected: What the attempt began from.
        moved: The attempt's shards as it leaves them.
        moved_by: The commits that moved some of these shards since *expected*, see `movers`.

    Returns:
        The merged positions of all shards; and the conflicts: the attempt's shards that are no longer where
        it began, and those whose parents' end is, for that reason, not in the merged positions.
    """
    conflicts = {
        shard_id: PositionConflict(
            shard_id,
            f"expected at {expected.shards[shard_id].position}, but {_mover(moved_by.get(shard_id))} left it "
            f"at {current.shards[shard_id].position}; this run added none of its rows. "
            "Nothing to do: the next run goes on from there",
        )
        for shard_id in taken(current, expected, moved)
    }
    merged = dict(current.shards)
    pending = {shard_id: position for shard_id, position in moved.items() if shard_id not in conflicts}
    while ready := {
        shard_id: position
        for shard_id, position in pending.items()
        if not unfinished_parents(
            position.parents,
            known=merged,
            finished={parent for parent in position.parents if parent in merged and merged[parent].finished},
        )
    }:
        merged |= {
            shard_id: _with_news(position, expected.shards[shard_id], merged[shard_id])
            for shard_id, position in ready.items()
        }
        pending = {shard_id: position for shard_id, position in pending.items() if shard_id not in ready}
    for shard_id, position in pending.items():
        conflicts[shard_id] = PositionConflict(
            shard_id,
            f"its parent ({', '.join(position.parents)}) was moved by another run before this one could "
            "record its end; this run added none of its rows. Nothing to do: the next run reads it",
        )
    return merged, conflicts


def taken(
    current: StreamPositions, expected: StreamPositions, moved: Mapping[str, ShardPosition]
) -> list[str]:
    """The attempt's shards that are no longer where it began."""
    return [
        shard_id for shard_id in moved if not current.shards[shard_id].same_place(expected.shards[shard_id])
    ]


def movers(links: Iterable[StreamPositions], shard_ids: Iterable[str]) -> dict[str, StreamPositions]:
    """By shard, the commit that left it where it stands.

    Args:
        links: Positions that follow on each other, newest first, down to those that the shards moved from.
            No more of them are read than it takes.
        shard_ids: The shards.
    """
    found: dict[str, StreamPositions] = {}
    pending = set(shard_ids)
    for newer, older in pairwise(links):
        for shard_id in sorted(pending):
            before, after = older.shards.get(shard_id), newer.shards.get(shard_id)
            if after is not None and (before is None or not after.same_place(before)):
                found[shard_id] = newer
        pending -= found.keys()
        if not pending:
            break
    return found


def _mover(mover: StreamPositions | None) -> str:
    if mover is None:
        return "another run"
    return f"batch {mover.batch_id}" + (f" of {mover.by}" if mover.by else "")


def _with_news(moved: ShardPosition, expected: ShardPosition, current: ShardPosition) -> ShardPosition:
    """What another run may have told without moving the position: a later tip, a lower retention."""
    seen = [time for time in (moved.tip_time, current.tip_time) if time is not None]
    hours = moved.retention_hours
    if current.retention_hours != expected.retention_hours:
        hours = min((each for each in (hours, current.retention_hours) if each is not None), default=None)
    return msgspec.structs.replace(moved, tip_time=max(seen, default=None), retention_hours=hours)
