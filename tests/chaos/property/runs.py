"""Execute the runs of a history with their faults and interruptions, and check what they report."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING

from chaos.property.expected_rows import DAMAGED
from chaos.property.interceptor import ERRORS, Killed
from kinesis_assets.errors import (
    InvalidInput,
    KinesisAssetsError,
    ParentUnfinished,
    PositionConflict,
    ServiceTimeUncertain,
    TableRewritten,
    TooManyBadRecords,
)
from kinesis_assets.ingest.fan_out import land_received
from kinesis_assets.ingest.manifest import Landing, encode
from kinesis_assets.ingest.plan import ReadPolicy, RunPlan, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.reading.range import Allowance, Bounds
from kinesis_assets.kinesis.start_positions import StartPositions
from kinesis_assets.operations.adopt import adopt
from kinesis_assets.operations.replay.plan import ReplayWindow
from kinesis_assets.operations.replay.run import replay
from kinesis_assets.operations.replay.task import FillResult, fill_group
from support.timing import REPLAYING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from chaos.property.expected_rows import Row
    from chaos.property.histories import Event, Recover, Run, Step
    from chaos.property.interceptor import Interceptor
    from chaos.property.invariants import InvariantChecker
    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.ingest.run import Land
    from kinesis_assets.ingest.task import LandingJob
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.kinesis.reading.received_pages import Received
    from kinesis_assets.kinesis.reading.subscription import Subscriptions
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.operations.replay.task import FillJob
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.testing import Faults

_USUAL = (TooManyBadRecords, ParentUnfinished)
"""What may become of a shard though nothing fails and no other run is there."""


@dataclass
class Runner:
    """Runs of one stream into one table.

    Attributes:
        start: The start of the first plan.
        faults: The faults of the service.
        interceptor: Interrupts calls of the package.
        checker: Checks the table after each run.
        take: Executes the steps that happen during a run.
        subscriptions: What the runs read by; None to call GetRecords.
    """

    client: StreamClient
    table: PositionedTable
    start: str
    faults: Faults
    interceptor: Interceptor
    checker: InvariantChecker
    take: Callable[[Step], None]
    subscriptions: Subscriptions | None = None
    _plans: list[RunPlan] = field(default_factory=list)

    def run(self, run: Run, asked: Sequence[str]) -> RunResult | None:
        """Plan and execute a run, and return its result if there is one."""
        stale = 0 < run.plan <= len(self._plans)
        failing = stale or run.may_fail or run.is_restored
        refused, reads = self.checker.is_rewritten, self.faults.count("GetRecords")
        before = set(self.checker.batches)
        plan = result = None
        with self._injected(run), self._with_faults(run):
            try:
                plan = self._plans[-run.plan] if stale else self._plan(run, asked)
                with self._subscribed() as subscriptions:
                    result = execute_run(_landing(run, subscriptions), self.client, self.table, plan)
                assert not refused or stale, "planned on a restored table"
            except TableRewritten:
                assert self.checker.is_rewritten
                assert stale or not refused or self.faults.count("GetRecords") == reads
            except ServiceTimeUncertain:
                if not failing and not run.waits:
                    raise
            except KinesisAssetsError:
                if not failing:
                    raise
        self.checker.check()
        if plan is not None and result is not None:
            rows = (
                Counter() if plan.batch_id in before else self.checker.batches.get(plan.batch_id, Counter())
            )
            _assert_report(plan, result, rows)
            if not failing:
                usual = (*_USUAL, PositionConflict) if run.races else _USUAL
                assert all(isinstance(error, usual) for error in result.errors.values())
        return result

    @contextmanager
    def _subscribed(self) -> Iterator[Subscriptions | None]:
        """Lend the subscriptions to a run. One that happens during it, as in another process, has none."""
        subscriptions, self.subscriptions = self.subscriptions, None
        try:
            yield subscriptions
        finally:
            self.subscriptions = subscriptions

    def recover(self, step: Recover) -> None:
        """Recover a restored table; twice, if events happen during the recovery."""
        if not self.checker.is_rewritten:
            return
        with suppress(KinesisAssetsError), self._injected(step):
            self._recover()
        with suppress(InvalidInput):  # the first recovery has already accepted it
            self._recover()
        self.checker.recovered()

    def _recover(self) -> None:
        since = min(self.checker.since.values(), default=None)
        start = self.start if since is None else datetime.fromtimestamp(since, UTC).isoformat()
        result = replay(_fill, self.client, self.table, ReplayWindow.of(start), retries=REPLAYING)
        assert not result.errors
        adopt(self.client, self.table, by="property", apply=True)

    def _plan(self, run: Run, asked: Sequence[str]) -> RunPlan:
        policy = ReadPolicy(
            starts=StartPositions.of(self.start),
            bounds=Bounds(max_records=run.max_records, max_bytes=run.max_bytes),
            allowance=Allowance(records=run.run_records, bytes=run.run_bytes),
            max_bad_records=run.max_bad_records,
        )
        listing = self._without_ended() if len(self._plans) % 2 else None
        self._plans.append(plan_run(self.client, self.table, asked=asked, policy=policy, listing=listing))
        return self._plans[-1]

    def _without_ended(self) -> StreamListing:
        """Hide finished shards, as a stream that has dropped them does, until the next plan."""
        whole = self.client.listing()
        known = self.checker.shards
        listed = [
            each for each in whole.shards if (at := known.get(each.shard_id)) is None or not at.finished
        ]
        return replace(whole, shards=listed)

    @contextmanager
    def _with_faults(self, run: Run) -> Iterator[None]:
        for fault in run.faults:
            # Arrival times are approximate, so the reader cannot recognize a page that begins before a start
            # time, as long as it has read no record.
            if fault.method != "repeat_page" or not self._starts_at_a_time():
                getattr(self.faults, fault.method)(**fault.arguments)
        try:
            yield
        finally:
            self.faults.clear()

    def _starts_at_a_time(self) -> bool:
        """Return whether the next read of any shard starts at a time."""
        if not self.checker.shards:
            return self.start != "TRIM_HORIZON"
        return any(shard.position.timestamp is not None for shard in self.checker.shards.values())

    @contextmanager
    def _injected(self, run: Run | Recover) -> Iterator[None]:
        """Make the events of a run happen. A failed step during the run is raised at its end."""
        raised: list[BaseException] = []
        wrong: list[BaseException] = []

        def happen(event: Event) -> None:
            if isinstance(event.effect, type):
                raised.append(event.effect("injected"))
                raise raised[-1]
            try:
                self.take(event.effect)
            except BaseException as error:  # noqa: BLE001  # the run in whose middle it is might catch it
                wrong.append(error)

        try:
            with self.interceptor.expecting(run.events, happen):
                yield
        except (Killed, *ERRORS) as error:
            assert error in raised  # noqa: PT017  # this is no test of what is raised
        else:
            assert not any(isinstance(error, Killed) for error in raised), "went on though it was killed"
        for each in wrong:
            raise each


def _assert_report(plan: RunPlan, result: RunResult, rows: Counter[Row]) -> None:
    """Assert that a run reports the rows that it committed, and that they are within its bounds."""
    by_shard: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_shard[row.shard_id].append(row)
    reported = {shard_id: outcome.rows for shard_id, outcome in result.outcomes.items() if outcome.rows}
    assert reported == {shard_id: len(of_shard) for shard_id, of_shard in by_shard.items()}
    assert rows.total() <= _or_inf(plan.allowance.records)
    for shard_id, of_shard in by_shard.items():
        range_ = plan.ranges[shard_id]
        size = sum(len(row.data) for row in of_shard)
        assert len(of_shard) <= _or_inf(range_.bounds.max_records)
        assert size <= _or_inf(range_.bounds.max_bytes) or len(of_shard) == 1
        assert sum(row.error == DAMAGED for row in of_shard) <= _or_inf(range_.max_bad_records)


def _or_inf(bound: int | None) -> float:
    return inf if bound is None else bound


def _fill(job: FillJob, ranges: Sequence[ShardRange]) -> FillResult:
    return FillResult.of([encode(fill_group(job, ranges))], job.landing.stream, job.landing.batch_id, ranges)


def _landing(run: Run, subscriptions: Subscriptions | None) -> Land:
    """Run independent tasks that return manifests, as Spark does."""

    def land(
        job: LandingJob,
        ranges: Sequence[ShardRange],
        allowance: Allowance,
        received: Mapping[str, Received] = MappingProxyType({}),
    ) -> Landing:
        shares = allowance.shares(min(run.tasks, len(ranges)))
        manifests = []
        settings = replace(job.settings, max_pool_connections=run.calls_at_once)
        for task, share in enumerate(shares):
            group = replace(job, settings=settings), ranges[task :: len(shares)], share, received
            if run.speculative == "before":
                with suppress(*ERRORS):
                    land_group(*group)
            manifests.append(encode(land_group(*group)))
            if run.speculative == "after":
                with suppress(*ERRORS):
                    land_group(*group)
        return Landing.of(manifests, job.stream, job.batch_id, ranges)

    return land if subscriptions is None else partial(land_received, subscriptions, land)
