"""Replay: read a range behind the positions again, and fill in the records that the table lacks.

A replay takes one version of the table, reads the requested ranges again up to the positions of that
version, and commits the records that the version's data files lack, together with an amendment. It never
changes the positions, so runs can continue at the same time. Everything that changes rows behind the
positions writes an amendment. So if two do so at once, Delta refuses the later commit, and that replay
restarts with a new plan.

This module does not import Dagster or Spark.

A response may wrongly report the tip. If a range ends there before its last record, it is read once more
from that point. Such a read counts only if it returns the last record that was read before. A recorded
gap counts as filled only if all of its records could provably be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kinesis_assets.errors import DataLost, PastChanged, ReplayUnfinished, ShardError
from kinesis_assets.ingest.task import LandingJob
from kinesis_assets.kinesis.position import Position, PositionKind, at, passed
from kinesis_assets.kinesis.reading.range import Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.stream import CLOCK_STEP
from kinesis_assets.operations.replay.outcome import ReplayOutcome, ReplayResult, ReplayState
from kinesis_assets.operations.replay.plan import plan_replay
from kinesis_assets.operations.replay.task import FillJob, FillResult
from kinesis_assets.retry import Backoff, RetryPolicy, full_jitter, retry
from kinesis_assets.table.commits.amend import commit_missing_rows
from kinesis_assets.table.commits.commit import MAX_READING_TIME, read_until
from kinesis_assets.table.ownership import WAY_OUT_OF_RECREATION
from kinesis_assets.table.positions.amendments import ClearedGap

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.stream import StreamSummary
    from kinesis_assets.operations.replay.plan import ReplayPlan, ReplayWindow
    from kinesis_assets.operations.replay.task import ShardFillResult
    from kinesis_assets.table.raw_table import PositionedTable


Fill = Callable[[FillJob, Sequence[ShardRange]], FillResult]
"""Reads the ranges of different shards and writes the missing records, as `fill` does in Spark."""

RETRIES = RetryPolicy(8, Backoff(0.2, 5.0, full_jitter))
"""The attempts of a replay: one is lost to each concurrent amendment."""


def replay(
    fill: Fill,
    client: StreamClient,
    table: PositionedTable,
    window: ReplayWindow,
    shard_ids: Sequence[str] = (),
    *,
    by: str | None = None,
    retries: RetryPolicy = RETRIES,
) -> ReplayResult:
    """Read a window of some shards again, and fill in the records that the table lacks.

    Args:
        shard_ids: The shards to read; all shards if empty.
        by: Id of the Dagster run or name of the person, recorded with the commit.
        retries: The attempts, if rows behind the positions change.

    Raises:
        InvalidInput: A shard is unknown, or the window does not fit the shards; nothing was changed.
        PastChanged: Rows behind the positions changed during each attempt; nothing was committed.
        StreamError: The stream cannot be reached, or is not the stream of the table.
        TableError: Nothing was committed; or (`CommitUnknown`) the result of the commit is unknown.
    """
    clock = client.settings.timing.clock
    started = clock.monotonic()

    def attempt() -> ReplayResult:
        plan = plan_replay(client, table, window, shard_ids)
        outcomes, version = _execute(fill, client, table, plan, by)
        return ReplayResult(plan.batch_id, outcomes, version, clock.monotonic() - started)

    return retry(attempt, on=PastChanged, policy=retries, sleep=clock.sleep)


def _execute(
    fill: Fill, client: StreamClient, table: PositionedTable, plan: ReplayPlan, by: str | None
) -> tuple[dict[str, ReplayOutcome], int | None]:
    """Execute a plan, and return the outcomes by shard id and the version of the commit."""
    if not plan.ranges:
        return dict(plan.not_read), None
    until = read_until(plan.batch_id)
    landing = LandingJob(
        str(client.address), client.settings, table.folder, plan.batch_id, until, table.layout
    )
    result = fill(FillJob(landing, plan.existing_files, plan.not_before), list(plan.ranges.values()))
    early = _early_ends(client, plan.ranges, plan.gaps, result.shards)
    # Checked after reading, so that every record was read from the stream that was planned.
    identity, summary = plan.listing.summary.identity, client.describe()
    summary.require(identity, "during the replay; nothing was committed", WAY_OUT_OF_RECREATION)
    cleared = _cleared(plan, result, early, summary)
    version = None
    if result.files or cleared:
        version = commit_missing_rows(
            table,
            identity=identity,
            version=plan.version,
            amendment=plan.amendment,
            not_before=plan.not_before,
            batch_id=plan.batch_id,
            files=result.files,
            filled={shard.shard_id: shard.stats for shard in result.shards},
            cleared=cleared,
            by=by,
        )
    read = {
        shard.shard_id: _outcome(plan, shard, cleared.get(shard.shard_id, ()), early.get(shard.shard_id))
        for shard in result.shards
    }
    return {shard_id: read[shard_id] for shard_id in plan.ranges} | dict(plan.not_read), version


def _cleared(
    plan: ReplayPlan, result: FillResult, early: Mapping[str, str], after: StreamSummary
) -> dict[str, tuple[ClearedGap, ...]]:
    """Return the gaps that were filled, or their first parts, by shard id.

    Args:
        early: The shards that were not read to the end of their range.
        after: The stream after they were read.
    """
    both = plan.listing.summary, after
    hours = min(each.retention_hours for each in both)
    now = max(each.service_time for each in both) + CLOCK_STEP
    cleared = {
        shard.shard_id: filled_gaps(
            plan.gaps[shard.shard_id],
            shard,
            created=after.identity.created,
            kept_since=now - timedelta(hours=hours),
            window_start=plan.window_start,
            up_to_position=plan.up_to_positions,
        )
        for shard in result.shards
        if shard.shard_id not in early
    }
    return {shard_id: gaps for shard_id, gaps in cleared.items() if gaps}


def _outcome(
    plan: ReplayPlan, shard: ShardFillResult, cleared: Sequence[ClearedGap], early: str | None
) -> ReplayOutcome:
    lost = plan.expired.get(shard.shard_id) or _start_missing(plan, shard)
    error = shard.error or _unfinished(plan, shard, lost, early) or lost
    state = ReplayState.FILLED if shard.stats.rows else ReplayState.WHOLE
    return ReplayOutcome(
        shard_id=shard.shard_id,
        state=ReplayState.FAILED if error else state,
        stats=shard.stats,
        gaps_filled=sum(ClearedGap.of(gap) in cleared for gap in plan.gaps[shard.shard_id]),
        first_read=shard.first_read,
        in_part=shard.end is RangeEnd.TIME_LIMIT and shard.first_read is not None,
        error=error,
    )


def _unfinished(
    plan: ReplayPlan, shard: ShardFillResult, lost: DataLost | None, early: str | None
) -> ReplayUnfinished | None:
    """Return the error of a range that was not read in time, or of which the service did not return the rest.

    It includes the loss of records, because a replay that continues the range does not report that again.

    Args:
        early: Why the tip at which the range ended is not its end.
    """
    if early is None and shard.end is not RangeEnd.TIME_LIMIT:
        return None
    reason = early or f"the range was not read completely within {_time_limit(plan, shard)}"
    through = shard.stats.through
    return ReplayUnfinished(
        shard.shard_id,
        ("" if lost is None else f"{lost.sentence}. Also, ")
        + f"{reason}, and what is read later cannot be committed. Missing records up to {through} were "
        "filled in; to continue, replay this shard"
        + ("" if through.sequence_number is None else f" from {through.sequence_number}"),
    )


def _time_limit(plan: ReplayPlan, shard: ShardFillResult) -> timedelta:
    seconds = plan.ranges[shard.shard_id].bounds.max_seconds
    return MAX_READING_TIME if seconds is None else min(MAX_READING_TIME, timedelta(seconds=seconds))


def _start_missing(plan: ReplayPlan, shard: ShardFillResult) -> DataLost | None:
    """Return the error of a range whose first record no longer exists, which the service does not report."""
    start, requested = shard.stats.start, shard.stats.start.sequence_number
    ended_by_number = plan.ranges[shard.shard_id].up_to is not None and shard.end is not RangeEnd.TIME_LIMIT
    if requested is None or shard.first_read == requested or not (shard.first_read or ended_by_number):
        return None
    return DataLost(
        shard.shard_id,
        f"the replay starts at {start}, but the stream no longer has that record; the first record of "
        f"the range that it has is {shard.first_read or 'none'}. Missing records after it were filled in"
        + ("" if shard.first_read is None else "; the records before it are lost"),
    )


def _early_ends(
    client: StreamClient,
    ranges: Mapping[str, ShardRange],
    gaps: Mapping[str, Collection[Gap]],
    shards: Iterable[ShardFillResult],
) -> dict[str, str]:
    """Return why the tip at which a range ended is not its end, by shard id."""
    reasons = {
        shard.shard_id: _reason(client, ranges[shard.shard_id], gaps[shard.shard_id], shard)
        for shard in shards
        if shard.error is None and shard.end is RangeEnd.TIP
    }
    return {shard_id: reason for shard_id, reason in reasons.items() if reason is not None}


def _reason(
    client: StreamClient, range_: ShardRange, gaps: Collection[Gap], shard: ShardFillResult
) -> str | None:
    up_to, through = range_.up_to, shard.stats.through
    if up_to is not None:
        end, reached = passed(up_to), passed(through)
        if end is not None and reached is not None and reached >= end:
            return None
        # Its record cannot have expired if an earlier one was read: the oldest ones expire first.
        if shard.first_read is not None and _is_of_a_record(up_to, gaps):
            return "the service reported the tip before a record that exists, so it did not return all"
    return _reason_of_second_read(client, range_, shard)


def _is_of_a_record(up_to: Position, gaps: Collection[Gap]) -> bool:
    """Whether the end of a range is a record that was read. An operator may seek to any number."""
    return up_to.kind is PositionKind.AFTER_SEQUENCE_NUMBER or any(
        gap.next_sequence_number == up_to.sequence_number for gap in gaps
    )


def _reason_of_second_read(client: StreamClient, range_: ShardRange, shard: ShardFillResult) -> str | None:
    start = shard.stats.through
    last = None if shard.first_read is None else start.sequence_number
    if last is not None:
        start = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=last)
    found = last is None
    try:
        for records in ShardReading(
            client, replace(range_, start=start, bounds=Bounds(until=range_.bounds.until))
        ):
            later = next((number for number in records.numbers if number != last), None)
            if later is not None:
                return f"the service reported the tip before record {later}, so it did not return all"
            found = True
    except ShardError as error:
        return f"the service reported the tip, which a second read could not confirm ({error.sentence})"
    if not found:
        return f"the service reported the tip, but a second read did not return record {last}"
    return None


def filled_gaps(
    gaps: Mapping[Gap, Gap],
    result: ShardFillResult,
    *,
    created: datetime,
    kept_since: datetime,
    window_start: datetime,
    up_to_position: bool,
) -> tuple[ClearedGap, ...]:
    """Return the gaps of a shard that a replay has read completely, and the first parts of others.

    The service skips trimmed records without an error, and it always trims the oldest records. So no record
    of a gap was missing if the replay read a record that is not after the start of the gap. A gap that starts
    at a time or at TRIM_HORIZON has no such record: none was missing if none can have expired.

    Args:
        gaps: The recorded gaps of the shard, each with its unfilled part.
        created: When the stream was created, before all records.
        kept_since: No record that arrived at or after this time had expired when the replay had ended.
        window_start: Records that arrived before this time were skipped, although the table may keep them.
        up_to_position: The range ended at the shard's committed position, which is after every gap.
    """
    if result.error is not None or result.end is None:
        return ()
    in_part = result.end is RangeEnd.TIME_LIMIT
    first = None if result.first_read is None else at(result.first_read)
    through = passed(result.stats.through)
    filled = []
    for gap, part in gaps.items():
        start, since = passed(part.after), gap.since
        if start is None and part.after.kind is PositionKind.TRIM_HORIZON:
            since = since or created
        if since is None or since < window_start:
            continue
        if start is None and (since < kept_since or result.stats.start.sequence_number is not None):
            continue
        if start is not None and (first is None or first > start):
            continue
        read_to_end = (up_to_position and not in_part) or (
            through is not None
            and gap.next_sequence_number is not None
            and through >= at(gap.next_sequence_number)
        )
        if read_to_end:
            filled.append(ClearedGap.of(gap))
        elif in_part and through is not None and (start is None or through[0] > start[0]):
            filled.append(ClearedGap(gap.after, result.stats.through.sequence_number, result.last_arrival))
    return tuple(filled)
