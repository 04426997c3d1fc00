"""The sensor: adds new shards, requests runs over readable shards and failed tables, and adds missing events.

It lists the shards and reads the table's positions and Dagster's runs. Of shards that may have unread
records it requests one record at most, which it does not keep.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import dagster as dg
from msgspec import structs

from kinesis_assets.dagster.catalog_entries import CatalogEntries
from kinesis_assets.dagster.checks.shard_checks import readable
from kinesis_assets.dagster.checks.tick import (
    check_events,
    derived_check_events,
    failing_check_events,
    overdue_check_events,
)
from kinesis_assets.dagster.dagster_internals import report_outside_of_runs
from kinesis_assets.dagster.partition_ranges import contiguous_ranges, tagged_partitions
from kinesis_assets.dagster.sensor.derived_runs import end_dead_runs, failing_tables, retry_requests
from kinesis_assets.dagster.sensor.due_shards import RUNS_PER_TICK, DueShards, in_turn, run_requests
from kinesis_assets.dagster.sensor.sensor_cursor import Cursor, locations_of_stream, waiting_to_be_read
from kinesis_assets.dagster.sensor.sensor_runs import (
    DEAD,
    ended_runs,
    failing_in_runs,
    is_derived_in_a_run,
    liveness_of,
    recovered_shards,
    shards_of,
    unfinished_runs,
)
from kinesis_assets.dagster.sensor.tick_reports import (
    missing_events,
    observe_stream,
    record_gauges,
    record_shards,
    stream_event,
)
from kinesis_assets.dagster.sensor.tick_time import TickTime
from kinesis_assets.errors import PauseUnreadable, TickTooLong
from kinesis_assets.table.run_files.pause import read_pause

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kinesis_assets.dagster.checks.tick import Share
    from kinesis_assets.dagster.derived_tables import CheckedTable
    from kinesis_assets.dagster.sensor.sensor_runs import Failing
    from kinesis_assets.dagster.sensor.tick_time import RefuseIfOver
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.table.positions.positions import ShardPosition

    _Event = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation

_log = logging.getLogger(__name__)

_STREAM_UNTIL, _DERIVED_UNTIL, _UNTIL = 45 / 60, 50 / 60, 57 / 60
"""When the parts of a tick have to be ready, of the time after which Dagster ends it. The rest is for storing
what they have found. A derived table whose store does not answer must not hold up the stream."""

_DERIVED_LEFT = "stream %s: the derived tables are left to the next tick: %s"

_FAILED = "stream %s: the tick failed, and what it found about derived tables is kept"

_NAMED = 5
"""How many shards and tables the reason for no run names. It counts the others."""

_SHARED = (
    "code locations %s define the stream, so each waits for the runs of the others. Define it in one; or, if "
    "each has a table of its own, give each another key_prefix"
)

_NOT_PROBED = "shards could not be probed for new records, so they are requested less and less often: %s"


def evaluate(
    opened: OpenStream,
    instance: dg.DagsterInstance,
    cursor: str | None,
    clock: Callable[[], float] = time.time,
    *,
    derived: Collection[dg.AssetKey] = (),
    tables: Mapping[dg.AssetKey, str] = MappingProxyType({}),
    checked: Sequence[CheckedTable] = (),
) -> dg.SensorResult:
    """Evaluate one tick.

    A new shard becomes a partition and is reported as a materialization of the stream's asset. A tick that
    fails reports the checks before it raises the error. If it has to request derived tables, or to remember
    how their runs ended, it logs the error, and the next tick raises it.

    Args:
        derived: The derived tables that are materialized when their source has new rows. One of the stream's
            continuous runs includes them, and each is requested again after a failed run.
        tables: The paths or URIs of all derived tables of the stream, by asset key.

    Raises:
        TickTooLong: Kinesis, or the store of the raw table, did not answer in time.
        Exception: Any other error of the tick.
    """
    before = Cursor.parse(cursor)
    if not before.is_of(opened.names):  # the stream of the code location was replaced by another one
        before = Cursor()
    tick = Tick(opened, instance, before, clock(), derived, checked=checked)
    time_of_tick = TickTime(opened.name)
    try:
        time_of_tick.carry_out(tick.read_stream, until=_STREAM_UNTIL)
    except TickTooLong as error:
        tick.report_checks_without_tables(error)
        raise
    share = partial(time_of_tick.share, until=_DERIVED_UNTIL)
    try:
        time_of_tick.carry_out(partial(tick.look_after_derived_tables, tables, share), until=_DERIVED_UNTIL)
    except TickTooLong as error:
        tick.leave_derived_tables(error)
    time_of_tick.carry_out(tick.conclude, until=_UNTIL)
    return tick.result()


class Tick:
    """One tick of a stream's sensor: what it was given, and what its phases have found so far."""

    def __init__(
        self,
        opened: OpenStream,
        instance: dg.DagsterInstance,
        before: Cursor,
        now: float,
        derived: Collection[dg.AssetKey],
        *,
        checked: Sequence[CheckedTable],
    ) -> None:
        self._opened, self._instance, self._names = opened, instance, opened.names
        self._before, self._now = before, now
        self._derived, self._checked = derived, checked
        self._entries = CatalogEntries(opened)
        self._derived_events: list[_Event] = []
        self._is_continuous = opened.settings.follow_for is not None
        self._cursor = structs.replace(before, stream=self._names.partitions_name)
        self._error: Exception | None = None
        self._new: list[str] = []
        self._events: list[_Event] = []
        self._requests: list[dg.RunRequest] = []
        self._reason = ""

    def read_stream(self, refuse_if_over: RefuseIfOver) -> None:
        """Find out what is new in the stream, and evaluate its checks, also if that fails."""
        self._refuse_if_over = refuse_if_over
        phases = (
            self.list_shards,
            self.add_partitions,
            self.observe_runs,
            self.choose_ranges,
            self.observe_stream,
            self.evaluate_checks,
            # After the checks: a materialization outside of a run hides the results that the run reported.
            self.add_missing_events,
        )
        try:
            for phase in phases:
                refuse_if_over()
                phase()
        except Exception as error:  # noqa: BLE001  # `conclude` raises it
            self._note_failure(error, refuse_if_over)

    def look_after_derived_tables(
        self, tables: Mapping[dg.AssetKey, str], share: Share, refuse_if_over: RefuseIfOver
    ) -> None:
        """End the dead runs of derived tables, find out which tables fail, and evaluate their checks."""
        before, now, instance = self._before, self._now, self._instance
        liveness = end_dead_runs(
            instance, tables, before.derived_liveness, now, self._opened.role, share=share
        )
        since = before.backoff.since(now)
        failing = failing_tables(instance, self._derived, before.failing_tables, now, since)
        reasons = {name: table.sentence for name, table in failing.items() if table.runs}
        entries = CatalogEntries(self._opened)
        results, checks = derived_check_events(
            instance,
            self._checked,
            before.derived_checks,
            now,
            failing=reasons,
            entries=entries,
            share=share,
            refuse_if_over=refuse_if_over,
        )
        refuse_if_over()
        self._derived_events = [*results, *entries.taken_events()]
        self._cursor = structs.replace(
            self._cursor, derived_liveness=liveness, derived_checks=checks, failing_tables=failing
        )

    def leave_derived_tables(self, error: TickTooLong) -> None:
        """Report the checks of derived tables that follow from the cursor."""
        _log.warning(_DERIVED_LEFT, self._opened.name, error.reason)
        before = self._before.derived_checks
        self._derived_events += overdue_check_events(self._instance, self._checked, before, self._now, error)

    def conclude(self, refuse_if_over: RefuseIfOver) -> None:
        """Request runs, and keep what the next tick needs to know.

        Of a tick that fails, Dagster takes neither. So the error is raised, unless derived tables are to be
        requested, or how their runs ended is to be remembered.
        """
        if self._error is None:
            try:
                self.request_runs()
                self.keep_cursor()
            except Exception as error:  # noqa: BLE001  # it is raised below
                self._note_failure(error, refuse_if_over)
        if self._error is None:
            return
        self._new, self._requests, self._reason = [], [], str(self._error)
        with suppress(PauseUnreadable):  # the stream may be paused
            if not read_pause(self._opened.table):
                self._requests = retry_requests(self._instance, self._cursor.failing_tables, self._now)
        if self._requests or self._cursor.has_other_runs_than(self._before):
            _log.error(_FAILED, self._opened.name, exc_info=self._error)
            return
        refuse_if_over()
        for event in (*self._events, *self._derived_events):
            self._instance.report_runless_asset_event(event)
        raise self._error

    def report_checks_without_tables(self, error: TickTooLong) -> None:
        """Report the checks that follow from the cursor, because there is no time to read the tables."""
        before, now, instance = self._before, self._now, self._instance
        events, _ = failing_check_events(
            self._opened,
            instance,
            error,
            before=before.checks,
            failing=before.backoff.reasons,
            now=now,
            reads_table=False,
        )
        events += overdue_check_events(instance, self._checked, before.derived_checks, now, error)
        for event in events:
            instance.report_runless_asset_event(event)

    def _note_failure(self, error: Exception, refuse_if_over: RefuseIfOver) -> None:
        """Evaluate the checks of a tick that fails, as far as they can be."""
        refuse_if_over()
        self._error, before, now = error, self._before, self._now
        events, evaluation = failing_check_events(
            self._opened,
            self._instance,
            error,
            before=before.checks,
            failing=before.backoff.reasons,
            now=now,
            refuse_if_over=refuse_if_over,
        )
        if evaluation is not None:
            at = datetime.fromtimestamp(now, UTC)
            record_gauges(self._opened.name, evaluation.lags, evaluation.losses, at)
        self._events = [*events]

    def list_shards(self) -> None:
        """List the shards, and read their positions and the pause from the table."""
        self._listed = self._opened.listed_shards(client=self._opened.tick_client)
        self._pause = read_pause(self._opened.table)
        self._finished = {shard_id for shard_id, shard in self._listed.shards.items() if shard.finished}
        # An unfinished shard that is no longer listed is requested too: its run reports what was lost.
        self._readable = readable(self._listed.shards).keys()

    def add_partitions(self) -> None:
        """Find the shards that have no partition yet."""
        shards = self._listed.shards
        known = newest_partitions(self._instance, self._names, shards.keys() - self._finished)
        # A shard that was finished before the sensor first listed it needs no partition.
        not_new = {*known, *self._finished}
        self._new = [shard_id for shard_id in shards if shard_id not in not_new]
        self._keys = [*known, *self._new]
        self._events += [_discovery(self._names, shard_id, shards[shard_id]) for shard_id in self._new]

    def observe_runs(self) -> None:
        """Find out which unfinished runs are alive, which runs have ended, and which shards fail."""
        opened, instance, before, now = self._opened, self._instance, self._before, self._now
        self._unfinished = unfinished_runs(instance, self._names)
        self._liveness = liveness_of(opened, instance, self._unfinished, before.liveness, now)
        self._ended_ids = self._liveness.ended
        self._alive = [
            record for record in self._unfinished if record.dagster_run.run_id not in self._ended_ids
        ]
        self._busy = shards_of(opened, self._alive, self._keys, now)
        self._ended = list(ended_runs(instance, self._names, self._keys, before.backoff, now))
        backoff = before.backoff.after(self._ended, now, self._listed.shards)
        alive = {record.dagster_run.run_id for record in self._alive}
        recovered = recovered_shards(instance, self._names, backoff.shards, alive)
        failing = failing_in_runs(instance, self._names, self._alive)
        recovered |= backoff.read_since(self._listed.shards) - failing.keys()
        backoff = backoff.of(backoff.shards.keys() - recovered).with_failing(failing, self._listed.shards)
        self._backoff = backoff.of(self._readable)
        self._waiting = self._backoff.waiting(now)

    def choose_ranges(self) -> None:
        """Choose the ranges of shards that are requested: those with due shards, each in its turn."""
        keys = self._keys
        self._candidates = set() if self._pause else self._readable - self._busy - self._waiting.keys()
        self._due = due = DueShards(
            self._opened,
            self._listed,
            signals=self._before.signals,
            ended=self._ended,
            failing=self._backoff.shards,
        )
        idle = set() if self._is_continuous else due.waited(self._candidates)
        wanted = self._candidates | due.finished_between(keys, idle)
        turns = in_turn(contiguous_ranges(keys, wanted), keys, self._before.last_requested)
        # A continuous run reads idle shards at little cost.
        self._ranges = turns[:RUNS_PER_TICK] if self._is_continuous else due.within(turns, RUNS_PER_TICK)

    def observe_stream(self) -> None:
        """Report the stream's properties, if they have changed."""
        listing, _, shards = self._listed
        events, self._observed = observe_stream(
            self._names, listing, shards, self._before.observed, self._now, pause=self._pause
        )
        self._events += events

    def evaluate_checks(self) -> None:
        """Evaluate the checks of the raw table, and record the gauges of the shards."""
        events, self._checks = check_events(
            self._opened,
            self._instance,
            self._listed,
            before=self._before.checks,
            now=self._now,
            waiting=waiting_to_be_read(self._due.signals, self._backoff),
            failing=self._backoff.reasons,
            pause=self._pause,
            entries=self._entries,
            refuse_if_over=self._refuse_if_over,
        )
        self._events += [*events, *self._entries.taken_events()]
        record_shards(self._opened, self._listed, waiting=self._checks.waiting, now=self._now)

    def add_missing_events(self) -> None:
        """Store the events of runs that died between the commit and its event.

        The daemon, which stores the other events of a tick, cannot set their times.
        """
        events, self._commits, self._fills = missing_events(
            self._instance,
            self._names,
            self._listed,
            commits=self._before.commits,
            fills=self._before.fills,
            ended=self._ended_ids,
        )
        if events:
            events.append(stream_event(self._opened, self._listed, self._backoff.shards, self._now))
        self._refuse_if_over()
        if events:
            report_outside_of_runs(self._instance, events)

    def request_runs(self) -> None:
        """Request the ranges, and the derived tables whose last run failed; or say why there is no run."""
        derived, failing = self._derived, self._cursor.failing_tables
        if not self._is_continuous or is_derived_in_a_run(
            self._opened, self._alive, self._keys, self._now, derived=derived, finished=self._finished
        ):
            derived = ()
        blocked = {
            shard_id
            for record in self._unfinished
            if record.dagster_run.run_id in self._ended_ids
            for shard_id in tagged_partitions(record.dagster_run.tags, self._keys)
        }
        self._requests = run_requests(self._opened, self._ranges, blocked, self._backoff.shards, derived)
        if not self._pause:
            requested = derived if self._requests else ()
            self._requests += retry_requests(self._instance, failing, self._now, requested)
        if not self._requests:
            self._reason = str(self._pause or self._reason_for_no_run())

    def keep_cursor(self) -> None:
        """Keep what the next tick needs to know about the stream."""
        self._cursor = structs.replace(
            self._cursor,
            last_requested=self._ranges[-1][-1] if self._ranges else self._before.last_requested,
            backoff=self._backoff,
            commits=self._commits,
            fills=self._fills,
            liveness=self._liveness,
            signals=self._due.signals,
            observed=self._observed,
            checks=self._checks,
        )

    def result(self) -> dg.SensorResult:
        """Return what Dagster has to request, add, store and show."""
        return dg.SensorResult(
            run_requests=self._requests,
            dynamic_partitions_requests=[self._names.partitions.build_add_request(self._new)]
            if self._new
            else [],
            asset_events=[*self._events, *self._derived_events],
            cursor=self._cursor.encode(),
            skip_reason=None if self._requests else self._reason,
        )

    def _reason_for_no_run(self) -> str:
        tables = self._cursor.failing_tables.items()
        waiting = self._waiting | {name: table for name, table in tables if table.until > self._now}
        first = sorted(waiting.items(), key=lambda item: item[1].until)
        reasons = [_waits(name, failing) for name, failing in first[:_NAMED]]
        if len(first) > _NAMED:
            reasons.append(f"{len(first) - _NAMED} more wait")
        idle = len(self._candidates)  # none of them has unread records, as far as is known
        if idle:
            reasons.insert(0, "1 shard is idle" if idle == 1 else f"{idle} shards are idle")
        if not reasons or not self._readable.isdisjoint(self._busy):
            other = "other " if reasons else ""
            reasons.insert(0, f"every {other}readable shard has an unfinished run")
        if self._due.error is not None:
            reasons.append(_NOT_PROBED % self._due.error.reason)
        locations = locations_of_stream(self._instance, self._names, self._now)
        if len(locations) > 1:
            reasons.insert(0, _SHARED % " and ".join(locations))
        return "; ".join([*reasons, *(DEAD % run_id for run_id in sorted(self._liveness.dead))])


