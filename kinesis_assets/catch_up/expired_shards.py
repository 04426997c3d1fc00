"""Gaps of shards that the stream no longer lists: none of their records can be read again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import ShardVanished
from kinesis_assets.kinesis.relist import retry_listing
from kinesis_assets.replay.unlisted_shards import is_left_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kinesis_assets.catch_up.lost_gaps import Parts
    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.positions.positions import ShardPosition
    from kinesis_assets.table.table import PositionedTable


def expired_gaps(
    client: StreamClient,
    table: PositionedTable,
    listing: StreamListing,
    gaps: Mapping[str, Mapping[Gap, Gap]],
) -> tuple[dict[str, dict[Gap, Parts]], dict[str, ShardError]]:
    """Return the gaps that are lost because their shard has expired, as `lost_parts` does.

    A second list of shards must lack the shard too. A shard of which that is not certain has an error.

    Args:
        client: The stream.
        table: Its table.
        listing: The stream and its shards. Gaps of listed shards are left out.
        gaps: Gaps, each with its unfilled part, by shard id.
    """
    unlisted = gaps.keys() - {shard.shard_id for shard in listing.shards}
    snapshot = table.snapshot()
    positions = snapshot.positions(listing.summary.identity) if unlisted else None
    if positions is None:
        return {}, {}
    shards = snapshot.with_all_archived(positions).shards
    lists = [listing, retry_listing(client, lambda listing: listing)]
    lost: dict[str, dict[Gap, Parts]] = {}
    errors: dict[str, ShardError] = {}
    for shard_id in unlisted:
        if all(_has_expired(shard_id, shards[shard_id], gaps[shard_id], each) for each in lists):
            lost[shard_id] = {
                gap: (msgspec.structs.replace(part, to_fill=False),) for gap, part in gaps[shard_id].items()
            }
        else:
            errors[shard_id] = ShardVanished(
                shard_id,
                "a list of shards lacks it, but it may not have expired yet, so its gaps stay recorded "
                "as ones to fill. Run the catch-up again later",
            )
    return lost, errors


def _has_expired(shard_id: str, shard: ShardPosition, gaps: Iterable[Gap], listing: StreamListing) -> bool:
    """Whether a list lacks a shard, and all records of its gaps are older than the stream's retention."""
    summary = listing.summary
    oldest = summary.service_time - timedelta(hours=summary.retention_hours)
    return (
        all(each.shard_id != shard_id for each in listing.shards)
        and not is_left_out(shard, summary, whole=True)  # `StreamClient.listing` checks that
        and all(gap.until <= oldest for gap in gaps)
    )
