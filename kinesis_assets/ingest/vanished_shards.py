"""What to do with shards that are no longer listed and were not read to their end.

A shard is given up only if three things agree: it can have expired by the service's clock, the list does not
contain it, and the service refuses an iterator for it.

A shard that a list showed open cannot have expired before the retention has passed since that list. A shard
that was closed when it was first listed has no such time: it was closed at an unknown moment, up to a
retention before, and may expire right after that list. If it waited for a retention in any case, its children
would wait as long, and their records could expire. It is protected by the list and the iterator, which are
responses of different operations, and once a run has read from it, also by the time up to which it was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import CallFailed, ParentUnfinished, ShardVanished
from kinesis_assets.kinesis.data_loss import Gap, OnDataLoss
from kinesis_assets.kinesis.position import Position, PositionKind

if TYPE_CHECKING:
    from collections.abc import Container
    from datetime import datetime

    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.table.positions import ShardPosition, StreamPositions


def why_kept(
    client: StreamClient,
    expected: StreamPositions,
    shard_id: str,
    *,
    now: datetime,
    on_data_loss: OnDataLoss,
    given_up: Container[str],
) -> ShardError | None:
    """Why a shard that is not listed cannot be given up; None if it can.

    Args:
        client: The stream.
        expected: The positions, with every listed shard.
        shard_id: The shard.
        now: The service's clock.
        on_data_loss: What to do if it is gone.
        given_up: The shards that the same plan gives up.
    """
    shard = expected.shards[shard_id]
    told = f"not listed by stream {expected.identity.name}, and read only up to {shard.position}"
    not_whole = "the list was incomplete. Nothing to do: the next run lists again"
    if shard.listed_until is not None and shard.listed_until > now:
        # It stays listed for a retention after it was closed.
        return ShardVanished(
            shard_id,
            f"{told}, though nothing of it can have expired before {shard.listed_until:%Y-%m-%dT%H:%M:%SZ}: "
            f"{not_whole}",
        )
    parents = [parent for parent in expected.waits_for(shard_id) if parent not in given_up]
    if parents:
        return ParentUnfinished(
            shard_id, f"{told}; waits for {', '.join(parents)} to be read to the end or given up"
        )
    try:
        can_be_read = exists(client, shard_id)
    except CallFailed as error:
        return ShardVanished(shard_id, f"{told}; whether it has expired is not known: {error}. Run again")
    if can_be_read:
        return ShardVanished(shard_id, f"{told}, though it can still be read: {not_whole}")
    if on_data_loss is OnDataLoss.CONTINUE:
        return None
    return ShardVanished(
        shard_id,
        f"{told}; its later records are past the stream's retention. To continue with its children and "
        f"this gap recorded, run with on_data_loss: {OnDataLoss.CONTINUE}",
    )


def exists(client: StreamClient, shard_id: str) -> bool:
    """Whether the service gives an iterator for a shard.

    Raises:
        CallFailed: It does not say.
    """
    try:
        client.shard_iterator(shard_id, Position(PositionKind.TRIM_HORIZON))
    except CallFailed as error:
        if error.code != "ResourceNotFoundException":
            raise
        return False
    return True


def give_up(shard: ShardPosition, now: datetime) -> ShardPosition:
    """A shard that counts as read to its end, with the gap recorded."""
    gap = Gap(after=shard.position, since=shard.complete_until, next_sequence_number=None, until=now)
    return msgspec.structs.replace(shard, finished=True, gaps=(*shard.gaps, gap))
