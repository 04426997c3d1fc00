"""The runs that the sensor observes: which are unfinished, dead or ended, and the back-off after failed ones.

A run whose process has died is detected from what the sensor observes from tick to tick: it shows that it
is alive by a status or a heartbeat that differs from the previous tick. The sensor measures the silence
with its own clock, so that no two clocks are compared. Of a long interval between two ticks only a part
counts, because the machine may have been suspended together with its runs.

After each failed run of a shard, the sensor waits longer before it requests the shard again.

All of this is stored in the sensor's cursor.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

import dagster as dg
import msgspec

from kinesis_assets import retry
from kinesis_assets.dagster.events.metadata import is_failure
from kinesis_assets.dagster.partition_ranges import (
    FOLLOW_TAG,
    STREAM_TAG,
    continuous_run_seconds,
    tagged_partitions,
)
from kinesis_assets.dagster.stream_names import op_key
from kinesis_assets.errors import InvalidInput, TableError
from kinesis_assets.ingest.idle_shards import is_behind
from kinesis_assets.table.commits.commit import MAX_ATTEMPT_AGE
from kinesis_assets.table.run_files.heartbeat import ENDED, INTERVAL, heartbeats

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.table.positions.positions import ShardPosition


_log = logging.getLogger(__name__)

DEAD = (
    "run %s shows no sign of life, so its shards are requested again. Terminate it in the UI: until it is "
    "ended, it counts towards the limits of concurrent runs. run_monitoring in dagster.yaml ends such runs"
)

_NOT_OBSERVED = "stream %s: the heartbeats cannot be read, so this tick detects no dead runs: %s"

_FINISHED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
UNFINISHED = [status for status in dg.DagsterRunStatus if status not in _FINISHED]

HAVE_A_PROCESS = (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)
"""The statuses of runs that execute steps, or did until their process died."""

Event = dg.DagsterEventType

STEP_PLANS = (
    dg.DagsterEventType.STEP_WORKER_STARTING,
    dg.DagsterEventType.STEP_START,
    dg.DagsterEventType.STEP_RESTARTED,
)
"""After these events a step writes its first heartbeat as soon as it has a plan."""

STEP_ENDED = (
    dg.DagsterEventType.STEP_SUCCESS,
    dg.DagsterEventType.STEP_FAILURE,
    dg.DagsterEventType.STEP_SKIPPED,
)
"""After these events a step executes nothing more."""

_STEP_EVENTS = {*STEP_PLANS, *STEP_ENDED, dg.DagsterEventType.STEP_UP_FOR_RETRY}


def unfinished_runs(instance: dg.DagsterInstance, names: StreamNames) -> list[dg.RunRecord]:
    """Return the unfinished runs that materialize the raw asset or replay it."""
    return [
        record
        for record in instance.get_run_records(dg.RunsFilter(statuses=UNFINISHED))
        if _is_replay(record.dagster_run, names) or materializes_raw(instance, record.dagster_run, names)
    ]


def _is_replay(run: dg.DagsterRun, names: StreamNames) -> bool:
    """Whether a run replays the stream. Its tag is missing if an older version has started it."""
    stream = names.partitions_name
    return run.job_name == names.job("replay") and run.tags.get(STREAM_TAG, stream) == stream


def liveness_of(
    stream: OpenStream,
    instance: dg.DagsterInstance,
    unfinished: Sequence[dg.RunRecord],
    before: Liveness,
    now: float,
) -> Liveness:
    """Determine which unfinished runs are alive. A run in Dagster's queue counts as alive."""
    runs = [record.dagster_run for record in unfinished]
    launched = [run for run in runs if run.status is not dg.DagsterRunStatus.QUEUED]
    beats: Mapping[str, str] = {}
    if any(run.status in HAVE_A_PROCESS for run in launched):
        try:
            beats = heartbeats(stream.table)
        except (OSError, TableError) as error:
            _log.warning(_NOT_OBSERVED, stream.name, error)
            return before
    seen: dict[str, RunObservation] = {}
    for run in launched:
        beat, sign = beats.get(run.run_id), before.signs.get(run.run_id)
        if run.status not in HAVE_A_PROCESS:
            seen[run.run_id] = RunObservation(run.status.value, None, SECONDS_TO_START)
        elif beat is not None or (sign is not None and sign.beat is not None):
            seen[run.run_id] = RunObservation(run.status.value, beat, SECONDS_SILENT)
        else:
            seen[run.run_id] = _without_heartbeat(stream, instance, run)
    liveness = before.after(seen, now)
    for run_id in sorted(liveness.dead - before.dead):
        _log.warning(DEAD, run_id)
    return liveness


