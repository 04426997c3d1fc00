"""Shards of a replay that the list of shards lacks: they expired, or the list is incomplete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.errors import ShardListIncomplete, ShardVanished
from kinesis_assets.kinesis.position import PositionKind

if TYPE_CHECKING:
    from collections.abc import Collection

    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.stream import StreamSummary
    from kinesis_assets.table.positions.positions import ShardPosition


def is_left_out(shard: ShardPosition, summary: StreamSummary, *, whole: bool) -> bool:
    """Return whether a list that lacks a shard may be incomplete, so that the shard may still exist.

    Args:
        shard: Position of the shard.
        summary: The stream, with the service's clock.
        whole: The open shards of the list cover all hash keys. A list that does not may lack any open shard.
    """
    if not whole and not shard.finished:
        return True
    return shard.listed_until is not None and shard.listed_until > summary.service_time


def refuse_left_out(summary: StreamSummary, left_out: Collection[str]) -> None:
    """Refuse a list that left out shards.

    Raises:
        ShardListIncomplete: The list left out shards; another list is probably complete.
    """
    if left_out:
        raise ShardListIncomplete(
            summary.identity.name,
            f"ListShards left out {', '.join(left_out)}, which cannot have expired yet; nothing was filled "
            "in. Try again later",
        )


def left_out_error(shard_id: str, summary: StreamSummary) -> ShardVanished:
    """Return the error of a shard that every list left out."""
    return ShardVanished(
        shard_id,
        f"ListShards of stream {summary.identity.name} left it out each time, and it cannot be known to have "
        "expired, so none of it was read again. Replay this shard later",
    )


def expired_error(shard_id: str, shard: ShardPosition, start: Position) -> ShardVanished | None:
    """Return the error of an expired shard; None if the range contains no record of it."""
    time, read_until = start.timestamp, shard.complete_until
    nothing_since = time is not None and read_until is not None and read_until < time
    if start.kind is PositionKind.TRIM_HORIZON or nothing_since:
        return None
    return ShardVanished(
        shard_id,
        f"no longer listed: all of its records are older than the stream's retention, so none from {start} "
        "on can be read again. The rows that the table has of it are kept; leave this shard out",
    )
