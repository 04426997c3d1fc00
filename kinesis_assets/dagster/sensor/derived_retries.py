"""Requests derived tables again whose last run failed, with the back-off of shards.

The automation of a table requests it only when its source has new rows, which may be hours later, or never
if all shards are finished. Each tick reads from Dagster's instance how the last run of a table ended. The
number of failures and the end of the wait are in the sensor's cursor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
from msgspec import structs

from kinesis_assets.dagster.sensor.derived_runs import assets_of_steps
from kinesis_assets.dagster.sensor.sensor_requests import RUNS_PER_TICK
from kinesis_assets.dagster.sensor.sensor_runs import UNFINISHED, WAITS, Failing, assets_of_run

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_NONE = Failing(0, 0.0, "")


def failing_tables(
    instance: dg.DagsterInstance,
    tables: Collection[dg.AssetKey],
    before: Mapping[str, Failing],
    now: float,
) -> dict[str, Failing]:
    """Return the failures of the derived tables whose last run failed, by asset key.

    A table with 0 failed runs is well: the run failed because of another one. A canceled run ends the
    failures, because somebody has decided so.

    Args:
        instance: The instance with the runs.
        tables: The derived tables that are materialized when their source has new rows.
        before: What the previous tick returned.
        now: The time of the tick, in seconds since the epoch.
    """
    if not tables:
        return {}
    entries = [record.asset_entry for record in instance.get_asset_records(list(tables))]
    last = {entry.asset_key: entry.last_run_id for entry in entries if entry.last_run_id is not None}
    records = instance.get_run_records(dg.RunsFilter(run_ids=[*set(last.values())])) if last else []
    runs = {record.dagster_run.run_id: record.dagster_run for record in records}
    failing: dict[str, Failing] = {}
    for key, run_id in last.items():
        name, run = key.to_user_string(), runs.get(run_id)  # an operator may have deleted the run
        known = before.get(name, _NONE)
        if run is None or run.status in (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.CANCELED):
            continue
        if run.status is dg.DagsterRunStatus.FAILURE and run_id != known.run_id:
            known = _after_failed_run(instance, run, key, known, now)
        failing[name] = known
    return failing


def _after_failed_run(
    instance: dg.DagsterInstance, run: dg.DagsterRun, key: dg.AssetKey, known: Failing, now: float
) -> Failing:
    """Return the failures of a table after one more failed run that should have materialized it."""
    started, succeeded, failed = (
        {
            record.event_log_entry.step_key
            for record in instance.get_records_for_run(run.run_id, of_type=event).records
        }
        for event in (
            dg.DagsterEventType.STEP_START,
            dg.DagsterEventType.STEP_SUCCESS,
            dg.DagsterEventType.STEP_FAILURE,
        )
    )
    own = {step for step, assets in assets_of_steps(instance, run).items() if key in assets}
    if own & succeeded:  # an event of a commit is no proof: a step also reports commits of earlier runs
        return Failing(0, 0.0, run.run_id)
    if failed and not own & started:  # the table is requested when the one that failed is materialized
        return structs.replace(known, run_id=run.run_id)
    failures = known.runs + 1
    return Failing(failures, now + WAITS.wait(failures), run.run_id)


def retry_requests(
    instance: dg.DagsterInstance,
    failing: Mapping[str, Failing],
    now: float,
    requested: Collection[dg.AssetKey] = (),
) -> list[dg.RunRequest]:
    """Return the request of a run for each failing table that has waited, first the one that waited longest.

    Each table has a run to itself, because a table whose run is killed would stop the others of its run.

    Args:
        instance: The instance with the runs.
        failing: What `failing_tables` returned.
        now: The time of the tick, in seconds since the epoch.
        requested: The tables that the tick requests already.
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
