"""Parents that a list of shards lacks within the stream's retention.

Either the list is incomplete, or the parents had expired before the retention was raised. A parent counts
as expired only if three responses agree: two lists do not contain it, and the service refuses an iterator
for it.
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
    """See that every parent that a list lacks has expired.

    No call is made if the list lacks none, or if the last list is older than the retention: shards that
    nobody saw may well have expired since.

    Args:
        client: The stream.
        listing: Its list, with the retention that counts.
        known: The shards that were listed before.
        listed_at: When that was; None before the first list.

    Raises:
        ShardListIncomplete: One is listed now, or can still be read.
        CallFailed: Whether one can still be read is not known.
        StreamError: The stream cannot be listed again.
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
