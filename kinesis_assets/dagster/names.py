"""The names of a stream's definitions in Dagster."""

from __future__ import annotations

import re

import dagster as dg


def stream_key(stream: str) -> dg.AssetKey:
    """Return the key of the external asset that represents a stream."""
    return dg.AssetKey(["kinesis", stream])


def raw_key(stream: str) -> dg.AssetKey:
    """Return the key of the asset that represents a stream's raw table."""
    return dg.AssetKey(["kinesis", f"{stream}_raw"])


def io_manager_key(stream: str) -> str:
    """Return the resource key of a stream's I/O manager."""
    return f"{raw_key(stream).to_python_identifier()}_io_manager"


def sensor_name(stream: str) -> str:
    """Return the name of a stream's sensor."""
    return f"{raw_key(stream).to_python_identifier()}_sensor"


def automation_name(stream: str) -> str:
    """Return the name of the sensor that evaluates the automation conditions of the assets below a stream."""
    return f"{raw_key(stream).to_python_identifier()}_automation"


def group_name(stream: str) -> str:
    """Return the name of a stream's asset group. Dagster allows fewer characters in it than Kinesis."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", stream)


def op_key(job: str) -> str:
    """Return the name of a job's only op. Dagster requires it to differ from the job's name."""
    return f"{job}_op"


def shard_partitions(stream: str) -> dg.DynamicPartitionsDefinition:
    """Return the partitions definition of a stream: each shard is a partition."""
    return dg.DynamicPartitionsDefinition(name=f"kinesis/{stream}")
