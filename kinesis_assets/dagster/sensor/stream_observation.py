"""Events of a stream's asset: its properties, at a long fixed interval or when they change."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import msgspec

from kinesis_assets.dagster.checks.result import PAUSED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.positions.positions import ShardPosition
    from kinesis_assets.table.run_files.pause import Pause

INTERVAL = 3600.0
"""Seconds after which a stream that did not change is observed again."""

_RECENT = timedelta(hours=1)
"""The age of its last record from which on a shard counts as idle."""


class Observed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last event of a stream.

    Attributes:
        facts: What it reported, without what changes all the time.
        at: When, in seconds since the epoch.
    """

    facts: dict[str, str | int] = {}
    at: float = 0.0


def observe_stream(
    names: StreamNames,
    listing: StreamListing,
    shards: Mapping[str, ShardPosition],
    before: Observed,
    now: float,
    *,
    pause: Pause | None,
) -> tuple[list[dg.AssetMaterialization | dg.AssetObservation], Observed]:
    """Return the event that is due, if any. If a pause starts or ends, the raw asset has one too.

    It has no partition. It is a materialization, because the asset's page shows the metadata of the latest
    one. No call is made for it.

    Args:
        names: The names of the stream's definitions.
        listing: The stream and its shards.
        shards: The position of each shard.
        before: The last event.
        now: The time in seconds since the epoch.
        pause: The pause of the stream; None if it is not paused.

    Returns:
        The events, and what to remember of it.
    """
    facts = ({} if pause is None else {PAUSED: str(pause)}) | _facts(listing)
    if facts == before.facts and now - before.at < INTERVAL:
        return [], before
    metadata: dict[str, Any] = {**facts, "incoming (MB/s)": _incoming(listing, shards) / 1e6}
    events: list[dg.AssetMaterialization | dg.AssetObservation] = [
        dg.AssetMaterialization(names.stream_key, metadata=metadata)
    ]
    if facts.get(PAUSED) != before.facts.get(PAUSED):
        said = "resumed" if pause is None else str(pause)
        events.append(dg.AssetObservation(names.raw_key, description=f"The stream is {said}"))
    return events, Observed(facts, now)


def _facts(listing: StreamListing) -> dict[str, str | int]:
    summary = listing.summary
    closed = sum(shard.closed for shard in listing.shards)
    facts: dict[str, str | int] = {
        "open shards": len(listing.shards) - closed,
        "closed shards": closed,
        "capacity mode": "on-demand" if summary.on_demand else "provisioned",
        "retention (h)": summary.retention_hours,
        "ARN": summary.identity.arn,
    }
    if summary.record_distribution is not None:
        facts["record distribution"] = summary.record_distribution
    return facts


def _incoming(listing: StreamListing, shards: Mapping[str, ShardPosition]) -> int:
    """Return the bytes per second that the stream receives, as of the last commit of each open shard."""
    recent = listing.summary.service_time - _RECENT
    positions = (shards[shard.shard_id] for shard in listing.shards if shard.shard_id in shards)
    return sum(
        position.bytes_per_second or 0
        for position in positions
        if not position.finished and position.last_arrival is not None and position.last_arrival >= recent
    )
