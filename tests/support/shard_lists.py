"""Faults of lists of shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinesis_assets.testing import Faults


def omit_shards(faults: Faults, *shard_ids: str, **when: Any) -> None:
    """Leave shards out of each list, or of those that `when` chooses."""

    def without(_: Any, response: Any) -> Any:
        shards = [shard for shard in response.members["Shards"] if shard["ShardId"] not in shard_ids]
        return response.but(Shards=shards)

    faults.answer("ListShards", without, **when)
