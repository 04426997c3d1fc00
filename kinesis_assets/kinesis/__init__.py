"""Kinesis: positions, shards, calls, reading. Nothing here imports Spark or Dagster."""
