"""What a tick of the sensor reports besides checks: missing events of commits, and metrics of shards.

The metrics of a stream's shards at each tick of the sensor, which go on if nothing runs.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.shard_checks import lags, latest_time, readable
from kinesis_assets.dagster.dagster_internals import report_outside_of_runs
from kinesis_assets.dagster.events.missing_events import ComparisonProgress, find_missing_events
from kinesis_assets.errors import TableError
from kinesis_assets.ingest.idle_shards import loss_times
from kinesis_assets.ingest.plan import gaps_to_fill
from kinesis_assets.metrics.instruments import LAG, SHARD, STREAM, TIME_TO_LOSS
from kinesis_assets.metrics.recording import record
from kinesis_assets.table.positions.commit_link import CommitLink

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import dagster as dg

    from kinesis_assets.dagster.sensor.sensor_cursor import Cursor
    from kinesis_assets.dagster.stream import ListedShards, OpenStream
    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.snapshot import TableSnapshot


_log = logging.getLogger(__name__)

_NOT_COMPARED = "stream %s: the search for missing events failed and is repeated in the next tick: %s"


def report_missing_events(
    instance: dg.DagsterInstance,
    names: StreamNames,
    snapshot: TableSnapshot | None,
    identity: StreamIdentity,
    before: Cursor,
    *,
    ended: Collection[str],
) -> tuple[ComparisonProgress, ComparisonProgress]:
    """Store the events of runs that died between the commit and its event.

    If a file of the table cannot be read, the tick requests runs anyway and the next tick repeats the search:
    events only mirror the table. The daemon, which stores the other events of a tick, cannot set their times.

    Args:
        instance: The instance with the events.
        names: The names of the stream's definitions.
        snapshot: The newest version of the stream's table; None if the table does not exist.
        identity: The stream.
        before: The cursor of the previous tick.
        ended: The runs that commit nothing more.

    Returns:
        The progress for the cursor's `commits` and `fills`.
    """
    if snapshot is None:
        return before.commits, before.fills

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
        report_outside_of_runs(instance, found)
        return progress

    commits = compare(
        lambda: snapshot.positions(identity, or_older=True),
        lambda commit_id: CommitLink.of_positions(snapshot.positions_at(commit_id)),
        before.commits,
    )
    fills = compare(
        lambda: snapshot.amendment(identity),
        lambda commit_id: CommitLink.of_amendment(snapshot.amendment_at(commit_id)),
        before.fills,
    )
    return commits, fills


def record_shards(
    opened: OpenStream,
    listed: ListedShards,
    *,
    waiting: Mapping[str, float],
    now: float,
) -> None:
    """Record the lag of each shard that can be read, and the time to loss of each with unread records.

    Args:
        opened: The stream.
        listed: Its shards.
        waiting: Since when shards at their tip wait to be read, see `waiting_shards`.
        now: The time of the tick, in seconds since the epoch.
    """
    listing, snapshot, shards = listed
    time = latest_time(shards, listing.summary.service_time, datetime.fromtimestamp(now, UTC))
    found = lags(readable(shards), time, waiting=waiting, idle=opened.max_idle)
    to_fill = {} if snapshot is None else gaps_to_fill(snapshot, listing.summary.identity, shards)
    record_gauges(opened.name, found, loss_times(shards, to_fill), time)


def record_gauges(
    stream: str, lags: Mapping[str, timedelta | None], losses: Mapping[str, datetime], time: datetime
) -> None:
    """Record the lag of shards, if known, and the time to loss of those with records still to be read.

    Args:
        stream: The name of the stream.
        lags: The lags by shard id.
        losses: When the first of these records may expire, by shard id.
        time: The time.
    """
    for shard_id, lag in lags.items():
        if lag is not None:
            record(LAG, lag.total_seconds(), {STREAM: stream, SHARD: shard_id})
    for shard_id, loss in losses.items():
        remaining = max(loss - time, timedelta())
        record(TIME_TO_LOSS, remaining.total_seconds(), {STREAM: stream, SHARD: shard_id})
