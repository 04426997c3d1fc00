"""The sensor: adds new shards, requests runs over readable shards and failed tables, and adds missing events.

It lists the shards and reads the table's positions and Dagster's runs. Of shards that may have unread
records it requests one record at most, which it does not keep.

Why a tick of the sensor requests no run.

Read a stream's newest partitions, without those that are no longer needed.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

import dagster as dg
from msgspec import structs

from kinesis_assets.dagster.checks.shard_checks import readable
from kinesis_assets.dagster.checks.tick import check_events, derived_check_events, failing_check_events
from kinesis_assets.dagster.dagster_internals import locations_of_sensor
from kinesis_assets.dagster.partition_ranges import contiguous_ranges, tagged_partitions
from kinesis_assets.dagster.sensor.derived_runs import end_dead_runs, failing_tables, retry_requests
from kinesis_assets.dagster.sensor.due_shards import (
    RUNS_PER_TICK,
    DueShards,
    finished_between,
    in_turn,
    run_requests,
)
from kinesis_assets.dagster.sensor.sensor_cursor import Cursor
from kinesis_assets.dagster.sensor.sensor_runs import (
    DEAD,
    ended_runs,
    is_derived_in_a_run,
    liveness_of,
    shards_of,
    unfinished_runs,
)
from kinesis_assets.dagster.sensor.tick_reports import (
    observe_stream,
    record_gauges,
    record_shards,
    report_missing_events,
)
from kinesis_assets.errors import PauseUnreadable
from kinesis_assets.table.run_files.pause import read_pause

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kinesis_assets.dagster.checked_table import CheckedTable
    from kinesis_assets.dagster.sensor.sensor_runs import Failing
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.errors import StreamError
    from kinesis_assets.table.positions.positions import ShardPosition


_log = logging.getLogger(__name__)

_FAILED = "stream %s: the tick failed, and what it found about derived tables is kept"


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
        opened: The stream.
        instance: The instance with the partitions, runs and events.
        cursor: The cursor that the previous tick returned.
        clock: Returns the time of the tick, in seconds since the epoch.
        derived: The derived tables that are materialized when their source has new rows. One of the stream's
            continuous runs includes them, and each is requested again after a failed run.
        tables: The paths or URIs of all derived tables of the stream, by asset key.
        checked: Those of these tables that have checks.
    """
    before, now = Cursor.parse(cursor), clock()
    # What concerns only derived tables needs no answer of the service.
    of_derived, derived_checks = derived_check_events(instance, checked, before.derived_checks, now)
    known = structs.replace(
        before,
        derived_liveness=end_dead_runs(instance, tables, before.derived_liveness, now, opened.role),
        derived_checks=derived_checks,
        failing_tables=failing_tables(instance, derived, before.failing_tables, now),
    )
    try:
        result = _of_stream(opened, instance, known, derived, now)
    except Exception as error:
        failed, evaluation = failing_check_events(
            opened, instance, error, before=before.checks, failing=before.backoff.reasons, now=now
        )
        if evaluation is not None:
            at = datetime.fromtimestamp(now, UTC)
            record_gauges(opened.name, evaluation.lags, evaluation.losses, at)
        requests = _retries(opened, instance, known, now)
        if not requests and not known.has_other_runs_than(before):
            for event in (*failed, *of_derived):
                instance.report_runless_asset_event(event)
            raise
        # Dagster takes requests, and keeps the cursor, only of a tick that does not fail.
        _log.exception(_FAILED, opened.name)
        result = dg.SensorResult(
            run_requests=requests,
            asset_events=failed,
            cursor=known.encode(),
            skip_reason=None if requests else str(error),
        )
    result.asset_events.extend(of_derived)
    return result


def _retries(
    opened: OpenStream, instance: dg.DagsterInstance, known: Cursor, now: float
) -> list[dg.RunRequest]:
    """Return the requests of derived tables in a tick that fails, unless the stream may be paused."""
    with suppress(PauseUnreadable):
        if not read_pause(opened.table):
            return retry_requests(instance, known.failing_tables, now)
    return []


