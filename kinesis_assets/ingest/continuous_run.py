"""A continuous run: it plans, lands and commits in iterations until its time is over.

The module does not depend on Dagster, and on Spark only through `Land`. Each iteration reads the positions
from the table, so it sees the commits of other writers and continues what the previous iteration left
unread.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING

from msgspec import structs

from kinesis_assets.errors import ShardSilent, ShardsNotCommitted, ShardThrottled, StreamPaused
from kinesis_assets.ingest.idle_shards import TIP_REFRESH
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.ingest.plan import plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.listing_retries import list_shards
from kinesis_assets.kinesis.reading.range import Bounds, TipIterator
from kinesis_assets.kinesis.stream import ITERATOR_LIFETIME
from kinesis_assets.retry import Backoff
from kinesis_assets.table.run_files.task_files import StopMarker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from kinesis_assets.errors import ShardError
    from kinesis_assets.ingest.manifest import Landing
    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.ingest.plan import ReadPolicy, RunPlan
    from kinesis_assets.ingest.run import Land
    from kinesis_assets.ingest.task import LandingJob
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.reading.range import Allowance, ShardRange
    from kinesis_assets.kinesis.settings import ReadTiming
    from kinesis_assets.kinesis.stream import StreamIdentity, StreamListing
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable


_PAUSE = 1.5
"""Pause of a run that another run may replace, as a multiple of the duration of its last iteration. If two
runs iterated without a pause, the one that started its iteration first would win every commit."""


_KEPT_SECONDS = ITERATOR_LIFETIME.total_seconds() - 60
"""Seconds for which an iterator is used after the landing that returned it began. The next may be slow."""


class ContinuousRun:
    """A continuous run over some shards of a stream.

    Args:
        policy: How the stream is read; its bounds and its allowance apply to each iteration.
        report: Called with the result of an iteration right after its commit. The result is limited to the
            shards that have news: rows were committed, the shard was read to its end, it failed for a new
            reason, or it ceased to fail. Throttling is news only after `ReadTiming.stall_seconds`.
        on_commit: Called when the table has new commits, of this run or of another one.
        on_iteration: Called with the whole result of each iteration, after `report`.
        by: Name of the run, kept with each commit.

    Attributes:
        batch_id: The batch id of the current iteration; None between two iterations.
    """

    def __init__(
        self,
        land: Land,
        client: StreamClient,
        table: PositionedTable,
        policy: ReadPolicy,
        timing: RunTiming,
        *,
        report: Callable[[RunResult], object],
        on_commit: Callable[[], object] = lambda: None,
        on_iteration: Callable[[RunResult], object] = lambda _: None,
        by: str | None = None,
    ) -> None:
        self.batch_id: int | None = None
        self._land = land
        self._client = client
        self._table = table
        self._policy = policy
        self._timing = timing
        self._report = report
        self._on_commit = on_commit
        self._on_iteration = on_iteration
        self._by = by
        self._clock = client.settings.timing.clock
        self._shard_list = _ShardList(client, timing.max_listing_age)
        self._stopped = threading.Event()
        self._shards: dict[str, ShardTracker] = {}
        self._has_committed = False
        self._landed_at = -inf
        self._tip_iterators = _TipIterators(self._clock)
        self._previous: StreamPositions | None = None
        self._newest_batch: int | None = None

    def stop(self) -> None:
        """Stop the run soon and commit what is read by then. Call this from another thread.

        Raises:
            OSError: The stop marker for the current landing cannot be written.
        """
        self._stopped.set()
        batch_id = self.batch_id
        if batch_id is not None:
            StopMarker(self._table.folder, batch_id).set()

    def run(self, plan: RunPlan) -> None:
        """Run until the time is over, another run replaces it, all shards are finished, a pause, or `stop`.

        Args:
            plan: The plan of the first iteration. Later iterations read the next ranges of its shards.

        Raises:
            ShardsNotCommitted: Some shards are failing when the run ends. A shard that has been throttled
                only briefly counts if it did not succeed before. All other shards are committed and reported,
                even if they had no new records.
            StreamError: An iteration could not be planned.
            TableError: An iteration's commit failed, or it is not known whether it succeeded.
            Exception: Any other error that a landing raises.
        """
        settings, timing = self._client.settings, self._timing
        # With the SDK's own parser, the read timeout is fixed.
        within = settings.timing.read_timeout if settings.sdk_parser else timing.first_response_timeout
        self._shards = {shard_id: ShardTracker(timing, settings.timing, within) for shard_id in plan.asked}
        first: RunPlan | None = plan
        started = self._clock.monotonic()
        end = started + timing.ends_after
        while (now := self._clock.monotonic()) < end and not self._stopped.is_set():
            if all(shard.finished for shard in self._shards.values()):
                break
            if due := [shard_id for shard_id, shard in self._shards.items() if shard.due <= now]:
                try:
                    plan, first = self._for_iteration(first or self._plan(due)), None
                except StreamPaused:
                    break
                may_end = now - started >= timing.may_end_after
                if self._is_read_by_another_run(plan) and may_end:
                    break
                self._iterate(plan)
                if may_end and any(self._shards[shard_id].conflict for shard_id in due):
                    break
            ended = self._clock.monotonic()
            shards = [self._shards[shard_id] for shard_id in due]
            immediately = any(shard.behind or shard.conflict for shard in shards)
            next_start = now if immediately else now + timing.commit_interval
            next_start = max(next_start, self._landed_at + settings.timing.seconds_between_calls)
            if ended - started >= timing.may_end_after:
                next_start = max(next_start, ended + _PAUSE * (ended - now))
            self._clock.wait(self._stopped, max(0.0, min(next_start, end) - ended))
        if not self._stopped.is_set():
            self._raise_errors()

    def _plan(self, asked: Sequence[str]) -> RunPlan:
        listing, now = self._shard_list.get()
        plan = plan_run(self._client, self._table, asked=asked, policy=self._policy, listing=listing, now=now)
        if plan.listing is not listing:
            self._shard_list.expire()  # it contradicts the table
        return plan

    def _for_iteration(self, plan: RunPlan) -> RunPlan:
        """Limit the time that a plan's ranges may take to that of an iteration."""
        interval = self._timing.commit_interval
        plan = plan.narrowed(Bounds(max_seconds=interval))
        tip_iterators = self._tip_iterators.usable(plan)
        if not self._has_committed:  # the tip times of the first commit show that the run is alive
            tip_iterators = {}
        ranges = {
            shard_id: structs.replace(
                range_,
                retry_seconds=interval,
                response_timeout=self._shards[shard_id].response_timeout,
                tip_iterator=tip_iterators.get(shard_id),
            )
            for shard_id, range_ in plan.ranges.items()
        }
        return replace(plan, ranges=ranges)

    def _is_read_by_another_run(self, plan: RunPlan) -> bool:
        """Return whether another run has moved a shard or read it to its tip since the last iteration."""
        before, self._previous = self._previous, plan.expected
        known = {} if before is None else before.shards
        return any(
            (shard.position is not None and shard.position != plan.expected.shards[shard_id].position)
            or (shard_id in known and known[shard_id].tip_time != plan.expected.shards[shard_id].tip_time)
            for shard_id, shard in self._shards.items()
            if shard_id in plan.expected.shards  # a recreated stream may lack some
        )

    def _iterate(self, plan: RunPlan) -> None:
        if plan.expected.batch_id != self._newest_batch:
            self._newest_batch = plan.expected.batch_id
            self._on_commit()
        self.batch_id = plan.batch_id
        try:
            if self._stopped.is_set():  # `stop` was called before it could see the batch id
                return
            result = execute_run(
                self._timed_land,
                self._client,
                self._table,
                plan,
                by=self._by,
                is_iteration=True,
                tip_refresh=TIP_REFRESH if self._has_committed else timedelta(0),
            )
        finally:
            self.batch_id = None
        if result.version is not None:
            self._has_committed = True
            self._newest_batch = plan.batch_id
            self._on_commit()
            self._previous = None  # changes that the next plan finds may be this run's own
        finished = plan.expected.finished
        news = [
            shard_id
            for shard_id in result.outcomes
            if self._shards[shard_id].update(result, shard_id, finished_before=shard_id in finished)
        ]
        if news:
            self._report(result.only(news))
        self._on_iteration(result)
        if any(self._shards[shard_id].finished for shard_id in plan.ranges):
            self._shard_list.expire()  # the shard has children

    def _timed_land(self, job: LandingJob, ranges: Sequence[ShardRange], allowance: Allowance) -> Landing:
        """Land ranges, and note when that ended: later than every call."""
        began = self._clock.monotonic()
        landing = self._land(job, ranges, allowance)
        self._landed_at = self._clock.monotonic()
        self._tip_iterators.keep(landing, since=began)
        return landing

    def _raise_errors(self) -> None:
        errors = {shard_id: error for shard_id, shard in self._shards.items() if (error := shard.final_error)}
        if errors:
            self.report_successes()
            raise ShardsNotCommitted(self._client.stream, errors)

    def report_successes(self) -> None:
        """Report the last result of each shard that was read without being reported.

        Call this before the run fails: of a failed run, only the shards that it reported are known to have
        succeeded.
        """
        for shard in self._shards.values():
            if not shard.final_error and not shard.reported_success and shard.success is not None:
                self._report(shard.success)


