"""Maintenance of a table: compaction, retention, vacuum, checkpoints, pruning and table properties."""
