"""Compaction, retention, vacuum and table properties."""