class _TipIterators:
    """The iterators of idle shards, with which their next reads ask whether they still are.

    A run that read each empty page after the old position of such a shard in each iteration would delay the
    other shards.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._identity: StreamIdentity | None = None
        self._kept: dict[str, tuple[Position, TipIterator, float]] = {}

    def usable(self, plan: RunPlan) -> dict[str, TipIterator]:
        """Return by shard id the iterators for the ranges of a plan.

        An iterator is of the start of its range, and has not expired. A shard whose tip time is due to be
        committed has none, because that needs a read from its position.
        """
        if plan.identity != self._identity:
            self._identity, self._kept = plan.identity, {}
        now, usable = self._clock.monotonic(), dict[str, TipIterator]()
        for shard_id, range_ in plan.ranges.items():
            position, iterator, since = self._kept.get(shard_id, (None, None, 0.0))
            committed = plan.expected.shards[shard_id].tip_time
            if iterator is None or position != range_.start or now - since >= _KEPT_SECONDS:
                continue
            if committed is not None and iterator.issued - committed < TIP_REFRESH:
                usable[shard_id] = iterator
        return usable

    def keep(self, landing: Landing, *, since: float) -> None:
        """Keep the iterators of a landing, and forget the older ones of its shards.

        Args:
            since: When the landing began (monotonic clock).
        """
        for shard in landing.shards:
            self._kept.pop(shard.shard_id, None)
            if shard.tip_iterator is not None and shard.tip_time is not None:
                iterator = TipIterator(shard.tip_iterator, shard.tip_time)
                self._kept[shard.shard_id] = shard.stats.through, iterator, since


class _ShardList:
    """A stream's shards, listed again at a maximum age in seconds, and an estimate of the service's time."""

    def __init__(self, client: StreamClient, max_age: float) -> None:
        self._client = client
        self._max_age = max_age
        self._clock = client.settings.timing.clock
        self._listing: StreamListing | None = None
        self._listed_at = 0.0

    def get(self) -> tuple[StreamListing, datetime]:
        """Return a recent listing and the service's time, which is never ahead of the service's clock.

        Raises what `retry_listing` raises.
        """
        if self._listing is None or self._clock.monotonic() - self._listed_at >= self._max_age:
            self._listing = list_shards(self._client)
            self._listed_at = self._clock.monotonic()
        elapsed = timedelta(seconds=self._clock.monotonic() - self._listed_at)
        return self._listing, self._listing.summary.service_time + elapsed

    def expire(self) -> None:
        """Have the next `get` list the shards again."""
        self._listing = None


@dataclass(slots=True)
class ShardTracker:
    """The state of one shard of a continuous run after its last iteration.

    Attributes:
        response_timeout: Seconds for which the shard may delay the other shards without a response.
        position: Where it has read to; None if that is not known.
        behind: Whether it did not reach the tip.
        conflict: Whether another run moved its position first.
        error: Why it failed; None if it did not.
        throttled_since: Start of the first of consecutive throttled iterations (monotonic clock); None if the
            last one was not throttled.
        failures: Number of consecutive failed iterations; those in which it waited for its parents do not
            count.
        due: Time before which it is not read again (monotonic clock).
        success: The result of its last successful iteration; None if it has failed since, except by brief
            throttling.
        reported_kind: The kind of error that was reported last; None after a success.
        reported_failure: Whether a failure was reported, without a success since.
        reported_success: Whether its last report was a success.
    """

    timing: RunTiming
    reading: ReadTiming
    response_timeout: float
    position: Position | None = None
    finished: bool = False
    behind: bool = False
    conflict: bool = False
    error: ShardError | None = None
    throttled_since: float | None = None
    failures: int = 0
    due: float = 0.0
    success: RunResult | None = None
    reported_kind: str | None = None
    reported_failure: bool = False
    reported_success: bool = False

    @property
    def final_error(self) -> ShardError | None:
        """The error with which the run would report the shard as failed if it ended now."""
        return None if self.success is not None and self._is_throttled_briefly else self.error

    def update(self, result: RunResult, shard_id: str, *, finished_before: bool) -> bool:
        """Record the outcome of an iteration, and return whether it is to be reported.

        Args:
            finished_before: Whether the shard was already finished when the iteration was planned.
        """
        outcome = result.outcomes[shard_id]
        self.conflict = outcome.state is ShardState.CONFLICT
        self.finished = outcome.state is ShardState.FINISHED
        self.behind = bool(outcome.facts.millis_behind_latest) and outcome.error is None
        # After a conflict, the next iteration starts at the position that the other run committed.
        self.position = None if self.conflict or outcome.stats is None else outcome.stats.through
        self.error = None if self.conflict else outcome.error
        if not isinstance(self.error, ShardThrottled):
            self.throttled_since = None
        elif self.throttled_since is None:
            self.throttled_since = self.reading.clock.monotonic() - result.seconds
        if self.error is None:
            self.reported_kind = None
        if self.conflict:
            return False
        if self.error is None:
            self.success, self.failures = result.only([shard_id]), 0
            self.due = inf if self.finished else 0.0
            # The sensor takes a shard as failing until this run reports its success.
            news = bool(outcome.rows) or (self.finished and not finished_before) or self.reported_failure
            self.reported_failure = False
            self.reported_success = self.reported_success or news
            return news
        if outcome.state is ShardState.FAILED:  # waiting for parents costs nothing
            self.failures += 1
            wait = self.timing.failed_shard.wait(self.failures)
            if isinstance(self.error, ShardSilent):
                wait = max(wait, self.timing.unresponsive_wait_factor * self.response_timeout)
                self.response_timeout = min(2 * self.response_timeout, self.reading.read_timeout)
            self.due = self.reading.clock.monotonic() + wait
        if self._is_throttled_briefly:
            return bool(outcome.rows)
        self.success, self.reported_success = None, False
        self.reported_failure = self.reported_failure or outcome.state is ShardState.FAILED
        before, self.reported_kind = self.reported_kind, _kind(self.error)
        return bool(outcome.rows) or self.reported_kind != before

    @property
    def _is_throttled_briefly(self) -> bool:
        """Whether it is throttled, but not yet for long enough to be reported."""
        since, reading = self.throttled_since, self.reading
        return since is not None and reading.clock.monotonic() - since < reading.stall_seconds


def _kind(error: ShardError) -> str:
    """Return the part of an error that repeats with its cause: its class and the words without digits."""
    words = [word for word in str(error).split() if not any(map(str.isdigit, word))]
    return " ".join([type(error).__name__, *words])


@dataclass(frozen=True, slots=True)
class RunTiming:
    """How long a continuous run lasts, how often it commits and how long it waits, all in seconds.

    Attributes:
        follow_for: Duration of the run.
        commit_interval: Time from the start of an iteration to the start of the next. The next iteration
            starts immediately if a shard is behind or another run committed first, but never sooner after
            the end of a landing than `ReadTiming.seconds_between_calls`. An iteration requests no more pages
            of a shard this long after the shard's first record.
        handover: Another run may replace this one from this long before the end of `follow_for`. This run
            ends when it sees the other one, and this long after `follow_for` at the latest.
        max_listing_age: Maximum age of a shard list before the shards are listed again. The streams of an
            account share 20 DescribeStreamSummary calls a second (AWS API reference, DescribeStreamSummary).
        failed_shard: Wait before a failed shard is read again. An unresponsive shard may wait longer.
        first_response_timeout: Time for which an unresponsive shard may delay the other shards. It doubles
            with each timeout of the shard, up to `ReadTiming.read_timeout`, so that a slow shard is
            eventually read.
        unresponsive_wait_factor: Minimum wait after an unresponsive shard's timeout, as a multiple of the
            timeout.
    """

    follow_for: float
    commit_interval: float
    handover: float = 0.0
    max_listing_age: float = 10.0
    failed_shard: Backoff = Backoff(1.0, 30.0)
    first_response_timeout: float = 5.0
    unresponsive_wait_factor: float = 4.0

    @property
    def may_end_after(self) -> float:
        """Seconds after which another run may replace this one."""
        return self.follow_for - self.handover

    @property
    def ends_after(self) -> float:
        """Seconds after which the run ends, whether or not another run has replaced it."""
        return self.follow_for + self.handover