def _of_stream(
    opened: OpenStream,
    instance: dg.DagsterInstance,
    before: Cursor,
    derived: Collection[dg.AssetKey],
    now: float,
) -> dg.SensorResult:
    """Return what a tick finds about the stream, and requests."""
    names, continuous = opened.names, opened.settings.follow_for is not None
    listed = opened.listed_shards()
    listing, _, shards = listed
    finished = {shard_id for shard_id, shard in shards.items() if shard.finished}
    known = newest_partitions(instance, names, shards.keys() - finished)
    # A shard that was finished before the sensor first listed it needs no partition.
    not_new = {*known, *finished}
    new = [shard_id for shard_id in shards if shard_id not in not_new]
    keys = [*known, *new]
    # An unfinished shard that is no longer listed is requested too: its run reports what was lost.
    to_read = readable(shards).keys()
    unfinished = unfinished_runs(instance, names)
    liveness = liveness_of(opened, instance, unfinished, before.liveness, now)
    ended_ids = liveness.ended
    alive = [record for record in unfinished if record.dagster_run.run_id not in ended_ids]
    busy = shards_of(opened, alive, keys, now)
    ended_records = list(ended_runs(instance, names, keys, before.backoff, now))
    backoff = before.backoff.after(ended_records, now).of(to_read)
    waiting = backoff.waiting(now)
    pause = read_pause(opened.table)
    candidates = set() if pause else to_read - busy - waiting.keys()
    due = DueShards(
        opened, listing, shards, signals=before.signals, ended=ended_records, failing=backoff.shards
    )
    idle = set() if continuous else due.waited(candidates)
    passed = finished_between(opened, listing, shards, keys, idle)
    turns = in_turn(contiguous_ranges(keys, candidates | passed), keys, before.last_requested)
    # A continuous run reads idle shards at little cost.
    ranges = turns[:RUNS_PER_TICK] if continuous else due.within(turns, RUNS_PER_TICK)
    last_requested = ranges[-1][-1] if ranges else before.last_requested
    seen, observed = observe_stream(names, listing, shards, before.observed, now, pause=pause)
    after = structs.replace(
        before,
        last_requested=last_requested,
        backoff=backoff,
        liveness=liveness,
        signals=due.signals,
        observed=observed,
    )
    evaluations, checks = check_events(
        opened,
        instance,
        listed,
        before=before.checks,
        now=now,
        waiting=after.waiting_to_be_read,
        failing=backoff.reasons,
        pause=pause,
    )
    record_shards(opened, listed, waiting=checks.waiting, now=now)
    # After the checks: a materialization that is not of a run hides the results that the run has reported.
    commits, fills = report_missing_events(
        instance, names, listed, commits=before.commits, fills=before.fills, ended=ended_ids
    )
    blocked = {
        shard_id
        for record in unfinished
        if record.dagster_run.run_id in ended_ids
        for shard_id in tagged_partitions(record.dagster_run.tags, keys)
    }
    if not continuous or is_derived_in_a_run(opened, alive, keys, now, derived=derived, finished=finished):
        derived = ()
    discoveries = [_discovery(names, shard_id, shards[shard_id]) for shard_id in new]
    requests = run_requests(opened, ranges, blocked, backoff.shards, derived)
    if not pause:
        requests += retry_requests(instance, before.failing_tables, now, derived if requests else ())
    tables_waiting = {name: table for name, table in before.failing_tables.items() if table.until > now}
    reason = skip_reason(
        waiting | tables_waiting,
        liveness.dead,
        idle=len(candidates),
        busy=not to_read.isdisjoint(busy),
        not_probed=due.error,
        locations=locations_of_sensor(instance, names.sensor, now),
    )
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[names.partitions.build_add_request(new)] if new else [],
        asset_events=[*discoveries, *seen, *evaluations],
        cursor=structs.replace(after, commits=commits, fills=fills, checks=checks).encode(),
        skip_reason=None if requests else str(pause or reason),
    )


def _discovery(names: StreamNames, shard_id: str, shard: ShardPosition) -> dg.AssetMaterialization:
    """Return the event of a new shard for the stream's asset page."""
    metadata = {
        "parents": ", ".join(shard.parents) or "none",
        "hash range": " to ".join(shard.hash_range),
    }
    return dg.AssetMaterialization(names.stream_key, partition=shard_id, metadata=metadata)


_NAMED = 5
"""How many shards and tables the reason names. It counts the others."""

_SHARED = (
    "code locations %s define the stream, so each waits for the runs of the others. Define it in one; or, if "
    "each has a table of its own, give each another key_prefix"
)

_NOT_PROBED = "shards could not be probed for new records, so they are requested less and less often: %s"


def skip_reason(
    waiting: Mapping[str, Failing],
    dead: Collection[str],
    *,
    idle: int,
    busy: bool,
    not_probed: StreamError | None,
    locations: Sequence[str],
) -> str:
    """Return why a tick requests no run.

    Args:
        waiting: The shards and derived tables that wait after a failed run.
        dead: The ids of the runs that show no sign of life.
        idle: The number of shards that have no unread records, as far as is known.
        busy: Whether a readable shard has an unfinished run.
        not_probed: Why it is not known of some shards whether they have unread records.
        locations: The code locations that evaluate a sensor of the stream.
    """
    first = sorted(waiting.items(), key=lambda item: item[1].until)
    reasons = [_waits(shard_id, failing) for shard_id, failing in first[:_NAMED]]
    if len(first) > _NAMED:
        reasons.append(f"{len(first) - _NAMED} more wait")
    if idle:
        reasons.insert(0, "1 shard is idle" if idle == 1 else f"{idle} shards are idle")
    if busy or not idle:
        other = "other " if reasons else ""
        reasons.insert(0, f"every {other}readable shard has an unfinished run")
    if not_probed is not None:
        reasons.append(_NOT_PROBED % not_probed.reason)
    if len(locations) > 1:
        reasons.insert(0, _SHARED % " and ".join(locations))
    return "; ".join([*reasons, *(DEAD % run_id for run_id in sorted(dead))])


def _waits(name: str, failing: Failing) -> str:
    """Return why a shard or a table waits, and until when."""
    until = datetime.fromtimestamp(failing.until, UTC)
    runs = "its last run" if failing.runs == 1 else f"its last {failing.runs} runs"
    return f"{name} waits until {until:%Y-%m-%dT%H:%M:%SZ}: {runs} failed, the last was {failing.run_id}"


FIRST_PAGE = 1000
"""Size of the first page. Each further page is twice as large."""


def newest_partitions(instance: dg.DagsterInstance, names: StreamNames, wanted: Iterable[str]) -> list[str]:
    """Return the partitions from the oldest wanted one or from an earlier one, in Dagster's order.

    Finished shards keep their partitions, so a stream that is often resharded has many that no run reads.

    Args:
        instance: The instance that stores the partitions.
        names: The names of the stream's definitions.
        wanted: Shard ids. If one of them has no partition, all partitions are returned.
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
