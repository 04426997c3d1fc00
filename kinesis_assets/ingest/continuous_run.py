"""Following: one run that goes on, round after round; each is a plan, its landing and its commit.

Knows nothing of Dagster, and of Spark only how a landing looks. A round takes the positions from the table:
whatever else moved them is seen, and what one round leaves undone the next one finds.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import structs

from kinesis_assets.errors import ShardsNotCommitted
from kinesis_assets.ingest.plan import plan_run
from kinesis_assets.ingest.run import TIP_REFRESH, execute_run
from kinesis_assets.ingest.shard_tracker import ShardTracker
from kinesis_assets.kinesis.client import READ_TIMEOUT
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.relist import relisted
from kinesis_assets.table.stop_marker import StopObject

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.ingest.plan import ReadPolicy, RunPlan
    from kinesis_assets.ingest.poll_interval import Pace
    from kinesis_assets.ingest.run import Land
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.positions import StreamPositions
    from kinesis_assets.table.table import PositionedTable

SECONDS_LISTED = 10.0
"""For so long a list of shards is used again: the streams of an account share 20 DescribeStreamSummary a
second (AWS API reference, DescribeStreamSummary)."""

ANSWER_WITHIN = 5.0
"""Seconds for which a shard that does not answer holds others back. Doubled each time, for the rest of the
run, up to `READ_TIMEOUT`: so one whose answers take longer is read in the end."""

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
        self._shards: dict[str, ShardTracker] = {}
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
        self._shards = {shard_id: ShardTracker(within) for shard_id in asked}
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
            self._tell(result.only(news))
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
