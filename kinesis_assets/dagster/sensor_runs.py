"""The runs that the sensor sees: which are unfinished, which of these are dead, which shards they have."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.jobs.replay import replay_name
from kinesis_assets.dagster.names import op_key, raw_key
from kinesis_assets.dagster.partition_ranges import seconds_followed, tagged_span
from kinesis_assets.dagster.run_liveness import (
    SECONDS_SILENT,
    SECONDS_TO_PLAN,
    SECONDS_TO_START,
    Liveness,
    Seen,
)
from kinesis_assets.errors import InvalidInput, TableError
from kinesis_assets.table.commit import OLDEST_ATTEMPT
from kinesis_assets.table.heartbeat import ENDED, heartbeats

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kinesis_assets.dagster.io_manager import ShardIOManager

_log = logging.getLogger(__name__)

DEAD = (
    "run %s shows no sign of life, so its shards are requested again. Terminate it in the UI: until it is "
    "ended, it counts towards the limits of concurrent runs. run_monitoring in dagster.yaml ends such runs"
)
"""What is reported of a dead run."""

_FINISHED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
_UNFINISHED = [status for status in dg.DagsterRunStatus if status not in _FINISHED]

_HAVE_A_PROCESS = (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)

_STEP_PLANS = (
    dg.DagsterEventType.STEP_WORKER_STARTING,
    dg.DagsterEventType.STEP_START,
    dg.DagsterEventType.STEP_RESTARTED,
)
"""After these a step writes its first heartbeat, as soon as it has a plan."""

_STEP_ENDED = (
    dg.DagsterEventType.STEP_SUCCESS,
    dg.DagsterEventType.STEP_FAILURE,
    dg.DagsterEventType.STEP_SKIPPED,
)

_STEP_EVENTS = (*_STEP_PLANS, *_STEP_ENDED, dg.DagsterEventType.STEP_UP_FOR_RETRY)


def unfinished_runs(instance: dg.DagsterInstance, stream: str) -> list[dg.RunRecord]:
    """Those over the raw asset, and replays."""
    return [
        record
        for record in instance.get_run_records(dg.RunsFilter(statuses=_UNFINISHED))
        if record.dagster_run.job_name == replay_name(stream) or is_ours(instance, record.dagster_run, stream)
    ]


def liveness_of(
    manager: ShardIOManager,
    instance: dg.DagsterInstance,
    unfinished: Sequence[dg.RunRecord],
    before: Liveness,
    now: float,
) -> Liveness:
    """Which of the unfinished runs still live. One that waits in Dagster's queue does."""
    runs = [record.dagster_run for record in unfinished]
    launched = [run for run in runs if run.status is not dg.DagsterRunStatus.QUEUED]
    beats: Mapping[str, str] = {}
    if any(run.status in _HAVE_A_PROCESS for run in launched):
        try:
            beats = heartbeats(manager.positioned_table())
        except (OSError, TableError) as error:
            _log.warning("stream %s: whether its runs live is not known: %s", manager.stream, error)
            return before
    seen: dict[str, Seen] = {}
    for run in launched:
        beat, sign = beats.get(run.run_id), before.signs.get(run.run_id)
        if run.status not in _HAVE_A_PROCESS:
            seen[run.run_id] = Seen(run.status.value, None, SECONDS_TO_START)
        elif beat is not None or (sign is not None and sign.beat is not None):
            seen[run.run_id] = Seen(run.status.value, beat, SECONDS_SILENT)
        else:
            seen[run.run_id] = _seen_without_heartbeat(manager, instance, run)
    liveness = before.after(seen, now)
    for run_id in sorted(liveness.dead - before.dead):
        _log.warning(DEAD, run_id)
    return liveness


def _seen_without_heartbeat(
    manager: ShardIOManager, instance: dg.DagsterInstance, run: dg.DagsterRun
) -> Seen:
    """What is known of a run that never had a heartbeat: how far its step is."""
    status, step = run.status.value, _last_event_of_step(instance, run, manager.stream)
    if step in _STEP_ENDED:
        return Seen(status, ENDED, SECONDS_SILENT)
    if step in _STEP_PLANS:
        return Seen(f"{status} {step.value}", None, SECONDS_TO_PLAN)
    # Its step may begin late, after others of the run, and last as long as it can still commit.
    try:
        followed = seconds_followed(run.tags) or 0.0
    except InvalidInput:
        followed = 0.0
    return Seen(status, None, OLDEST_ATTEMPT.total_seconds() + followed + manager.handover)


def _last_event_of_step(
    instance: dg.DagsterInstance, run: dg.DagsterRun, stream: str
) -> dg.DagsterEventType | None:
    """The last event that says where the step is that commits; None before it begins."""
    is_replay = run.job_name == replay_name(stream)
    step_key = op_key(run.job_name) if is_replay else raw_key(stream).to_python_identifier()
    records = instance.get_records_for_run(run.run_id, of_type=set(_STEP_EVENTS), ascending=False).records
    events = (record.event_log_entry.get_dagster_event() for record in records)
    return next((event.event_type for event in events if event.step_key == step_key), None)


def shards_of(
    manager: ShardIOManager,
    records: Iterable[dg.RunRecord],
    keys: Sequence[str],
    now: float,
) -> set[str]:
    """The shards that unfinished runs have and keep: not one that ends when the next one takes over."""
    return {
        shard_id
        for record in records
        if record.dagster_run.job_name != replay_name(manager.stream)  # it moves no position
        and not _hands_over(record, manager.handover, now)
        for shard_id in tagged_span(record.dagster_run.tags, keys)
    }


def _hands_over(record: dg.RunRecord, handover: float, now: float) -> bool:
    """Whether a run follows and is in its last seconds, in which the next one may take over."""
    try:
        seconds = seconds_followed(record.dagster_run.tags)
    except InvalidInput:
        return False  # it fails with that
    return (
        seconds is not None
        and record.start_time is not None
        and now - record.start_time >= seconds - handover
    )


def is_ours(instance: dg.DagsterInstance, run: dg.DagsterRun, stream: str) -> bool:
    """Whether a run is over the raw asset. One that selects no asset is over all of its job, if any."""
    if run.asset_selection is not None:
        return raw_key(stream) in run.asset_selection
    if run.execution_plan_snapshot_id is None:
        return False  # it does nothing
    plan = instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id)
    return raw_key(stream) in plan.asset_selection
