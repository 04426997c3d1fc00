"""Parents that a shard list lacks although they may be within the stream's retention.

Either the list is incomplete, or the parents had expired before the retention was increased. A parent counts
as expired only if three responses agree: two lists do not contain it, and the service refuses an iterator for
it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.errors import ShardListIncomplete
from kinesis_assets.ingest.vanished_shards import exists
from kinesis_assets.kinesis.shards import missing_parents

if TYPE_CHECKING:
    from collections.abc import Container
    from datetime import datetime

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing


def check_unlisted_parents(
    client: StreamClient,
    listing: StreamListing,
    known: Container[str] = (),
    listed_at: datetime | None = None,
) -> None:
    """Check that every parent that a list lacks has expired.

    No call is made if the list lacks none, or if the previous list is older than the retention, because
    shards that were created since may have expired unseen.

    Args:
        client: The stream.
        listing: Its list, with the retention to apply.
        known: The shards that were listed before.
        listed_at: The time of the previous list; None for the first list.

    Raises:
        ShardListIncomplete: A parent is listed now, or can still be read.
        CallFailed: It is not known whether a parent can still be read.
        StreamError: The stream's shards cannot be listed again.
    """
    summary = listing.summary
    missing = missing_parents(
        listing.shards,
        known,
        since=listed_at or summary.identity.created,
        now=summary.service_time,
        retention=timedelta(hours=summary.retention_hours),
    )
    if not missing:
        return
    listed_again = {shard.shard_id for shard in client.list_shards()}
    if listed := [shard_id for shard_id in missing if shard_id in listed_again]:
        raise _incomplete(listing, listed, "which the next list contains")
    for shard_id in missing:
        if exists(client, shard_id):
            raise _incomplete(listing, [shard_id], "which can still be read")


def _incomplete(listing: StreamListing, parents: list[str], why: str) -> ShardListIncomplete:
    return ShardListIncomplete(
        listing.summary.identity.name,
        f"ListShards left out the parents {', '.join(parents)}, {why}; nothing was changed. Try again later",
    )
