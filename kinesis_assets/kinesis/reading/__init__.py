"""Read one shard's range."""
