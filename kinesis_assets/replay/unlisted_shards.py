"""Shards of a replay that the list of shards lacks: expired, or left out by an incomplete list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.errors import ShardListIncomplete, ShardVanished
from kinesis_assets.kinesis.position import PositionKind

if TYPE_CHECKING:
    from collections.abc import Collection

    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.stream import StreamSummary
    from kinesis_assets.table.positions import ShardPosition


def is_left_out(shard: ShardPosition, summary: StreamSummary, *, whole: bool) -> bool:
    """Whether a list that lacks a shard is incomplete, so that nothing is known of the shard.

    Args:
        shard: Where the shard is.
        summary: The stream, with the service's clock.
        whole: The open shards of the list cover all hash keys. A list that does not may lack any open shard.
    """
    if not whole and not shard.finished:
        return True
    return shard.listed_until is not None and shard.listed_until > summary.service_time


def refuse_left_out(summary: StreamSummary, left_out: Collection[str]) -> None:
    """See that a list left out no shard.

    Raises:
        ShardListIncomplete: It did; another list is probably complete.
    """
    if left_out:
        raise ShardListIncomplete(
            summary.identity.name,
            f"ListShards left out {', '.join(left_out)}, which cannot have expired yet; nothing was filled "
            "in. Try again later",
        )


def left_out_error(shard_id: str, summary: StreamSummary) -> ShardVanished:
    """Why nothing of a shard is read again that each list left out."""
    return ShardVanished(
        shard_id,
        f"ListShards of stream {summary.identity.name} left it out each time, and it cannot be known to have "
        "expired, so nothing of it was read again. Replay this shard later",
    )


def expired_error(shard_id: str, shard: ShardPosition, start: Position) -> ShardVanished | None:
    """Why a range of an expired shard cannot be read again; None if it has nothing of the shard."""
    time, read_until = start.timestamp, shard.complete_until
    nothing_since = time is not None and read_until is not None and read_until < time
    if start.kind is PositionKind.TRIM_HORIZON or nothing_since:
        return None
    return ShardVanished(
        shard_id,
        f"no longer listed: all of it is past the stream's retention, and nothing from {start} on can "
        "be read again. What the table has of it stays",
    )
