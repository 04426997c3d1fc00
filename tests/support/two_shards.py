"""The shards of a stream of two."""

from __future__ import annotations

FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"

IN_SHARD = {FIRST: "0", SECOND: str((1 << 128) - 1)}
