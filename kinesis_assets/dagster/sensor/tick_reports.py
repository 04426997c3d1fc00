"""What a tick of the sensor reports besides checks: the stream's properties, missing events, and metrics.

The properties of a stream are reported at a long fixed interval or when they change. The metrics of its
shards are recorded at each tick, so they go on if nothing runs.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import msgspec

from kinesis_assets.dagster.checks.results import PAUSED
from kinesis_assets.dagster.checks.shard_checks import lags, latest_time, readable
from kinesis_assets.dagster.events.metadata import totals_metadata, totals_of_raw
from kinesis_assets.dagster.events.missing_events import ComparisonProgress, find_missing_events
from kinesis_assets.errors import TableError
from kinesis_assets.ingest.idle_shards import loss_times
from kinesis_assets.ingest.outcome import StreamState
from kinesis_assets.ingest.plan import gaps_to_fill
from kinesis_assets.metrics import LAG, SHARD, STREAM, TIME_TO_LOSS, measure
from kinesis_assets.table.positions.commit_link import CommitLink

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kinesis_assets.dagster.stream import ListedShards, OpenStream
    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.run_files.pause import Pause


_log = logging.getLogger(__name__)

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


_NOT_COMPARED = "stream %s: the search for missing events failed and is repeated in the next tick: %s"


def missing_events(
    instance: dg.DagsterInstance,
    names: StreamNames,
    listed: ListedShards,
    *,
    commits: ComparisonProgress,
    fills: ComparisonProgress,
    ended: Collection[str],
) -> tuple[list[dg.AssetMaterialization], ComparisonProgress, ComparisonProgress]:
    """Return the events of runs that died between the commit and its event.

    If a file of the table cannot be read, the tick requests runs anyway and the next tick repeats the search:
    events only mirror the table.

    Args:
        commits: How far the commits of positions were compared before.
        fills: The same for the commits that changed rows behind the positions.
        ended: The runs that commit nothing more.
    """
    snapshot, identity = listed.snapshot, listed.listing.summary.identity
    if snapshot is None:
        return [], commits, fills
    events: list[dg.AssetMaterialization] = []

    def compare(
        newest: Callable[[], StreamPositions | Amendment | None],
        link_at: Callable[[int], CommitLink],
        done: ComparisonProgress,
    ) -> ComparisonProgress:
        try:
            last = newest()
            found, progress = find_missing_events(
                instance, names, link_at, last.commit_id if last else None, done, dead=ended
            )
        except TableError as error:
            _log.warning(_NOT_COMPARED, names.stream, error)
            return done
        events.extend(found)
        return progress

    commits = compare(
        lambda: snapshot.positions(identity, or_older=True),
        lambda commit_id: CommitLink.of_positions(snapshot.table.chain.positions_at(commit_id)),
        commits,
    )
    fills = compare(
        lambda: snapshot.amendment(identity),
        lambda commit_id: CommitLink.of_amendment(snapshot.table.amendments.at(commit_id)),
        fills,
    )
    return events, commits, fills


def stream_event(
    opened: OpenStream, listed: ListedShards, failing: Collection[str], now: float
) -> dg.AssetMaterialization:
    """Return the event of the stream as a whole as it is now.

    It follows events of shards, because the asset's page shows the latest one.
    """
    time, losses = _losses(listed, now)
    state = StreamState.of(listed.shards, {}, failing, losses, time)
    metadata = totals_metadata(None, state, totals_of_raw(opened.table))
    return dg.AssetMaterialization(opened.names.raw_key, metadata=metadata)


def _losses(listed: ListedShards, now: float) -> tuple[datetime, Mapping[str, datetime]]:
    """Return the time, and when records that are still to be read may expire, by shard id."""
    listing, snapshot, shards = listed
    to_fill = {} if snapshot is None else gaps_to_fill(snapshot, listing.summary.identity, shards)
    time = latest_time(shards, listing.summary.service_time, datetime.fromtimestamp(now, UTC))
    return time, loss_times(shards, to_fill)


def record_shards(
    opened: OpenStream, listed: ListedShards, *, waiting: Mapping[str, float], now: float
) -> None:
    """Record the lag of each shard that can be read, and the time to loss of each with unread records."""
    time, losses = _losses(listed, now)
    found = lags(readable(listed.shards), time, waiting=waiting, idle=opened.max_idle)
    record_gauges(opened.name, found, losses, time)


def record_gauges(
    stream: str, lags: Mapping[str, timedelta | None], losses: Mapping[str, datetime], time: datetime
) -> None:
    """Record the lag of shards, if known, and the time to loss of those with records still to be read.

    Args:
        losses: When the first of these records may expire, by shard id.
    """
    for shard_id, lag in lags.items():
        if lag is not None:
            measure(LAG, lag.total_seconds(), {STREAM: stream, SHARD: shard_id})
    for shard_id, loss in losses.items():
        remaining = max(loss - time, timedelta())
        measure(TIME_TO_LOSS, remaining.total_seconds(), {STREAM: stream, SHARD: shard_id})