def _without_heartbeat(
    stream: OpenStream, instance: dg.DagsterInstance, run: dg.DagsterRun
) -> RunObservation:
    """Return the observation of a run that never had a heartbeat: how far its step is."""
    status, names = run.status.value, stream.names
    # Of the step that commits; None before it starts.
    is_replay = run.job_name == names.job("replay")
    step_key = op_key(run.job_name) if is_replay else names.raw_step
    step = last_step_events(instance, run.run_id).get(step_key)
    if step in STEP_ENDED:
        return RunObservation(status, ENDED, SECONDS_SILENT)
    if step in STEP_PLANS:
        return RunObservation(f"{status} {step.value}", None, SECONDS_TO_PLAN)
    # The step may start late, after other steps of the run, and lasts at most as long as it can commit.
    timeout = MAX_ATTEMPT_AGE.total_seconds() + (_duration(run) or 0.0) + stream.handover
    return RunObservation(status, None, timeout)


def _duration(run: dg.DagsterRun) -> float | None:
    """Return the seconds of a continuous run; None for any other one, and for one whose tag is invalid."""
    try:
        return continuous_run_seconds(run.tags)
    except InvalidInput:
        return None  # the run fails with this error


def last_step_events(instance: dg.DagsterInstance, run_id: str) -> dict[str | None, dg.DagsterEventType]:
    """Return the type of the last event of a run that shows how far a step is, by step key."""
    records = instance.get_records_for_run(run_id, of_type=_STEP_EVENTS, ascending=True).records
    events = (record.event_log_entry.get_dagster_event() for record in records)
    return {event.step_key: event.event_type for event in events}


def shards_of(
    stream: OpenStream, records: Iterable[dg.RunRecord], keys: Sequence[str], now: float
) -> set[str]:
    """Return the shards of unfinished runs, without runs that end as soon as the next one takes over."""
    return {
        shard_id
        for record in records
        if record.dagster_run.job_name != stream.names.job("replay")  # a replay moves no position
        and not _hands_over(record, stream.handover, now)
        for shard_id in tagged_partitions(record.dagster_run.tags, keys)
    }


def is_derived_in_a_run(
    stream: OpenStream,
    records: Iterable[dg.RunRecord],
    keys: Sequence[str],
    now: float,
    *,
    derived: Collection[dg.AssetKey],
    finished: Collection[str],
) -> bool:
    """Return whether a continuous run includes derived tables and will go on for longer than the next tick.

    Args:
        records: The unfinished runs that are alive.
        keys: The newest partitions in Dagster's order.
        finished: The finished shards. A run ends when all of its shards are finished.
    """
    return any(
        FOLLOW_TAG in record.dagster_run.tags
        and set(derived).issubset(record.dagster_run.asset_selection or ())
        and not _hands_over(record, stream.handover, now)
        and not set(tagged_partitions(record.dagster_run.tags, keys)).issubset(finished)
        for record in records
    )


def _hands_over(record: dg.RunRecord, handover: float, now: float) -> bool:
    """Whether a continuous run is in its last seconds, in which the next one may take over."""
    seconds, start = _duration(record.dagster_run), record.start_time
    return seconds is not None and start is not None and now - start >= seconds - handover


def ended_runs(
    instance: dg.DagsterInstance, names: StreamNames, keys: Sequence[str], before: ShardBackoff, now: float
) -> Iterator[EndedRun]:
    """Yield the runs of the raw asset that succeeded or failed and are not yet counted.

    Canceled runs are left out: they do not show whether their shards fail. The newest run of other assets is
    yielded without shards, so that the next tick reads only what has ended since.
    """
    since = before.since(now)
    ended = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE],
        updated_after=datetime.fromtimestamp(since, UTC),
    )
    other: EndedRun | None = None
    for record in instance.get_run_records(ended):
        run, at = record.dagster_run, record.update_timestamp.timestamp()
        # A run whose tags were changed later was counted when it ended.
        if run.run_id in before.counted or (record.end_time is not None and record.end_time < since):
            continue
        if not materializes_raw(instance, run, names):
            ended_at = min(at, now)  # a machine's clock may be ahead
            other = EndedRun(run.run_id, ended_at) if other is None or other.ended < ended_at else other
            continue
        range_ = tagged_partitions(run.tags, keys)
        # The events are read only for a failed run.
        done = range_ if run.is_success else _materialized_by(instance, names, record, range_)
        failed = [shard_id for shard_id in range_ if shard_id not in done]
        yield EndedRun(run.run_id, at, failed, done)
    if other is not None:
        yield other


