"""Names of definitions in Dagster; those of a stream without a `key_prefix` by its name alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kinesis_assets.dagster.stream_names import StreamNames

if TYPE_CHECKING:
    import dagster as dg


def stream_key(stream: str) -> dg.AssetKey:
    """Return the key of the external asset that represents a stream."""
    return StreamNames(stream).stream_key


def raw_key(stream: str) -> dg.AssetKey:
    """Return the key of the asset that represents a stream's raw table."""
    return StreamNames(stream).raw_key


def io_manager_key(stream: str) -> str:
    """Return the resource key of a stream's I/O manager."""
    return StreamNames(stream).io_manager_key


def sensor_name(stream: str) -> str:
    """Return the name of a stream's sensor."""
    return StreamNames(stream).sensor


def automation_name(stream: str) -> str:
    """Return the name of the sensor that evaluates the automation conditions of the assets below a stream."""
    return StreamNames(stream).automation


def group_name(stream: str) -> str:
    """Return the name of a stream's asset group. Dagster allows fewer characters in it than Kinesis."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", stream)


def op_key(job: str) -> str:
    """Return the name of a job's only op. Dagster requires it to differ from the job's name."""
    return f"{job}_op"


def shard_partitions(stream: str) -> dg.DynamicPartitionsDefinition:
    """Return the partitions definition of a stream: each shard is a partition."""
    return StreamNames(stream).partitions
