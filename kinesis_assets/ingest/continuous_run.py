"""Following: one run that goes on, round after round; each is a plan, its landing and its commit.

Knows nothing of Dagster, and of Spark only how a landing looks. A round takes the positions from the table:
whatever else moved them is seen, and what one round leaves undone the next one finds.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import structs

from kinesis_assets.errors import ShardSilent, ShardsNotCommitted, ShardThrottled
from kinesis_assets.ingest.plan import plan_run
from kinesis_assets.ingest.run import TIP_REFRESH, ShardState, execute_run
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.reading.stall_detector import STALL_SECONDS
from kinesis_assets.kinesis.relist import relisted
from kinesis_assets.kinesis.sdk_client import READ_TIMEOUT
from kinesis_assets.table.stop_marker import StopObject

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime

    from kinesis_assets.errors import ShardError
    from kinesis_assets.ingest.plan import ReadPolicy, RunPlan
    from kinesis_assets.ingest.poll_interval import Pace
    from kinesis_assets.ingest.run import Land, RunResult
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.positions import StreamPositions
    from kinesis_assets.table.table import PositionedTable

SECONDS_LISTED = 10.0
"""For so long a list of shards is used again: the streams of an account share 20 DescribeStreamSummary a
second (AWS API reference, DescribeStreamSummary)."""

FIRST_WAIT = 1.0
"""Seconds for which a shard is left alone after its first failure; doubled with each further one."""

LONGEST_WAIT = 30.0
"""Seconds that no such wait goes beyond, but for those of `ALONE`."""

ANSWER_WITHIN = 5.0
"""Seconds for which a shard that does not answer holds others back. Doubled each time, for the rest of the
run, up to `READ_TIMEOUT`: so one whose answers take longer is read in the end."""

ALONE = 4.0
"""How many times as long such a shard is left alone then."""

_LONGEST_POWER = 10

_PAUSE = 1.5
"""Lengths of its last round for which a run that may be taken over pauses. Of two that go on without a pause,
the one whose round began first would win every time."""


class Follow:
    """One run over some shards.

    Args:
        land: Lands ranges.
        client: The stream.
        table: Its table.
        policy: How the stream is read; its bounds and its allowance hold for each round.
        pace: How long and how often.
        tell: Told of each round right after its commit, with the shards that there is something to tell of:
            those of which rows were committed, or that were just read to their end; and those that fail, once
            for each change of the reason, but for throttling that has not lasted `STALL_SECONDS`.
        by: Who runs it, kept with each commit.

    Attributes:
        batch_id: The attempt under way; None between two rounds.
    """

    def __init__(
        self,
        land: Land,
        client: StreamClient,
        table: PositionedTable,
        policy: ReadPolicy,
        pace: Pace,
        *,
        tell: Callable[[RunResult], object],
        by: str | None = None,
    ) -> None:
        self.batch_id: int | None = None
        self._land = land
        self._client = client
        self._table = table
        self._policy = policy
        self._pace = pace
        self._tell = tell
        self._by = by
        self._listed = _Listed(client)
        self._stopped = threading.Event()
        self._shards: dict[str, _Shard] = {}
        self._rounds = 0
        self._standing: StreamPositions | None = None

    def stop(self) -> None:
        """From another thread: end soon, with what is read by then committed.

        Raises:
            OSError: The landing under way cannot be told.
        """
        self._stopped.set()
        batch_id = self.batch_id
        if batch_id is not None:
            StopObject(self._table.folder, batch_id).set()

    def run(self, asked: Sequence[str]) -> None:
        """Follow shards until the time is over, another run took over, all are read to their end, or `stop`.

        Args:
            asked: Shard ids, parents before children.

        Raises:
            ShardsNotCommitted: Some shards fail at the end; one that is throttled, and not for long, counts
                if it was not well before. The others are committed, and told by now if only that nothing of
                them was new.
            StreamError: A round could not be planned.
            TableError: A round's commit did not come about, or that cannot be told.
            Exception: Whatever else a landing raises.
        """
        # The SDK alone cannot be told to wait less.
        within = READ_TIMEOUT if self._client.settings.sdk_parser else ANSWER_WITHIN
        self._shards = {shard_id: _Shard(within) for shard_id in asked}
        began = time.monotonic()
        end = began + self._pace.ends_after
        while (now := time.monotonic()) < end and not self._stopped.is_set():
            if all(shard.finished for shard in self._shards.values()):
                break
            if due := [shard_id for shard_id, shard in self._shards.items() if shard.due <= now]:
                plan = self._plan(due)
                may_end = now - began >= self._pace.may_end_after
                if self._read_by_another(plan) and may_end:
                    break
                self._round(plan)
                if may_end and any(self._shards[shard_id].conflict for shard_id in due):
                    break
            ended = time.monotonic()
            at_once = any(
                self._shards[shard_id].behind or self._shards[shard_id].conflict for shard_id in due
            )
            following = now if at_once else now + self._pace.commit_interval
            if ended - began >= self._pace.may_end_after:
                following = max(following, ended + _PAUSE * (ended - now))
            self._stopped.wait(max(0.0, min(following, end) - ended))
        if not self._stopped.is_set():
            self._raise_for_the_failing()

    def _plan(self, asked: Sequence[str]) -> RunPlan:
        listing, now = self._listed.now()
        plan = plan_run(self._client, self._table, asked=asked, policy=self._policy, listing=listing, now=now)
        if plan.listing is not listing:
            self._listed.again()  # it contradicts the table
        interval = self._pace.commit_interval
        plan = plan.narrowed(Bounds(max_seconds=interval))
        impatient = {
            shard_id: structs.replace(
                range_,
                patience=interval,
                answer_within=self._shards[shard_id].answer_within,
            )
            for shard_id, range_ in plan.ranges.items()
        }
        return replace(plan, ranges=impatient)

    def _read_by_another(self, plan: RunPlan) -> bool:
        """Whether a shard is no longer where the rounds left it, or was read to its tip by someone else."""
        before, self._standing = self._standing, plan.expected
        known = {} if before is None else before.shards
        return any(
            (shard.left is not None and shard.left != plan.expected.shards[shard_id].position)
            or (shard_id in known and known[shard_id].tip_time != plan.expected.shards[shard_id].tip_time)
            for shard_id, shard in self._shards.items()
            if shard_id in plan.expected.shards  # of a stream created again, not all may be
        )

    def _round(self, plan: RunPlan) -> None:
        self.batch_id = plan.batch_id
        try:
            if self._stopped.is_set():  # before it could be told so
                return
            result = execute_run(
                self._land,
                self._client,
                self._table,
                plan,
                by=self._by,
                repeated=True,
                # By the tips of its first look it is seen to be there, also where nothing comes.
                tip_refresh=TIP_REFRESH if self._rounds else timedelta(0),
            )
        finally:
            self.batch_id = None
        self._rounds += 1
        if result.version is not None:
            self._standing = None  # what the next look finds new may be its own
        finished = plan.expected.finished
        news = [
            shard_id
            for shard_id in result.outcomes
            if self._shards[shard_id].after(result, shard_id, finished_before=shard_id in finished)
        ]
        if news:
            self._tell(_only(result, news))
        if any(self._shards[shard_id].finished for shard_id in plan.ranges):
            self._listed.again()  # it has children

    def _raise_for_the_failing(self) -> None:
        errors = {shard_id: error for shard_id, shard in self._shards.items() if (error := shard.fails_by)}
        if not errors:
            return
        # A run that failed is known to have been well for those alone that it told of.
        for shard in self._shards.values():
            if not shard.fails_by and not shard.told_well and shard.well is not None:
                self._tell(shard.well)
        raise ShardsNotCommitted(self._client.stream, errors)


@dataclass(slots=True)
class _Shard:
    """What the rounds remember of a shard.

    Attributes:
        answer_within: How many seconds it may hold others back without an answer.
        left: Where they left it; None where that is not known.
        finished: It is read to its end, now or before.
        behind: The last of its rounds did not get to its tip.
        conflict: In the last of them another run moved it first.
        error: Why the last of them failed.
        throttled_since: When the first one began that was throttled, without another since; None otherwise.
        failures: How many failed one after the other, without those that waited.
        due: It is not read before, by the monotonic clock.
        well: What became of the last of them that did not fail, if none failed since but by throttling that
            has not lasted; None otherwise.
        told_kind: The kind of the error that was told last, if nothing was well since.
        told_well: Told of as committed or finished, and not as failing since.
    """

    answer_within: float
    left: Position | None = None
    finished: bool = False
    behind: bool = False
    conflict: bool = False
    error: ShardError | None = None
    throttled_since: float | None = None
    failures: int = 0
    due: float = 0.0
    well: RunResult | None = None
    told_kind: str | None = None
    told_well: bool = False

    @property
    def fails_by(self) -> ShardError | None:
        """What the run fails by, if it ends now."""
        return None if self.well is not None and self._throttled_briefly else self.error

    def after(self, result: RunResult, shard_id: str, *, finished_before: bool) -> bool:
        """Remember what became of it in a round; whether there is something to tell."""
        outcome = result.outcomes[shard_id]
        self.conflict = outcome.state is ShardState.CONFLICT
        self.finished = outcome.state is ShardState.FINISHED
        self.behind = bool(outcome.lag_ms) and outcome.error is None
        # After a conflict the next round goes on from wherever the other one left it.
        self.left, self.error = (None, None) if self.conflict else (outcome.through, outcome.error)
        if not isinstance(self.error, ShardThrottled):
            self.throttled_since = None
        elif self.throttled_since is None:
            self.throttled_since = time.monotonic() - result.seconds
        if self.error is None:
            self.told_kind = None
        if self.conflict:
            return False
        if self.error is None:
            self.well, self.failures = _only(result, [shard_id]), 0
            self.due = float("inf") if self.finished else 0.0
            news = bool(outcome.rows) or (self.finished and not finished_before)
            self.told_well = self.told_well or news
            return news
        if outcome.state is ShardState.FAILED:  # one that waits costs nothing
            wait = min(FIRST_WAIT * 2.0 ** min(self.failures, _LONGEST_POWER), LONGEST_WAIT)
            self.failures += 1
            if isinstance(self.error, ShardSilent):
                wait = max(wait, ALONE * self.answer_within)
                self.answer_within = min(2 * self.answer_within, READ_TIMEOUT)
            self.due = time.monotonic() + wait
        if self._throttled_briefly:
            return bool(outcome.rows)
        self.well, self.told_well = None, False
        before, self.told_kind = self.told_kind, _kind(self.error)
        return bool(outcome.rows) or self.told_kind != before

    @property
    def _throttled_briefly(self) -> bool:
        """Whether it is throttled, and has not been for so long that it is to be told."""
        since = self.throttled_since
        return since is not None and time.monotonic() - since < STALL_SECONDS


class _Listed:
    """A stream's shards, listed anew from time to time, and the service's clock between."""

    def __init__(self, client: StreamClient) -> None:
        self._client = client
        self._listing: StreamListing | None = None
        self._at = 0.0

    def now(self) -> tuple[StreamListing, datetime]:
        """The last listing, which is not old; and what the service's clock shows now, not later than it does.

        Raises what `relisted` raises.
        """
        if self._listing is None or time.monotonic() - self._at >= SECONDS_LISTED:
            self._listing = relisted(self._client, lambda listing: listing)
            self._at = time.monotonic()
        passed = timedelta(seconds=time.monotonic() - self._at)
        return self._listing, self._listing.summary.service_time + passed

    def again(self) -> None:
        """List anew at the next look."""
        self._listing = None


def _only(result: RunResult, shard_ids: Collection[str]) -> RunResult:
    return replace(result, outcomes={shard_id: result.outcomes[shard_id] for shard_id in shard_ids})


def _kind(error: ShardError) -> str:
    """What two errors have in common that tell the same: all but numbers and names of requests."""
    words = [word for word in str(error).split() if not any(map(str.isdigit, word))]
    return " ".join([type(error).__name__, *words])
