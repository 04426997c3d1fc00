"""The metrics of a stream's shards at each tick of the sensor, which go on if nothing runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.unread import lags, latest_time, readable
from kinesis_assets.metrics.instruments import LAG, SHARD, STREAM, TIME_TO_LOSS
from kinesis_assets.metrics.recording import record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.positions.positions import ShardPosition


def record_shards(
    opened: OpenStream,
    listing: StreamListing,
    shards: Mapping[str, ShardPosition],
    *,
    waiting: Mapping[str, float],
    now: float,
) -> None:
    """Record the lag of each shard that can be read, and the time to loss of each unfinished one.

    Args:
        opened: The stream.
        listing: Its shards.
        shards: The position of each shard.
        waiting: Since when shards at their tip wait to be read, see `waiting_shards`.
        now: The time of the tick, in seconds since the epoch.
    """
    time = latest_time(shards, listing.summary.service_time, datetime.fromtimestamp(now, UTC))
    for shard_id, lag in lags(readable(shards), time, waiting=waiting, idle=opened.max_idle).items():
        if lag is not None:
            record(LAG, lag.total_seconds(), {STREAM: opened.name, SHARD: shard_id})
    for shard_id, shard in shards.items():
        if not shard.finished and shard.safe_until is not None:
            remaining = max(shard.safe_until - time, timedelta())
            record(TIME_TO_LOSS, remaining.total_seconds(), {STREAM: opened.name, SHARD: shard_id})
