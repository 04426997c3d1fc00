"""Read one range of a shard."""
