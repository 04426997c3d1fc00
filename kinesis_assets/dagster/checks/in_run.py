"""The checks of raw and derived tables in a run, which continue with what the sensor remembers.

This is the only module below the sensor that imports from it.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.catalog_entries import CatalogEntries
from kinesis_assets.dagster.checks.derived_evaluation import DerivedEvaluation, DerivedProgress, DerivedState
from kinesis_assets.dagster.checks.evaluation import Evaluation
from kinesis_assets.dagster.checks.results import RunReports
from kinesis_assets.dagster.dagster_internals import report_events
from kinesis_assets.dagster.sensor.sensor_cursor import is_recent, sensor_memory
from kinesis_assets.table.run_files.pause import read_pause

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import dagster as dg

    from kinesis_assets.dagster.checks.results import CheckResult
    from kinesis_assets.dagster.derived_tables import CheckedTable
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.ingest.outcome import RunResult, ShardOutcome
    from kinesis_assets.kinesis.stream import StreamListing


class RunChecks(RunReports):
    """The checks of a stream in one run."""

    def __init__(
        self,
        step: dg.StepExecutionContext,
        opened: OpenStream,
        listing: StreamListing,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            step, opened.names.raw_key, opened.checks.reading_no_rows, f"stream {opened.name}", clock
        )
        self._opened = opened
        self._listing = listing
        self._outcomes: dict[str, tuple[ShardOutcome, float]] = {}
        self._read_at: dict[str, float] = {}
        self._failing: dict[str, str] = {}
        self._shards: Collection[str] = ()

    def add(self, result: RunResult) -> None:
        """Add the result of the run, or of an iteration of a continuous run, before it is reported."""
        now = self._clock()
        for shard_id, outcome in result.outcomes.items():
            if outcome.lag_ms is not None:
                self._outcomes[shard_id] = outcome, now
                if outcome.error is None:
                    self._read_at[shard_id] = now

    def report_after(self, outcomes: Mapping[str, ShardOutcome], failed: Collection[str]) -> None:
        """Report the results after a commit, at once if shards have started or ceased to fail."""
        failing = {shard_id: str(outcomes[shard_id].error) for shard_id in failed}
        if failing.keys() != self._failing.keys():
            self._reported = None
        self._failing, self._shards = failing, outcomes.keys()
        self.report()

    def _evaluated(self, now: float) -> Sequence[CheckResult]:
        entries = CatalogEntries(self._opened)
        memory = sensor_memory(self._step.instance, self._opened.names)
        since = memory.checks.waiting
        known = {shard_id: since.get(shard_id, now) for shard_id in memory.waiting_at(now)}
        waiting = self._waiting(known, memory.checks.at if memory.is_recent(now) else None)
        others = {
            shard_id: reason
            for shard_id, reason in memory.failing_at(now).items()
            if shard_id not in self._shards
        }
        results = Evaluation(
            self._opened,
            self._step.instance,
            self._listing,
            self._opened.table.snapshot(),
            machine_time=datetime.fromtimestamp(now, UTC),
            waiting=waiting,
            failing=others | self._failing,
            pause=read_pause(self._opened.table),
            before=msgspec.structs.replace(memory.checks, waiting=waiting),
            entries=entries,
        ).results
        report_events(self._step, entries.taken_events())
        return results

    def _waiting(self, waiting: dict[str, float], tick: float | None) -> dict[str, float]:
        """Return by shard id since when a shard waits to be read, in seconds since the epoch.

        This updates what the last tick found. Its time is None if it was not a short time ago.
        """
        for shard_id, (outcome, at) in self._outcomes.items():
            unread_since = at - (outcome.lag_ms or 0) / 1000
            if outcome.error is None:
                waiting.pop(shard_id, None)
                if outcome.lag_ms:
                    waiting[shard_id] = unread_since
            elif shard_id in self._read_at:
                waiting[shard_id] = self._read_at[shard_id]
            else:
                # The last tick found nothing in a shard that it does not name.
                waiting.setdefault(shard_id, unread_since if tick is None else tick)
        return waiting


MAX_COMMITS = 1000
"""The maximum number of commits that an execution of the checks verifies, from the newest one."""


def evaluated_raw(instance: dg.DagsterInstance, opened: OpenStream) -> list[CheckResult]:
    """Evaluate the checks of a raw table in a run that executes them."""
    memory, listed, now = sensor_memory(instance, opened.names), opened.listed_shards(), time.time()
    return Evaluation(
        opened,
        instance,
        *listed,
        machine_time=datetime.fromtimestamp(now, UTC),
        waiting=memory.waiting_at(now),
        failing=memory.failing_at(now),
        pause=read_pause(opened.table),
        before=memory.checks.unverified(),
        max_commits=MAX_COMMITS,
        entries=CatalogEntries(opened),
    ).results


class DerivedRunChecks(RunReports):
    """The checks of a derived table in one run."""

    def __init__(self, step: dg.StepExecutionContext, table: CheckedTable, opened: OpenStream) -> None:
        super().__init__(step, table.key, table.checks.reading_no_rows, f"table {table.uri}")
        self._table = table
        self._opened = opened

    def _evaluated(self, now: float) -> Sequence[CheckResult]:
        entries = CatalogEntries(self._opened)
        results = evaluated_derived(self._step.instance, self._table, now, entries, has_run=True)
        report_events(self._step, entries.taken_events())
        return results


def evaluated_derived(
    instance: dg.DagsterInstance,
    table: CheckedTable,
    now: float,
    entries: CatalogEntries,
    *,
    has_run: bool = False,
) -> list[CheckResult]:
    """Evaluate the checks of a derived table outside of the sensor.

    Args:
        has_run: Whether a run has just committed, so that it does not matter how the one before ended.
    """
    memory = sensor_memory(instance, table.consumption.stream)
    before = memory.derived_checks.get(table.name, DerivedProgress())
    if has_run or not is_recent(before.at, now):  # a later run may have succeeded
        before = msgspec.structs.replace(before, failing=None)
    return DerivedEvaluation(table, DerivedState.of(table), before, now, entries=entries).results
