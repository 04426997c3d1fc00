"""Derived tables in Dagster: their assets, runs and events."""
