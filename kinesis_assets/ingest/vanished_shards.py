"""Shards that are no longer listed and were not read to their end.

A shard is given up only if three facts agree: it can have expired by the service's clock, the list does not
contain it, and the service refuses an iterator for it.

A shard that a list showed as open cannot have expired before the retention has passed since that list. There
is no such time for a shard that was closed when it was first listed: it was closed up to a retention earlier
and may expire right after that list. If it were kept for a retention in any case, its children would wait as
long, and their records could expire. It is protected by the list and the iterator, which are responses of
different operations, and, once a run has read from it, by the time up to which it was read.
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
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions


def reason_to_keep(
    client: StreamClient,
    expected: StreamPositions,
    shard_id: str,
    *,
    now: datetime,
    on_data_loss: OnDataLoss,
    given_up: Container[str],
) -> ShardError | None:
    """Return why a shard that is not listed cannot be given up; None if it can.

    Args:
        client: The stream.
        expected: The positions, with every listed shard.
        shard_id: The shard.
        now: The service's time.
        on_data_loss: Whether the run may continue if the shard has expired.
        given_up: The shards that the same plan gives up.
    """
    shard = expected.shards[shard_id]
    fact = f"not listed by stream {expected.identity.name}, and read only up to {shard.position}"
    incomplete = "the list was incomplete. Nothing to do: the next run lists the shards again"
    if shard.listed_until is not None and shard.listed_until > now:
        # A closed shard stays listed for the retention period.
        return ShardVanished(
            shard_id,
            f"{fact}, though none of its records can have expired before "
            f"{shard.listed_until:%Y-%m-%dT%H:%M:%SZ}: {incomplete}",
        )
    parents = [parent for parent in expected.waits_for(shard_id) if parent not in given_up]
    if parents:
        return ParentUnfinished(
            shard_id, f"{fact}; waits for {', '.join(parents)} to be read to the end or given up"
        )
    try:
        can_be_read = exists(client, shard_id)
    except CallFailed as error:
        return ShardVanished(
            shard_id, f"{fact}; it is not known whether it has expired: {error.reason}. Run again"
        )
    if can_be_read:
        return ShardVanished(shard_id, f"{fact}, though it can still be read: {incomplete}")
    if on_data_loss == "continue":
        return None
    return ShardVanished(
        shard_id,
        f"{fact}; its later records have expired. To record this gap and continue with the shard's children, "
        "run with on_data_loss: continue",
    )


def exists(client: StreamClient, shard_id: str) -> bool:
    """Return whether the service returns an iterator for a shard.

    Raises:
        CallFailed: The call failed for another reason than a missing shard.
    """
    try:
        client.shard_iterator(shard_id, Position(PositionKind.TRIM_HORIZON))
    except CallFailed as error:
        if error.code != "ResourceNotFoundException":
            raise
        return False
    return True


def give_up(shard: ShardPosition, now: datetime) -> ShardPosition:
    """Return the position of a shard that is given up: finished, with the gap recorded."""
    gap = Gap(after=shard.position, since=shard.complete_until, next_sequence_number=None, until=now)
    return msgspec.structs.replace(shard, finished=True, gaps=(*shard.gaps, gap))
