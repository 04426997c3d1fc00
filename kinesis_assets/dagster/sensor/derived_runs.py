"""Ends runs that materialize only derived tables and whose process has died.

The automation of a table waits for its unfinished run, so a dead one would stop the table. The rules are
those for runs of the raw asset, see `sensor_runs`: the sensor measures by its own clock, over several ticks,
how long a run has shown no sign of life. Such a sign is any new event of the run, and a heartbeat in the
folder of a table whose step is in progress. If a run is ended that is alive after all, it can still commit,
or another run does: the cursor of a table moves in only one of the two.

Requests derived tables again whose last run failed, with the back-off of shards. The automation of a table
requests it only when its source has new rows, which may be hours later, or never if all shards are finished.
Each tick reads from Dagster's instance how the last run of a table ended, and also the runs before it if it
goes on, because a continuous run starts before its predecessor ends. The number of failures and the end of
the wait are in the sensor's cursor.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import dagster as dg
from msgspec import structs

from kinesis_assets.dagster.checks.tick import one_by_one
from kinesis_assets.dagster.sensor.due_shards import RUNS_PER_TICK
from kinesis_assets.dagster.sensor.sensor_runs import (
    HAVE_A_PROCESS,
    SECONDS_SILENT,
    SECONDS_TO_PLAN,
    SECONDS_TO_START,
    STEP_ENDED,
    STEP_PLANS,
    UNFINISHED,
    WAITS,
    Failing,
    Liveness,
    RunObservation,
    assets_of_run,
    last_step_events,
)
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.errors import TableError, TickTooLong, without_secrets
from kinesis_assets.table.commits.commit import MAX_ATTEMPT_AGE
from kinesis_assets.table.run_files.heartbeat import ENDED, heartbeats

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from kinesis_assets.dagster.checks.tick import Share
    from kinesis_assets.kinesis.role import AssumedRole

_log = logging.getLogger(__name__)

_DIED = (
    "The process of this run has died: it has shown no sign of life for minutes. Nothing is lost. The next "
    "run of its tables consumes the same rows."
)

_NOT_OBSERVED = "table %s: its heartbeats cannot be read, so this tick detects no dead run of it: %s"


def end_dead_runs(
    instance: dg.DagsterInstance,
    tables: Mapping[dg.AssetKey, str],
    before: Liveness,
    now: float,
    role: AssumedRole | None = None,
    *,
    share: Share = one_by_one,
) -> Liveness:
    """End the dead runs over derived tables only, and return what the next tick needs to know.

    A run that is being terminated ends as canceled, any other as failed. A run in Dagster's queue is alive.
    A run over a table whose heartbeats cannot be read is left to a later tick. The tables are given by their
    paths or URIs.
    """
    found = list(_unfinished(instance, tables)) if tables else []
    uris = sorted({uri for run, steps in found if run.status in HAVE_A_PROCESS for uri in steps.values()})
    read = share([partial(_heartbeats, uri, role) for uri in uris])
    beats: dict[str, Mapping[str, str]] = {}
    for uri, outcome in zip(uris, read, strict=True):
        if isinstance(outcome, (OSError, TableError, TickTooLong)):
            _log.warning(_NOT_OBSERVED, uri, outcome)
        elif isinstance(outcome, Exception):
            raise outcome
        else:
            beats[uri] = outcome
    seen, unseen = dict[str, RunObservation](), set[str]()
    for run, steps in found:
        if run.status in HAVE_A_PROCESS and not beats.keys() >= {*steps.values()}:
            unseen.add(run.run_id)
        else:
            seen[run.run_id] = _observation(instance, run, steps, beats)
    liveness = before.after(seen, now, unseen)
    for run, _ in found:
        if run.run_id in liveness.dead:
            _end(instance, run)
    return liveness


def _heartbeats(uri: str, role: AssumedRole | None) -> Mapping[str, str]:
    return heartbeats(DerivedTable(uri, role=role))


def assets_of_steps(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dict[str, list[dg.AssetKey]]:
    """Return the assets that each step of a run materializes, by step key; nothing if the run has no plan."""
    if run.execution_plan_snapshot_id is None:
        return {}
    plan = instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id)
    return {
        step.key: [
            output.properties.asset_key
            for output in step.outputs
            if output.properties and output.properties.asset_key  # a check has none
        ]
        for step in plan.steps
        if step.key in plan.step_keys_to_execute
    }


def _unfinished(
    instance: dg.DagsterInstance, tables: Mapping[dg.AssetKey, str]
) -> Iterator[tuple[dg.DagsterRun, dict[str, str]]]:
    """Yield the unfinished runs that execute no other steps than those of derived tables.

    Each has the path or URI of the table of each step, by step key.
    """
    for record in instance.get_run_records(dg.RunsFilter(statuses=UNFINISHED)):
        run = record.dagster_run
        if run.status is dg.DagsterRunStatus.QUEUED:
            continue
        if not set(run.asset_selection or ()).issubset(tables):  # which is less work than reading the plan
            continue
        assets = assets_of_steps(instance, run)
        if assets and all(len(keys) == 1 and keys[0] in tables for keys in assets.values()):
            yield run, {step: tables[key] for step, (key,) in assets.items()}


def _observation(
    instance: dg.DagsterInstance,
    run: dg.DagsterRun,
    steps: Mapping[str, str],
    beats: Mapping[str, Mapping[str, str]],
) -> RunObservation:
    if run.status not in HAVE_A_PROCESS:
        return RunObservation(run.status.value, None, SECONDS_TO_START)
    newest = instance.get_records_for_run(run.run_id, limit=1, ascending=False).records
    last = last_step_events(instance, run.run_id)
    of_steps = {step: beats[uri].get(run.run_id) for step, uri in steps.items()}
    # The signs together are one text, which differs from that of the previous tick if any of them does.
    signs = [run.status.value, *(str(record.storage_id) for record in newest), *map(str, of_steps.values())]
    in_progress = [of_steps[step] for step in steps if last.get(step) in STEP_PLANS]
    if in_progress:
        is_silent = all(beat not in (None, ENDED) for beat in in_progress)
        timeout = SECONDS_SILENT if is_silent else SECONDS_TO_PLAN
    elif all(last.get(step) in STEP_ENDED for step in steps):
        timeout = SECONDS_TO_PLAN
    else:  # a step waits, such as for a retry or for a pool
        timeout = MAX_ATTEMPT_AGE.total_seconds()
    return RunObservation(" ".join(signs), None, timeout)


def _end(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    current = instance.get_run_by_id(run.run_id)
    if current is None or current.status is not run.status:
        return
    if run.status is dg.DagsterRunStatus.CANCELING:
        instance.report_run_canceled(current, _DIED)
    else:
        instance.report_run_failed(current, _DIED)
    _log.warning("run %s, which materializes only derived tables, has died and was ended", run.run_id)


_NONE = Failing(0, 0.0, "")

_MAX_REASON = 500
"""The length of a reason that the sensor remembers."""


def failing_tables(
    instance: dg.DagsterInstance,
    tables: Collection[dg.AssetKey],
    before: Mapping[str, Failing],
    now: float,
    since: float,
) -> dict[str, Failing]:
    """Return the failures of the derived tables whose last run failed, by asset key.

    A table with 0 failed runs is well: the run failed because of another one, or a run that goes on has
    materialized it since. A canceled run ends the failures, because somebody has decided so.

    Args:
        tables: The derived tables that are materialized when their source has new rows.
        since: The time after which runs may have ended uncounted. Times are in seconds since the epoch.
    """
    if not tables:
        return {}
    entries = [record.asset_entry for record in instance.get_asset_records(list(tables))]
    last = {entry.asset_key: entry.last_run_id for entry in entries if entry.last_run_id is not None}
    materialized = {entry.asset_key: entry.last_materialization for entry in entries}
    records = instance.get_run_records(dg.RunsFilter(run_ids=[*set(last.values())])) if last else []
    runs = {record.dagster_run.run_id: record.dagster_run for record in records}
    goes_on = any(not run.is_finished for run in runs.values())
    ended = _ended_runs(instance, {*tables}, since) if goes_on else []
    failing: dict[str, Failing] = {}
    for key, run_id in last.items():
        name, run = key.to_user_string(), runs.get(run_id)  # an operator may have deleted the run
        known = before.get(name, _NONE)
        if run is None or run.status in (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.CANCELED):
            continue
        if run.status is dg.DagsterRunStatus.FAILURE and run_id != known.run_id:
            known = _after_failed_run(instance, run, key, known, now)
        elif not run.is_finished:
            event = materialized[key]
            for earlier in _uncounted_runs(ended, key, known, event):
                known = _after_failed_run(instance, earlier, key, known, now)
            if event is not None and run_id == event.run_id:
                known = Failing(0, 0.0, known.run_id)  # a continuous run goes on for long
        failing[name] = known
    return failing


def _ended_runs(
    instance: dg.DagsterInstance, tables: set[dg.AssetKey], since: float
) -> list[tuple[dg.RunRecord, AbstractSet[dg.AssetKey]]]:
    """Return the runs over some tables that failed or were canceled after a time, with these tables.

    They are in the order in which they ended.
    """
    ended = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED],
        updated_after=datetime.fromtimestamp(since, UTC),
    )
    records = sorted(instance.get_run_records(ended), key=lambda record: record.end_time or 0.0)
    found = [(record, tables.intersection(assets_of_run(instance, record.dagster_run))) for record in records]
    return [(record, included) for record, included in found if included]


def _uncounted_runs(
    ended: Iterable[tuple[dg.RunRecord, AbstractSet[dg.AssetKey]]],
    key: dg.AssetKey,
    known: Failing,
    materialized: dg.EventLogEntry | None,
) -> list[dg.DagsterRun]:
    """Return the failed runs over a table that ended after whatever else is known of it.

    Args:
        ended: What `_ended_runs` returned.
        materialized: The last materialization of the table.
    """
    since = 0.0 if materialized is None else materialized.timestamp
    runs: list[dg.DagsterRun] = []
    for record, included in ended:
        run, end = record.dagster_run, record.end_time or 0.0
        if key not in included:
            continue
        if end < since or run.run_id == known.run_id or run.status is dg.DagsterRunStatus.CANCELED:
            runs.clear()
        else:
            runs.append(run)
    return runs


def _after_failed_run(
    instance: dg.DagsterInstance, run: dg.DagsterRun, key: dg.AssetKey, known: Failing, now: float
) -> Failing:
    """Return the failures of a table after one more failed run that should have materialized it."""
    started, succeeded, failed = (
        {
            record.event_log_entry.step_key: record.event_log_entry
            for record in instance.get_records_for_run(run.run_id, of_type=event).records
        }
        for event in (
            dg.DagsterEventType.STEP_START,
            dg.DagsterEventType.STEP_SUCCESS,
            dg.DagsterEventType.STEP_FAILURE,
        )
    )
    own = {step for step, assets in assets_of_steps(instance, run).items() if key in assets}
    if own & succeeded.keys():  # an event of a commit is no proof: it may be of an earlier run
        return Failing(0, 0.0, run.run_id)
    # The step of a continuous run names the tables that failed in it, whose own steps do not start.
    reason = next(filter(None, (_named_reason(failure, key) for failure in failed.values())), "")
    if failed and not reason and not own & started.keys():
        # The table is requested when the one that failed is materialized.
        return structs.replace(known, run_id=run.run_id)
    failures = known.runs + 1
    reason = reason or next((_reason_of(failed[step]) for step in own & failed.keys()), "")
    return Failing(failures, now + WAITS.wait(failures), run.run_id, reason)


def _named_reason(failure: dg.EventLogEntry, key: dg.AssetKey) -> str:
    """Return why a table failed, as the metadata of a step's failure says; empty if they do not name it."""
    data = failure.get_dagster_event().step_failure_data.user_failure_data
    reason = None if data is None else data.metadata.get(key.to_user_string())
    return "" if reason is None else _shortened(str(reason.value))


