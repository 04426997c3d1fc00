"""The names of the definitions of a stream without a `key_prefix`, by its name alone."""

from __future__ import annotations

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


def shard_partitions(stream: str) -> dg.DynamicPartitionsDefinition:
    """Return the partitions definition of a stream: each shard is a partition."""
    return StreamNames(stream).partitions