def _materialized_by(
    instance: dg.DagsterInstance, names: StreamNames, run: dg.RunRecord, shard_ids: Collection[str]
) -> set[str]:
    """Return the shards that were materialized since a run started, by any run, and have not failed since.

    A continuous run may have a hundred thousand events, so they are not all read.
    """
    run_id = run.dagster_run.run_id
    start = run.start_time or run.create_timestamp.timestamp()
    failed = _failures(instance, names, start)
    materialized = [
        stored
        for shard_id, stored in _latest(instance, names, Event.ASSET_MATERIALIZATION, shard_ids).items()
        if shard_id not in failed or failed[shard_id].storage_id < stored
    ]
    return {
        str(record.partition_key)
        for record in _materializations(instance, names, materialized)
        if record.run_id == run_id or record.timestamp >= start
    }


def recovered_shards(
    instance: dg.DagsterInstance, names: StreamNames, failing: Collection[str], run_ids: Collection[str]
) -> set[str]:
    """Return the failing shards whose last event is a materialization by one of some unfinished runs.

    A continuous run goes on for long after it has committed the rows of a shard.
    """
    if not run_ids:
        return set()
    materialized, observed = (
        _latest(instance, names, event, failing)
        for event in (Event.ASSET_MATERIALIZATION, Event.ASSET_OBSERVATION)
    )
    last = [stored for shard_id, stored in materialized.items() if stored > observed.get(shard_id, 0)]
    records = _materializations(instance, names, last)
    return {str(record.partition_key) for record in records if record.run_id in run_ids}


def _latest(
    instance: dg.DagsterInstance, names: StreamNames, event: Event, shard_ids: Collection[str]
) -> Mapping[str, int]:
    """Return the storage id of the latest event of each shard that has one. Without shards, none is read."""
    if not shard_ids:
        return {}
    return instance.get_latest_storage_id_by_partition(names.raw_key, event, {*shard_ids})


def _materializations(
    instance: dg.DagsterInstance, names: StreamNames, storage_ids: Sequence[int]
) -> Sequence[dg.EventLogRecord]:
    if not storage_ids:
        return []
    wanted = dg.AssetRecordsFilter(names.raw_key, storage_ids=storage_ids)
    return instance.fetch_materializations(wanted, limit=len(storage_ids)).records


_MAX_OBSERVATIONS = 1000
"""The maximum number of observations that a tick reads, newest first."""


def failing_in_runs(
    instance: dg.DagsterInstance, names: StreamNames, unfinished: Iterable[dg.RunRecord]
) -> dict[str, str]:
    """Return the shards that fail in continuous runs, and the id of the run.

    Such a run goes on for long after it has reported a failure. It materializes the shard once it can read it
    again. Until then, a tick must not report that the shard is well.
    """
    started = {
        record.dagster_run.run_id: record.create_timestamp.timestamp()
        for record in unfinished
        if FOLLOW_TAG in record.dagster_run.tags
    }
    if not started:
        return {}
    failed = _failures(instance, names, min(started.values()), started)
    materialized = _latest(instance, names, Event.ASSET_MATERIALIZATION, failed)
    return {
        shard_id: record.run_id
        for shard_id, record in failed.items()
        if record.storage_id > materialized.get(shard_id, 0)
    }


def _failures(
    instance: dg.DagsterInstance, names: StreamNames, since: float, run_ids: Collection[str] | None = None
) -> dict[str, dg.EventLogRecord]:
    """Return the newest failure that runs have reported of each shard, by shard id.

    Args:
        since: When the first of the runs started, in seconds since the epoch.
        run_ids: The ids of the runs; None for all.
    """
    failed: dict[str, dg.EventLogRecord] = {}
    wanted = dg.AssetRecordsFilter(names.raw_key, after_timestamp=since - OVERLAP)
    for record in instance.fetch_observations(wanted, _MAX_OBSERVATIONS).records:
        event = record.asset_observation
        is_of_run = run_ids is None or record.run_id in run_ids
        if is_of_run and event is not None and is_failure(event):
            failed.setdefault(str(event.partition), record)
    return failed


def materializes_raw(instance: dg.DagsterInstance, run: dg.DagsterRun, names: StreamNames) -> bool:
    """Whether a run materializes the raw asset."""
    return names.raw_key in assets_of_run(instance, run)


