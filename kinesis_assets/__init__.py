"""Kinesis streams as Dagster assets."""
