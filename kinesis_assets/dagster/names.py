"""What a stream's definitions are called in Dagster."""

from __future__ import annotations

import dagster as dg


def stream_key(stream: str) -> dg.AssetKey:
    """The asset of a stream itself."""
    return dg.AssetKey(["kinesis", stream])


def raw_key(stream: str) -> dg.AssetKey:
    """The asset of a stream's raw table."""
    return dg.AssetKey(["kinesis", f"{stream}_raw"])


def io_manager_key(stream: str) -> str:
    """The resource that loads and stores a stream."""
    return f"{raw_key(stream).to_python_identifier()}_io_manager"


def sensor_name(stream: str) -> str:
    """The sensor of a stream."""
    return f"{raw_key(stream).to_python_identifier()}_sensor"


def op_key(job: str) -> str:
    """The one op of a job; Dagster wants its name to be another than the job's."""
    return f"{job}_op"


def shard_partitions(stream: str) -> dg.DynamicPartitionsDefinition:
    """A stream's shards as partitions."""
    return dg.DynamicPartitionsDefinition(name=f"kinesis/{stream}")