def _reason_of(failure: dg.EventLogEntry) -> str:
    """Return the sentence of a step's failure that people see first; empty if it has none."""
    data = failure.get_dagster_event().step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        found = data.user_failure_data.description
    elif data.error is not None:
        found = (data.error.cause or data.error).message
    else:
        return ""
    return _shortened(found)


def _shortened(reason: str) -> str:
    return without_secrets(reason).strip().rstrip(".")[:_MAX_REASON]


def retry_requests(
    instance: dg.DagsterInstance,
    failing: Mapping[str, Failing],
    now: float,
    requested: Collection[dg.AssetKey] = (),
) -> list[dg.RunRequest]:
    """Return the request of a run for each failing table that has waited, first the one that waited longest.

    Each table has a run to itself, because a table whose run is killed would stop the others of its run.
    Those that the tick requests already are left out.
    """
    due = {
        dg.AssetKey.from_user_string(name): table
        for name, table in sorted(failing.items(), key=lambda item: item[1].until)
        if table.runs and table.until <= now
    }
    if not due:
        return []
    unfinished = instance.get_run_records(dg.RunsFilter(statuses=UNFINISHED))
    busy = {key for record in unfinished for key in assets_of_run(instance, record.dagster_run)}
    return [
        dg.RunRequest(
            run_key=f"{key.to_user_string()} after {table.run_id}",  # only one run follows a failed one
            asset_selection=[key],
            asset_check_keys=[],  # by default the run would also execute the checks of the table
        )
        for key, table in due.items()
        if key not in busy and key not in requested
    ][:RUNS_PER_TICK]
