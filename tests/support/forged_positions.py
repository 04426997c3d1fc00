"""Commits of positions that no run would commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kinesis_assets.table.commit_ids import new_id

if TYPE_CHECKING:
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable


def forge(table: PositionedTable, now: StreamPositions, **changes: Any) -> StreamPositions:
    """Commit the current positions with changes."""
    following = {
        "commit_id": new_id(),
        "previous": now.commit_id,
        "generation": now.generation + 1,
        "batch_id": new_id(),
        "added": {},
    }
    forged = msgspec.structs.replace(now, **following | changes)
    table.snapshot().commit([], identity=now.identity, positions=forged)
    return forged


def forge_shards(
    table: PositionedTable, now: StreamPositions, *shard_ids: str, **changes: Any
) -> StreamPositions:
    """Commit the current positions with changes of some shards."""
    changed = {each: msgspec.structs.replace(now.shards[each], **changes) for each in shard_ids}
    return forge(table, now, shards=now.shards | changed)
