"""Checks of the positions against the stream and its shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.doctor.finding import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import StreamPositions


def stream_findings(positions: StreamPositions, listing: StreamListing) -> Iterator[Finding]:
    """Check that the positions belong to the stream that exists now."""
    created, now = positions.identity.created, listing.summary.identity.created
    if created != now:
        yield Finding(
            "stream",
            Level.PROBLEM,
            f"the positions belong to the stream created at {created:%Y-%m-%dT%H:%M:%SZ}, which was deleted "
            f"and created again at {now:%Y-%m-%dT%H:%M:%SZ}; see on_recreated",
        )


def floor_findings(amendment: Amendment | None, listing: StreamListing) -> Iterator[Finding]:
    """Check that the floor, the first arrival date that the table keeps, is not in the future."""
    today = listing.summary.service_time.date()
    if amendment is not None and amendment.floor is not None and amendment.floor > today:
        yield Finding(
            "floor",
            Level.PROBLEM,
            f"the floor is {amendment.floor}, which is in the future: maintenance raised it on a machine "
            "with a wrong clock; lower it with `kinesis-assets maintain --lower-floor`, then replay the "
            "range that the stream still has",
        )


def shard_findings(
    positions: StreamPositions, amendment: Amendment | None, listing: StreamListing
) -> Iterator[Finding]:
    """Check each shard's position against a list of shards that is consistent with the positions."""
    listed = {shard.shard_id for shard in listing.shards}
    now = listing.summary.service_time
    for shard_id in sorted(listed - positions.shards.keys()):
        yield Finding("shards", Level.INFO, "new: no run has listed it yet", shard_id)
    for shard_id, shard in positions.shards.items():
        for gap in shard.gaps:
            filled = amendment is not None and amendment.has_cleared(shard_id, gap)
            sentence = "a gap was recorded, and a replay has filled it" if filled else "a gap is recorded"
            yield Finding("shards", Level.INFO, f"{sentence}: {gap}", shard_id)
        if shard.finished:
            continue
        if shard_id not in listed:
            sentence = (
                f"no longer listed, and read only up to {shard.position}; the next run reports the loss"
            )
            yield Finding("shards", Level.PROBLEM, sentence, shard_id)
        elif shard.safe_until is not None and shard.safe_until <= now:
            sentence = f"unread records may have expired since {shard.safe_until:%Y-%m-%dT%H:%M:%SZ}"
            yield Finding("shards", Level.PROBLEM, f"{sentence}; run it, and see on_data_loss", shard_id)
