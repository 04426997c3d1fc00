"""Positions with many finished shards: in the archive, or still listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.stream import Shard
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.positions.positions_chain import ChainPolicy
from kinesis_assets.table.raw_table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions

SEGMENT_SHARDS = 256
"""Number of shards in a segment of the archive, as commits write it."""


def finish_shards(
    uri: str,
    identity: StreamIdentity,
    count: int,
    *,
    archived: bool,
    segment_shards: int = SEGMENT_SHARDS,
) -> dict[str, Shard]:
    """Add finished shards to the positions; their ids sort before those of the open ones.

    Args:
        uri: The table, which has positions.
        count: Number of finished shards.
        archived: Whether they are in the archive.
        segment_shards: Number of shards in a segment of the archive.

    Returns:
        The shards by shard id.
    """
    archiving = PositionedTable(uri, TablePolicy(ChainPolicy(max_files=0, min_archived=1)))
    snapshot = archiving.snapshot()
    positions = snapshot.positions(identity)
    assert positions is not None
    template = next(iter(positions.shards.values()))
    ended = {
        shard_id: Shard(shard_id, (), (str(number << 100), str((number + 1 << 100) - 1)), "1", closed=True)
        for number, shard_id in enumerate(f"shardId-000-{number:08}" for number in range(count))
    }
    recorded = {
        shard_id: msgspec.structs.replace(
            template,
            hash_range=shard.hash_range,
            position=Position.after(str(1 << 180 + number % 4)),
            finished=True,
        )
        for number, (shard_id, shard) in enumerate(ended.items())
    }
    ids, size = list(recorded), segment_shards if archived else count
    for first in range(0, count, size or 1):
        part = ids[first : first + size]
        positions = _next_positions(positions, {shard_id: recorded[shard_id] for shard_id in part})
        archiving.chain.write(positions, retired=set(part) if archived else ())
        positions = archiving.chain.positions_at(positions.commit_id)
    if count:
        snapshot.commit([], identity=positions.identity, positions=_next_positions(positions, {}))
    return ended


def _next_positions(positions: StreamPositions, ended: Mapping[str, ShardPosition]) -> StreamPositions:
    commit_id = new_id()
    return msgspec.structs.replace(
        positions,
        commit_id=commit_id,
        previous=positions.commit_id,
        generation=positions.generation + 1,
        batch_id=commit_id,
        shards={**positions.shards, **ended},
    )
