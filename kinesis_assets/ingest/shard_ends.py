"""Whether the shards that tasks report as read to their end have ended: a list of the driver's own shows it.

A shard that is recorded as finished is never read again, and a report is the word of one process. A list
costs one request, however many shards ended; none is needed for those that were closed at the plan.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import StreamError
from kinesis_assets.kinesis.reading.range import RangeEnd

if TYPE_CHECKING:
    from kinesis_assets.ingest.land import Landing
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing

_log = logging.getLogger(__name__)

_UNCONFIRMED = (
    "stream %s: the end of %s is not recorded yet: %s. Its records are committed; the next run reads on there"
)


def with_confirmed_ends(client: StreamClient, listing: StreamListing, landing: Landing) -> Landing:
    """The same landing, in which no shard has ended that the driver has not seen closed.

    Args:
        client: The stream.
        listing: The list of the plan.
        landing: What the tasks reported.
    """
    closed = {shard.shard_id for shard in listing.shards if shard.closed}
    ended = {shard.shard_id for shard in landing.shards if shard.end is RangeEnd.SHARD_END}
    if not ended - closed:
        return landing
    reason = "ListShards does not show it closed"
    try:
        closed |= {shard.shard_id for shard in client.list_shards() if shard.closed}
    except StreamError as error:
        reason = str(error)
    if not (unconfirmed := ended - closed):
        return landing
    _log.warning(_UNCONFIRMED, client.stream, ", ".join(sorted(unconfirmed)), reason)
    shards = [
        msgspec.structs.replace(shard, end=RangeEnd.TIP) if shard.shard_id in unconfirmed else shard
        for shard in landing.shards
    ]
    return msgspec.structs.replace(landing, shards=tuple(shards))
