"""Merges the shards that an attempt read into the positions that other runs have committed since."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import PositionConflict, PositionsUnreadable
from kinesis_assets.kinesis.stream import unfinished_parents

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions


def merge(
    current: StreamPositions,
    expected: StreamPositions,
    moved: Mapping[str, ShardPosition],
    history: Iterable[StreamPositions],
) -> tuple[dict[str, ShardPosition], dict[str, PositionConflict]]:
    """Merge an attempt's shards into the current positions.

    Args:
        current: The positions in the table now, with every listed shard.
        expected: The positions that the attempt started from.
        moved: The new positions of the attempt's shards, by shard id.
        history: The current positions and those before them, see `last_moved_by`. A conflict names the run
            that moved the shard.

    Returns:
        The positions of all shards: those of the attempt for its shards without a conflict, with what other
        runs have recorded of them, and the current ones for the others. Then the conflicts by shard id: the
        attempt's shards that another run has moved, and their children whose parents are for that reason not
        finished in the merged positions.
    """
    moved_by_others = [
        shard_id for shard_id in moved if not current.shards[shard_id].same_place(expected.shards[shard_id])
    ]
    moved_by = last_moved_by(history, moved_by_others)
    conflicts = {
        shard_id: PositionConflict(
            shard_id,
            f"expected at {expected.shards[shard_id].position}, but {_name(moved_by.get(shard_id))} left it "
            f"at {current.shards[shard_id].position}; this run added none of its rows. "
            "No action is needed: the next run continues from there",
        )
        for shard_id in moved_by_others
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
            shard_id: _with_updates(position, expected.shards[shard_id], merged[shard_id])
            for shard_id, position in ready.items()
        }
        pending = {shard_id: position for shard_id, position in pending.items() if shard_id not in ready}
    for shard_id, position in pending.items():
        conflicts[shard_id] = PositionConflict(
            shard_id,
            f"another run moved its parent ({', '.join(position.parents)}) before this run could commit the "
            "parent's end; this run added none of its rows. No action is needed: the next run reads it",
        )
    return merged, conflicts


def last_moved_by(history: Iterable[StreamPositions], shard_ids: Iterable[str]) -> dict[str, StreamPositions]:
    """Return the commit that moved each shard to its current position, by shard id.

    Args:
        history: Consecutive positions, newest first, see `PositionsChain.back_from`. They are read only as
            far as needed, and up to the first that cannot be read.
    """
    found: dict[str, StreamPositions] = {}
    pending = set(shard_ids)
    if not pending:
        return found
    with suppress(PositionsUnreadable):  # the commits only name the run that moved a shard
        for newer, older in pairwise(history):
            for shard_id in sorted(pending):
                before, after = older.shards.get(shard_id), newer.shards.get(shard_id)
                if after is not None and (before is None or not after.same_place(before)):
                    found[shard_id] = newer
            pending -= found.keys()
            if not pending:
                break
    return found


def _name(commit: StreamPositions | None) -> str:
    if commit is None:
        return "another run"
    return f"batch {commit.batch_id}" + (f" of {commit.by}" if commit.by else "")


def _with_updates(moved: ShardPosition, expected: ShardPosition, current: ShardPosition) -> ShardPosition:
    """Add what another run may have recorded without moving the position: a later tip, a lower retention."""
    seen = [time for time in (moved.tip_time, current.tip_time) if time is not None]
    hours = moved.retention_hours
    if current.retention_hours != expected.retention_hours:
        hours = min((each for each in (hours, current.retention_hours) if each is not None), default=None)
    return msgspec.structs.replace(moved, tip_time=max(seen, default=None), retention_hours=hours)
