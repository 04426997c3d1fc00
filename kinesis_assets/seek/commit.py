"""Commit the moves of a seek: rows, positions and amendment in one commit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.seek.plan import going_back, moving
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.positions import amendments as amendment_file
from kinesis_assets.table.positions.amendments import ClearedGap
from kinesis_assets.table.positions.positions import FORMAT, Seek, StreamPositions
from kinesis_assets.table.row_predicates import passed, rows_after

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.seek.plan import Move
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.snapshot import TableSnapshot


def following_positions(
    current: StreamPositions,
    moves: Mapping[str, Move],
    batch_id: int,
    *,
    commit_id: int,
    by: str,
    now: datetime,
    examined: int,
) -> StreamPositions:
    """Return the positions after a seek.

    Args:
        current: The positions before it.
        moves: The moves, by shard id.
        batch_id: Identifies the seek.
        commit_id: Identifies this attempt to commit it.
        by: Id of the Dagster run or name of the person.
        now: The service's clock.
        examined: The version of the table that the moves were planned with.
    """
    changed = {
        shard_id: msgspec.structs.replace(
            move.after,
            seeks=(
                *move.before.seeks,
                Seek(
                    at=now,
                    by=by,
                    before=move.before.position,
                    after=move.after.position,
                    rows_removed=move.rows_removed,
                ),
            ),
        )
        for shard_id, move in moving(moves).items()
    }
    return StreamPositions(
        format=FORMAT,
        identity=current.identity,
        commit_id=commit_id,
        previous=current.commit_id,
        generation=current.generation + 1,
        batch_id=batch_id,
        shards=current.shards | changed,
        by=by,
        listed_at=current.listed_at,
        predecessors=current.predecessors,
        examined=examined,
        provisioned_since=current.provisioned_since,
    )


def commit_moves(snapshot: TableSnapshot, following: StreamPositions, moves: Mapping[str, Move]) -> None:
    """Try once to commit moves.

    Args:
        snapshot: The version of the table that the moves were planned with.
        following: The positions after the moves.
        moves: The moves, by shard id.
    """
    identity, back = following.identity, going_back(moves)
    amendment = _amendment(snapshot, following, tuple(back)) if back else None
    places = {
        shard_id: place
        for shard_id, move in back.items()
        if move.rows_removed and (place := passed(move.after.position)) is not None
    }
    if places:
        predicate = rows_after(identity.name, places)
        snapshot.remove(predicate, identity=identity, positions=following, amendment=amendment)
    else:  # deleting no row would commit nothing
        snapshot.commit([], identity=identity, positions=following, amendment=amendment)


def _amendment(snapshot: TableSnapshot, following: StreamPositions, shard_ids: tuple[str, ...]) -> Amendment:
    """Return the amendment of shards that go back.

    It is needed even if no row is removed: a replay that fills in rows at the same time must restart.
    """
    before = snapshot.amendment(following.identity)
    return amendment_file.next_amendment(
        before,
        batch_id=following.batch_id,
        at=datetime.fromtimestamp(time_of_id(following.commit_id), UTC),  # by this machine's clock
        by=following.by,
        rewound=shard_ids,
        cleared={} if before is None else _still_cleared(before, following),
    )


def _still_cleared(before: Amendment, following: StreamPositions) -> dict[str, tuple[ClearedGap, ...]]:
    """Return the filled gaps that the positions still have: rows of the other gaps are removed."""
    still: dict[str, tuple[ClearedGap, ...]] = {}
    for shard_id, cleared in before.cleared.items():
        shard = following.shards.get(shard_id)
        if shard is None:  # in the archive, so it was not moved
            still[shard_id] = cleared
        elif kept := tuple(gap for gap in cleared if gap in map(ClearedGap.of, shard.gaps)):
            still[shard_id] = kept
    return still
