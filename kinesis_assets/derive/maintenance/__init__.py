"""Maintenance of a derived table: compaction, vacuum, checkpoints and pruning."""
