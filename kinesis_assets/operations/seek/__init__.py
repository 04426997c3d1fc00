"""Move a shard's position."""
