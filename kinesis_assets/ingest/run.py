"""One run of a plan: it lands the plan's ranges and commits them with their positions.

The module does not depend on Dagster, and on Spark only through `Land`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import StreamRecreated
from kinesis_assets.ingest.idle_shards import TIP_REFRESH, wait_after_empty_read
from kinesis_assets.ingest.manifest import Landing, ShardLanding
from kinesis_assets.ingest.outcome import RunResult, record_outcomes, shard_outcome
from kinesis_assets.ingest.shard_lists import with_confirmed_ends
from kinesis_assets.ingest.task import LandingJob
from kinesis_assets.kinesis.listing_retries import confirm_summary
from kinesis_assets.kinesis.reading.range import Allowance, RangeEnd, ShardRange
from kinesis_assets.kinesis.settings import BYTES_PER_SECOND
from kinesis_assets.kinesis.stream import CLOCK_STEP, unfinished_parents
from kinesis_assets.table.commits.commit import CommitResult, commit, read_until

if TYPE_CHECKING:
    from datetime import datetime

    from kinesis_assets.ingest.plan import RunPlan
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.table.positions.positions import ShardPosition
    from kinesis_assets.table.raw_table import PositionedTable

Land = Callable[[LandingJob, Sequence[ShardRange], Allowance], Landing]
"""A function that lands ranges of independent shards, as `ingest/land.py` does in Spark."""

PROGRESS_INTERVAL = 10.0
"""Seconds from one file about the progress of a task to the next."""


def execute_run(
    land: Land,
    client: StreamClient,
    table: PositionedTable,
    plan: RunPlan,
    *,
    by: str | None = None,
    is_iteration: bool = False,
    tip_refresh: timedelta = TIP_REFRESH,
) -> RunResult:
    """Land a plan's ranges and commit them with their positions.

    Each generation of shards is landed separately, parents before children. A child waits if its parents have
    not been read to their end by then. One commit holds all generations.

    Args:
        land: Lands ranges, as `land.land` does in Spark.
        by: Name of the run, kept with the commit.
        is_iteration: Whether this is one iteration of a continuous run, which checks the stream's identity
            only before a commit.
        tip_refresh: Age of the committed tip time from which a later tip time alone is committed. A shard
            that has not been idle for that long gets it earlier in a bounded run, because its next read
            depends on it, see `idle_shards`.

    Raises:
        LandingFailed: A landing returned an invalid result; nothing was committed.
        StreamRecreated: The stream was recreated since the plan; nothing was committed.
        TableError: Nothing was committed, or (`CommitUnknown`) it is not known whether it was.
    """
    clock = client.settings.timing.clock
    started = clock.monotonic()
    until = read_until(plan.batch_id)
    job = LandingJob(
        str(client.address),
        client.settings,
        table.folder,
        plan.batch_id,
        until,
        table.layout,
        inf if is_iteration else PROGRESS_INTERVAL,
    )
    landing = Landing()
    finished = plan.expected.finished | plan.given_up.keys()
    pending = dict(plan.ranges)
    while ready := [
        range_
        for shard_id, range_ in pending.items()
        if not unfinished_parents(
            plan.expected.shards[shard_id].parents, known=plan.expected.shards, finished=finished
        )
    ]:
        remaining = plan.allowance.less(landing.rows, landing.bytes, clock.monotonic() - started)
        landed = with_confirmed_ends(client, plan.listing, land(job, ready, remaining))
        landing += landed
        finished |= {shard.shard_id for shard in landed.shards if shard.end is RangeEnd.SHARD_END}
        for range_ in ready:
            del pending[range_.shard_id]
    landings = {shard.shard_id: shard for shard in landing.shards}
    read = {shard_id: _moved(plan, shard) for shard_id, shard in landings.items()}
    to_commit: dict[str, ShardPosition] = {}
    for shard_id, after in read.items():
        before = plan.expected.shards[shard_id]
        refresh = tip_refresh if is_iteration else wait_after_empty_read(before, tip_refresh)
        if plan.ranges[shard_id].tip_iterator is not None:
            refresh = timedelta.max  # only a read from the position shows that nothing was left out
        if _needs_commit(before, after, refresh):
            to_commit[shard_id] = after
    result, moved, listing = CommitResult(None), to_commit, plan.listing
    # An iteration that commits nothing has no later response than those of its shards.
    now = max([listing.summary.service_time, *(each.tip_time for each in landing.shards if each.tip_time)])
    if to_commit or plan.given_up or plan.lowered or not is_iteration:
        # After reading, so that every record is known to be from the planned stream.
        summary = confirm_summary(client, plan.listing.summary)
        if summary.identity != plan.identity:
            raise StreamRecreated(
                client.stream, "deleted and created again since the plan; nothing was committed. Run again"
            )
        now = summary.service_time
        hours = max(listing.summary.retention_hours, summary.retention_hours)
        lowered = plan.lowered if hours == listing.summary.retention_hours else {}
        moved = {**lowered, **plan.given_up} | {
            shard_id: _confirmed(position, summary.service_time, hours)
            for shard_id, position in to_commit.items()
        }
        listing = listing.with_retention(hours)
    if moved:
        result = commit(
            table,
            expected=plan.expected,
            listing=listing,
            batch_id=plan.batch_id,
            moved=moved,
            files=landing.files,
            added={shard_id: shard.stats for shard_id, shard in landings.items()},
            by=by,
        )
    outcomes = {
        shard_id: shard_outcome(
            plan,
            shard_id,
            landings.get(shard_id),
            result,
            after=moved.get(shard_id) or read.get(shard_id),
            now=now,
        )
        for shard_id in plan.asked
    }
    done = RunResult(plan.batch_id, outcomes, result.version, clock.monotonic() - started)
    record_outcomes(client.stream, done)
    return done


def _moved(plan: RunPlan, shard: ShardLanding) -> ShardPosition:
    """Return a shard's position after it was read."""
    before = plan.expected.shards[shard.shard_id]
    after = msgspec.structs.replace(
        before,
        position=shard.stats.through,
        finished=shard.end is RangeEnd.SHARD_END,
        tip_time=shard.tip_time or before.tip_time,
        last_arrival=shard.facts.last_arrival or before.last_arrival,
        retention_hours=plan.listing.summary.retention_hours,
        gaps=before.gaps + shard.facts.gaps,
    )
    since, until = before.seen_until or shard.facts.first_arrival, after.seen_until
    if since is None or until is None or until <= since:
        return after
    rate = min(shard.stats.bytes / (until - since).total_seconds(), BYTES_PER_SECOND)
    return msgspec.structs.replace(after, bytes_per_second=round(rate))


def _confirmed(position: ShardPosition, now: datetime, retention_hours: int) -> ShardPosition:
    """Cap a position's times at the service time of a second response, and set its retention.

    One response alone must not be able to commit a time in the future.

    Args:
        now: The service time of the second response.
        retention_hours: The longer retention of both responses.
    """

    def capped(time: datetime | None, limit: datetime) -> datetime | None:
        return None if time is None else min(time, limit)

    return msgspec.structs.replace(
        position,
        tip_time=capped(position.tip_time, now),
        last_arrival=capped(position.last_arrival, now + CLOCK_STEP),
        retention_hours=retention_hours,
    )


def _needs_commit(before: ShardPosition, after: ShardPosition, tip_refresh: timedelta) -> bool:
    """Return whether a shard's new position is to be committed."""
    if not after.same_place(before):
        return True
    if after.tip_time is None or after.tip_time == before.tip_time:
        return False
    return before.tip_time is None or after.tip_time - before.tip_time >= tip_refresh
