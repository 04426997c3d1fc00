"""The metrics of a stream's shards at each tick of the sensor, which go on if nothing runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.unread import lags, latest_time, readable
from kinesis_assets.ingest.idle_shards import loss_times
from kinesis_assets.ingest.plan import gaps_to_fill
from kinesis_assets.metrics.instruments import LAG, SHARD, STREAM, TIME_TO_LOSS
from kinesis_assets.metrics.recording import record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.dagster.stream import ListedShards, OpenStream


def record_shards(
    opened: OpenStream,
    listed: ListedShards,
    *,
    waiting: Mapping[str, float],
    now: float,
) -> None:
    """Record the lag of each shard that can be read, and the time to loss of each with unread records.

    Args:
        opened: The stream.
        listed: Its shards.
        waiting: Since when shards at their tip wait to be read, see `waiting_shards`.
        now: The time of the tick, in seconds since the epoch.
    """
    listing, snapshot, shards = listed
    time = latest_time(shards, listing.summary.service_time, datetime.fromtimestamp(now, UTC))
    found = lags(readable(shards), time, waiting=waiting, idle=opened.max_idle)
    to_fill = {} if snapshot is None else gaps_to_fill(snapshot, listing.summary.identity, shards)
    record_gauges(opened.name, found, loss_times(shards, to_fill), time)


def record_gauges(
    stream: str, lags: Mapping[str, timedelta | None], losses: Mapping[str, datetime], time: datetime
) -> None:
    """Record the lag of shards, if known, and the time to loss of those with records still to be read.

    Args:
        stream: The name of the stream.
        lags: The lags by shard id.
        losses: When the first of these records may expire, by shard id.
        time: The time.
    """
    for shard_id, lag in lags.items():
        if lag is not None:
            record(LAG, lag.total_seconds(), {STREAM: stream, SHARD: shard_id})
    for shard_id, loss in losses.items():
        remaining = max(loss - time, timedelta())
        record(TIME_TO_LOSS, remaining.total_seconds(), {STREAM: stream, SHARD: shard_id})