def assets_of_run(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Collection[dg.AssetKey]:
    """Return the assets of a run. Without an asset selection it materializes all of its job."""
    if run.asset_selection:  # that of a job's subset, as commands execute it, is empty
        return run.asset_selection
    if run.execution_plan_snapshot_id is None:
        return ()  # the run executes nothing
    return instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id).asset_selection


SECONDS_SILENT = 10 * INTERVAL
"""A run that has written a heartbeat is dead after this time, ten intervals, without another one."""

SECONDS_TO_START = 1800.0
"""A launched run is dead if it has not started after this time."""

SECONDS_TO_PLAN = 1800.0
"""A run whose step has started is dead after this time without a heartbeat. The first follows the plan."""

_MAX_FRACTION_PER_TICK = 1 / 5
"""The maximum fraction of these times that counts between two ticks."""


@dataclass(frozen=True, slots=True)
class RunObservation:
    """The state of an unfinished run at a tick.

    Attributes:
        beat: Its last heartbeat; `ENDED` if that marked the end; None if there is none.
        timeout: Seconds in this status after which a run without a heartbeat is dead.
    """

    status: str
    beat: str | None
    timeout: float


class SignOfLife(msgspec.Struct, frozen=True, array_like=True):
    """The last sign of life of a run.

    Attributes:
        beat: The last heartbeat that was observed; None if there was none.
        since: When a tick first observed both, in seconds since the epoch, moved on by the time that does
            not count.
        is_dead: Whether the run has shown no other sign for too long.
    """

    status: str
    beat: str | None
    since: float
    is_dead: bool = False

    def after(self, seen: RunObservation, at: float, now: float) -> SignOfLife:
        """Return the sign after a later tick.

        Args:
            at: The time of the previous tick, in seconds since the epoch.
        """
        beat = seen.beat or self._beat_without_object()
        if seen.status != self.status or beat != self.beat or now < self.since:
            return SignOfLife(seen.status, beat, now)
        if beat == ENDED:
            return self
        timeout = seen.timeout if beat is None else SECONDS_SILENT
        since = self.since + max(0.0, now - at - timeout * _MAX_FRACTION_PER_TICK)
        return SignOfLife(self.status, beat, since, self.is_dead or now - since >= timeout)

    def _beat_without_object(self) -> str | None:
        """Return the heartbeat of a run whose heartbeat object does not exist, or no longer.

        The object is deleted an hour after the run ended, and by maintenance a day after the run died.
        """
        return self.beat if self.beat is None or self.is_dead else ENDED


class Liveness(msgspec.Struct, frozen=True, omit_defaults=True):
    """The sensor's memory of the unfinished runs.

    Attributes:
        at: The time of the last tick, in seconds since the epoch; None if it observed no run.
    """

    signs: dict[str, SignOfLife] = {}
    at: float | None = None

    @property
    def dead(self) -> frozenset[str]:
        """The ids of the runs that show no sign of life."""
        return frozenset(run_id for run_id, sign in self.signs.items() if sign.is_dead)

    @property
    def ended(self) -> frozenset[str]:
        """The ids of the runs that commit nothing more: dead ones, and those whose heartbeat has ended."""
        return self.dead | {run_id for run_id, sign in self.signs.items() if sign.beat == ENDED}

    def after(self, runs: Mapping[str, RunObservation], now: float, unseen: Collection[str] = ()) -> Liveness:
        """Return the state after a later tick. Runs that are neither observed nor unseen are forgotten.

        Args:
            unseen: The ids of the runs that could not be observed. For them, the time since the last tick
                does not count.
        """
        at = now if self.at is None else self.at
        signs = {
            run_id: msgspec.structs.replace(sign, since=sign.since + max(0.0, now - at))
            for run_id, sign in self.signs.items()
            if run_id in unseen
        }
        for run_id, seen in runs.items():
            sign = self.signs.get(run_id)
            signs[run_id] = (
                SignOfLife(seen.status, seen.beat, now) if sign is None else sign.after(seen, at, now)
            )
        return Liveness(signs, now if signs else None)


WAITS = retry.Backoff(first=30.0, longest=900.0)
"""The wait after consecutive failed runs of a shard."""

OVERLAP = 300.0
"""Seconds for which ended runs are read again, because the clocks of the machines that record them differ."""


