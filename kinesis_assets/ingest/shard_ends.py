"""Confirmation that the shards which tasks report as read to their end are closed.

A finished shard is never read again, so one process's report is not enough: the driver lists the shards
itself. That takes one request for any number of shards, and none for shards that were closed when the run was
planned.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import StreamError
from kinesis_assets.kinesis.reading.range import RangeEnd

if TYPE_CHECKING:
    from kinesis_assets.ingest.manifest import Landing
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing

_log = logging.getLogger(__name__)

_UNCONFIRMED = (
    "stream %s: the end of %s is not recorded yet: %s. Its records are committed; the next run continues at "
    "that position"
)


def with_confirmed_ends(client: StreamClient, listing: StreamListing, landing: Landing) -> Landing:
    """Return a landing in which only shards that the driver has seen closed have ended.

    Args:
        client: The stream.
        listing: The plan's listing.
        landing: The landing as the tasks reported it.
    """
    closed = {shard.shard_id for shard in listing.shards if shard.closed}
    ended = {shard.shard_id for shard in landing.shards if shard.end is RangeEnd.SHARD_END}
    if not ended - closed:
        return landing
    reason = "ListShards does not show it closed"
    try:
        closed |= {shard.shard_id for shard in client.list_shards() if shard.closed}
    except StreamError as error:
        reason = error.reason
    if not (unconfirmed := ended - closed):
        return landing
    _log.warning(_UNCONFIRMED, client.stream, ", ".join(sorted(unconfirmed)), reason)
    # Any end other than SHARD_END leaves a shard unfinished.
    shards = [
        msgspec.structs.replace(shard, end=RangeEnd.TIP) if shard.shard_id in unconfirmed else shard
        for shard in landing.shards
    ]
    return msgspec.structs.replace(landing, shards=tuple(shards))
