"""Kinesis itself: positions, shards, calls, reading. Knows neither Spark nor Dagster."""
