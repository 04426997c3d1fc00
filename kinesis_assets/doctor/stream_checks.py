"""Checks of the positions against the stream and its shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.doctor.finding import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.amendments import Past
    from kinesis_assets.table.positions import StreamPositions


def stream_findings(positions: StreamPositions, listing: StreamListing) -> Iterator[Finding]:
    """Check that the positions belong to the stream that exists now."""
    created, now = positions.identity.created, listing.summary.identity.created
    if created != now:
        yield Finding(
            "stream",
            Level.PROBLEM,
            f"the positions are of the stream created at {created:%Y-%m-%dT%H:%M:%SZ}, but it was deleted "
            f"and created again at {now:%Y-%m-%dT%H:%M:%SZ}; see on_recreated",
        )


def floor_findings(past: Past | None, listing: StreamListing) -> Iterator[Finding]:
    """The first arrival date that the table keeps, against the service's clock."""
    today = listing.summary.service_time.date()
    if past is not None and past.floor is not None and past.floor > today:
        told = f"the floor is {past.floor}, in the future: a maintenance with a wrong clock raised it"
        way_out = "lower it with `kinesis-assets maintain --lower-floor`, then replay what the stream has"
        yield Finding("floor", Level.PROBLEM, f"{told}; {way_out}")


def shard_findings(
    positions: StreamPositions, past: Past | None, listing: StreamListing
) -> Iterator[Finding]:
    """The stream's present shards against the positions, which they do not contradict."""
    listed = {shard.shard_id for shard in listing.shards}
    now = listing.summary.service_time
    for shard_id in sorted(listed - positions.shards.keys()):
        yield Finding("shards", Level.INFO, "new: no run has seen it yet", shard_id)
    for shard_id, shard in positions.shards.items():
        for gap in shard.gaps:
            filled = past is not None and past.has_cleared(shard_id, gap)
            told = "a gap was recorded, and a replay has filled it" if filled else "a gap is recorded"
            yield Finding("shards", Level.INFO, f"{told}: {gap}", shard_id)
        if shard.finished:
            continue
        if shard_id not in listed:
            told = f"no longer listed, and read only up to {shard.position}; its next run tells what is lost"
            yield Finding("shards", Level.PROBLEM, told, shard_id)
        elif shard.safe_until is not None and shard.safe_until <= now:
            told = f"unread records may have expired since {shard.safe_until:%Y-%m-%dT%H:%M:%SZ}"
            yield Finding("shards", Level.PROBLEM, f"{told}; run it, and see on_data_loss", shard_id)
