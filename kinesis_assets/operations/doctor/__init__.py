"""Verify a table against its log, its stream and Dagster's events."""