def _waits(name: str, failing: Failing) -> str:
    """Return why a shard or a table waits, and until when."""
    until = datetime.fromtimestamp(failing.until, UTC)
    runs = "its last run" if failing.runs == 1 else f"its last {failing.runs} runs"
    return f"{name} waits until {until:%Y-%m-%dT%H:%M:%SZ}: {runs} failed, the last was {failing.run_id}"


def _discovery(names: StreamNames, shard_id: str, shard: ShardPosition) -> dg.AssetMaterialization:
    metadata = {"parents": ", ".join(shard.parents) or "none", "hash range": " to ".join(shard.hash_range)}
    return dg.AssetMaterialization(names.stream_key, partition=shard_id, metadata=metadata)


FIRST_PAGE = 1000
"""Size of the first page. Each further page is twice as large."""


def newest_partitions(instance: dg.DagsterInstance, names: StreamNames, wanted: Iterable[str]) -> list[str]:
    """Return the partitions from the oldest wanted one or from an earlier one, in Dagster's order.

    Finished shards keep their partitions, so a stream that is often resharded has many that no run reads.
    If a wanted shard has no partition, all partitions are returned.
    """
    name = names.partitions_name
    missing, found = set(wanted), list[str]()
    cursor, limit = None, FIRST_PAGE
    while True:
        page = instance.get_paginated_dynamic_partitions(name, limit, ascending=False, cursor=cursor)
        found += page.results
        missing.difference_update(page.results)
        if not missing or not page.has_more:
            return found[::-1]
        cursor, limit = page.cursor, 2 * limit