class Failing(msgspec.Struct, frozen=True, array_like=True):
    """The failures of a shard, or of a derived table.

    Attributes:
        runs: The number of consecutive failed runs; 0 for a shard that failed in a run before its end.
        until: The time before which it is not requested, in seconds since the epoch.
        run_id: The id of the last failed run.
        reason: Why a derived table failed in that run; empty if it is unknown.
        tip_time: The shard's `ShardPosition.tip_time` when the last failure was counted, in seconds since the
            epoch; 0 if it had none; None if that is unknown.
    """

    runs: int
    until: float
    run_id: str
    reason: str = ""
    tip_time: float | None = None

    @property
    def sentence(self) -> str:
        """That the last run failed, and why."""
        if not self.runs:
            return f"it failed in run {self.run_id}"
        reason = f": {self.reason}" if self.reason else ""
        return f"its last run failed{reason}{'. See' if reason else ', see'} run {self.run_id}"


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that succeeded or failed.

    Attributes:
        ended: When the end was recorded, in seconds since the epoch.
        failed: The shards that the run was requested for and did not materialize.
        materialized: The shards that it materialized.
    """

    run_id: str
    ended: float
    failed: Collection[str] = field(default=())
    materialized: Collection[str] = field(default=())


def _tip_time(shard: ShardPosition | None) -> float | None:
    """Return what `Failing.tip_time` is of a shard."""
    if shard is None:
        return None
    return 0.0 if shard.tip_time is None else shard.tip_time.timestamp()


class ShardBackoff(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of the back-off from tick to tick.

    Attributes:
        shards: The failures by shard id, without the shards whose last run materialized them. A shard that
            fails in a run that goes on is one of them, and does not wait.
        newest: The latest end of a counted run, in seconds since the epoch; None before the first.
        counted: The end of each run that ended within `OVERLAP` before that, by run id.
    """

    shards: dict[str, Failing] = {}
    newest: float | None = None
    counted: dict[str, float] = {}

    def since(self, now: float) -> float:
        """Return the time after which runs may have ended uncounted. Times are in seconds since the epoch."""
        return (now if self.newest is None else self.newest) - OVERLAP

    def after(
        self,
        runs: Iterable[EndedRun],
        now: float,
        positions: Mapping[str, ShardPosition] = MappingProxyType({}),
    ) -> ShardBackoff:
        """Return the state with some runs counted, each only once. Their waits start now."""
        shards, counted = dict(self.shards), dict(self.counted)
        for run in sorted(runs, key=lambda run: run.ended):
            if run.run_id in counted:
                continue
            counted[run.run_id] = run.ended
            for shard_id in run.materialized:
                shards.pop(shard_id, None)
            for shard_id in run.failed:
                known = shards.get(shard_id)
                failures = 1 if known is None else known.runs + 1
                until, tip_time = now + WAITS.wait(failures), _tip_time(positions.get(shard_id))
                if known is not None and known.run_id == run.run_id:  # the next run may have read it since
                    tip_time = known.tip_time
                shards[shard_id] = Failing(failures, until, run.run_id, tip_time=tip_time)
        newest = max([*counted.values(), *([] if self.newest is None else [self.newest])], default=None)
        if newest is not None:
            counted = {run_id: ended for run_id, ended in counted.items() if ended > newest - OVERLAP}
        return ShardBackoff(shards, newest, counted)

    def with_failing(
        self, run_ids: Mapping[str, str], positions: Mapping[str, ShardPosition]
    ) -> ShardBackoff:
        """Return the state with the shards that fail in runs that go on, with the id of the run."""
        found = {
            shard_id: Failing(0, 0.0, run_id, tip_time=_tip_time(positions.get(shard_id)))
            for shard_id, run_id in run_ids.items()
        }
        return msgspec.structs.replace(self, shards={**found, **self.shards})

    def read_since(self, positions: Mapping[str, ShardPosition]) -> set[str]:
        """Return the shards that were read to their tip after their failures were counted.

        A continuous run reports no event of a shard that has no new records.
        """
        return {
            shard_id
            for shard_id, failing in self.shards.items()
            if failing.tip_time is not None
            and (shard := positions.get(shard_id)) is not None
            and (_tip_time(shard) or 0.0) > failing.tip_time
            and not is_behind(shard)
        }

    def of(self, shard_ids: Collection[str]) -> ShardBackoff:
        """Return the state of the given shards only."""
        kept = {shard_id: failing for shard_id, failing in self.shards.items() if shard_id in shard_ids}
        return msgspec.structs.replace(self, shards=kept)

    @property
    def reasons(self) -> dict[str, str]:
        """The shards whose last run failed, with a sentence about it."""
        return {shard_id: f"{shard_id}: {failing.sentence}" for shard_id, failing in self.shards.items()}

    def waiting(self, now: float) -> dict[str, Failing]:
        """Return the failures of the shards that must not be requested yet."""
        return {shard_id: failing for shard_id, failing in self.shards.items() if failing.until > now}
