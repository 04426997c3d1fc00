"""Runs whose process died on an instance that nobody ends them on: the sensor finds that out by itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.execution.plan.objects import StepFailureData, StepSuccessData

from kinesis_assets.dagster.jobs.replay import replay_name
from kinesis_assets.dagster.names import op_key, raw_key
from kinesis_assets.dagster.run_liveness import SECONDS_SILENT, SECONDS_TO_PLAN, SECONDS_TO_START
from kinesis_assets.dagster.sensor import Cursor
from kinesis_assets.table.heartbeat import HEARTBEATS_FOLDER, Heartbeat
from support.daemon import FIRST, LAST, PARTITION, Daemon, SensorClock, Status

if TYPE_CHECKING:
    from collections.abc import Callable

A, B, C = (f"shardId-{number:012d}" for number in range(3))
Event = dg.DagsterEventType


@pytest.fixture
def ticking(source, daemon: Daemon) -> SensorClock:
    """Of a stream with two shards, which are partitions."""
    source.create(2)
    daemon.tick()
    return SensorClock(daemon)


@pytest.fixture
def beat(daemon: Daemon) -> Callable[[dg.DagsterRun], None]:
    """Writes a heartbeat of a run, another one each time."""
    mtimes = iter(range(1, 1_000))

    def beat(run: dg.DagsterRun) -> None:
        opened = daemon.opened
        table = opened.table
        heartbeat = Heartbeat(table, run.run_id, seconds=60)
        heartbeat._beat()
        seconds = next(mtimes)
        os.utime(Path(opened.settings.table, HEARTBEATS_FOLDER, run.run_id), (seconds, seconds))

    return beat


# Runs that had a heartbeat


def test_the_shards_of_a_run_without_further_heartbeats_are_requested_again(ticking, daemon, beat):
    beat(daemon.run({FIRST: A, LAST: B}))
    assert ticking.ranges_after(0) == []
    assert ticking.ranges_after(SECONDS_SILENT - 1) == []
    assert ticking.ranges_after(1) == [(A, B)]


def test_a_run_keeps_its_shards_as_long_as_it_has_heartbeats(ticking, daemon, beat):
    run = daemon.run({FIRST: A, LAST: B})
    for _ in range(3):
        beat(run)
        assert ticking.ranges_after(SECONDS_SILENT - 1) == []


def test_a_run_that_is_found_to_live_after_all_has_its_shards_again(ticking, daemon, beat):
    run = daemon.run({FIRST: A, LAST: B})
    beat(run)
    ticking.ranges_after(0)
    assert ticking.ranges_after(SECONDS_SILENT) == [(A, B)]
    beat(run)
    assert ticking.ranges_after(0) == []


def test_a_dead_run_stays_dead_when_maintenance_has_deleted_its_heartbeat(ticking, daemon, beat):
    run = daemon.run({FIRST: A, LAST: B})
    beat(run)
    ticking.ranges_after(0)
    ticking.ranges_after(SECONDS_SILENT)
    opened = daemon.opened
    Path(opened.settings.table, HEARTBEATS_FOLDER, run.run_id).unlink()
    assert ticking.ranges_after(0) == [(A, B)]


def test_a_sensor_without_its_cursor_begins_to_count_again(ticking, daemon, beat):
    beat(daemon.run({FIRST: A, LAST: B}))
    ticking.ranges_after(0)
    daemon.cursor = None
    assert ticking.ranges_after(SECONDS_SILENT) == []
    assert ticking.ranges_after(SECONDS_SILENT) == [(A, B)]


@pytest.mark.parametrize("offset", [-7 * 86_400, 7 * 86_400], ids=["behind", "ahead"])
def test_the_clocks_of_the_machines_may_differ(ticking, daemon, beat, offset):
    ticking.now += offset
    run = daemon.run({FIRST: A, LAST: B})
    for _ in range(3):
        beat(run)
        assert ticking.ranges_after(SECONDS_SILENT - 1) == []
    ticking.ranges_after(0)
    assert ticking.ranges_after(SECONDS_SILENT) == [(A, B)]


def test_where_heartbeats_cannot_be_listed_no_run_is_taken_for_dead(ticking, daemon, beat, monkeypatch):
    beat(daemon.run({FIRST: A, LAST: B}))
    ticking.ranges_after(0)

    def refuse(_):
        raise OSError("slow down")

    with monkeypatch.context() as patch:
        patch.setattr("kinesis_assets.dagster.sensor_runs.heartbeats", refuse)
        assert ticking.ranges_after(SECONDS_SILENT) == []
    assert ticking.ranges_after(SECONDS_SILENT) == [(A, B)]


def test_one_long_gap_between_two_ticks_is_no_silence(ticking, daemon, beat):
    """As when the machine was suspended, and its runs with it."""
    beat(daemon.run({FIRST: A, LAST: B}))
    ticking.ranges_after(0)
    assert ticking.ranges_after_pause(7 * 86_400) == []
    assert ticking.ranges_after(SECONDS_SILENT - SECONDS_SILENT / 5 - 1) == []
    assert ticking.ranges_after(1) == [(A, B)]


def test_a_sensor_with_a_long_interval_finds_a_dead_run_after_five_further_ticks(ticking, daemon, beat):
    beat(daemon.run({FIRST: A, LAST: B}))
    assert [ticking.ranges_after_pause(3600) for _ in range(6)] == [[], [], [], [], [], [(A, B)]]


# Runs whose raw asset is done


@pytest.fixture
def end(daemon: Daemon) -> Callable[[dg.DagsterRun], None]:
    """Ends the heartbeat of a run in order."""

    def end(run: dg.DagsterRun) -> None:
        opened = daemon.opened
        heartbeat = Heartbeat(opened.table, run.run_id, seconds=60)
        heartbeat.start()
        heartbeat.end()
        heartbeat._thread.join()

    return end


@pytest.mark.parametrize("was_seen", [True, False], ids=["seen", "never seen"])
def test_a_run_that_goes_on_after_its_raw_asset_frees_its_shards_and_is_not_dead(
    ticking, daemon, beat, end, caplog, was_seen
):
    run = daemon.run({FIRST: A, LAST: B})
    if was_seen:
        beat(run)
        assert ticking.ranges_after(0) == []
    end(run)
    assert ticking.ranges_after(0) == [(A, B)]
    assert ticking.ranges_after(30 * 86_400) == [(A, B)]
    assert Cursor.parse(daemon.cursor).liveness.dead == set()
    assert run.run_id not in caplog.text


def test_the_single_shard_of_a_run_that_goes_on_is_requested_as_a_range(source, daemon, end):
    source.create(1)
    daemon.tick()
    end(daemon.run({PARTITION: A}))
    assert SensorClock(daemon).ranges_after(0) == [(A, A)]


def test_a_heartbeat_that_is_gone_has_ended(ticking, daemon, beat):
    """Markers are deleted after a while; the sensor may have been off meanwhile."""
    run = daemon.run({FIRST: A, LAST: B})
    beat(run)
    assert ticking.ranges_after(0) == []
    opened = daemon.opened
    Path(opened.settings.table, HEARTBEATS_FOLDER, run.run_id).unlink()
    assert ticking.ranges_after(SECONDS_SILENT) == [(A, B)]
    assert Cursor.parse(daemon.cursor).liveness.dead == set()


def test_a_step_that_is_tried_again_has_its_shards_again_and_can_die(ticking, daemon, beat, end):
    run = daemon.run({FIRST: A, LAST: B})
    end(run)
    assert ticking.ranges_after(0) == [(A, B)]
    beat(run)
    assert ticking.ranges_after(0) == []
    assert ticking.ranges_after(SECONDS_SILENT) == [(A, B)]
    assert Cursor.parse(daemon.cursor).liveness.dead == {run.run_id}


def test_what_is_missing_of_a_run_that_goes_on_is_reported(source, ticking, daemon, end):
    source.put(A, 3)
    run = daemon.run({FIRST: A, LAST: B})
    result = daemon.commit([A, B], run.run_id)
    ticking.ranges_after(0)
    assert daemon.materializations() == []
    end(run)
    ticking.ranges_after(0)
    assert [facts["batch_id"] for facts in daemon.materializations()] == [str(result.batch_id)]


# Others


@pytest.mark.parametrize("status", [Status.NOT_STARTED, Status.STARTING], ids=lambda status: status.value)
def test_a_run_that_never_starts_holds_its_shards_for_half_an_hour(ticking, daemon, status):
    daemon.run({FIRST: A, LAST: B}, status)
    assert ticking.ranges_after(0) == []
    assert ticking.ranges_after(SECONDS_TO_START - 1) == []
    assert ticking.ranges_after(1) == [(A, B)]


def test_a_run_in_dagsters_queue_holds_its_shards_for_as_long_as_it_is_there(ticking, daemon):
    daemon.run({FIRST: A, LAST: B}, Status.QUEUED)
    assert ticking.ranges_after(0) == []
    assert ticking.ranges_after(30 * 86_400) == []


# Runs without any heartbeat, by how far their step is

HOURS_TO_COMMIT = 8 * 3600
NO_HEARTBEAT_YET = [Event.STEP_WORKER_STARTING, Event.STEP_START, Event.STEP_RESTARTED]
ENDED_WITHOUT_HEARTBEAT = [Event.STEP_FAILURE, Event.STEP_SUCCESS, Event.STEP_SKIPPED]


@pytest.fixture
def reach(instance: dg.DagsterInstance, stream: str) -> Callable[..., None]:
    """Reports an event of a run's raw step, or of another step."""

    def reach(run: dg.DagsterRun, event: Event, step: str = raw_key(stream).to_python_identifier()) -> None:
        data = {
            Event.STEP_WORKER_STARTING: EngineEventData(),
            Event.STEP_SUCCESS: StepSuccessData(duration_ms=1.0),
            Event.STEP_FAILURE: StepFailureData(error=None, user_failure_data=None),
        }
        reported = dg.DagsterEvent(
            event.value, run.job_name, step_key=step, event_specific_data=data.get(event)
        )
        instance.report_dagster_event(reported, run.run_id)

    return reach


@pytest.mark.parametrize("event", NO_HEARTBEAT_YET, ids=lambda event: event.value)
def test_a_run_that_dies_before_its_first_heartbeat_holds_its_shards_for_half_an_hour(
    ticking, daemon, reach, event
):
    reach(daemon.run({FIRST: A, LAST: B}), event)
    assert ticking.ranges_after(0) == []
    assert ticking.ranges_after(SECONDS_TO_PLAN - 1) == []
    assert ticking.ranges_after(1) == [(A, B)]


def test_a_run_whose_step_begins_late_has_as_long_to_its_first_heartbeat(ticking, daemon, beat, reach):
    """As one that was queued, or has other steps before."""
    run = daemon.run({FIRST: A, LAST: B})
    assert ticking.ranges_after(0) == []
    reach(run, Event.STEP_START, "another_step")
    assert ticking.ranges_after(HOURS_TO_COMMIT - SECONDS_TO_PLAN) == []
    reach(run, Event.STEP_START)
    assert ticking.ranges_after(0) == []
    assert ticking.ranges_after(SECONDS_TO_PLAN - 1) == []
    beat(run)
    assert ticking.ranges_after(0) == []
    assert ticking.ranges_after(SECONDS_SILENT - 1) == []
    assert ticking.ranges_after(1) == [(A, B)]


def test_one_long_gap_between_two_ticks_is_no_long_plan(ticking, daemon, reach):
    reach(daemon.run({FIRST: A, LAST: B}), Event.STEP_START)
    ticking.ranges_after(0)
    assert ticking.ranges_after_pause(7 * 86_400) == []


def test_a_run_whose_step_has_not_begun_holds_its_shards_until_it_could_no_longer_commit(
    ticking, daemon, reach
):
    run = daemon.run({FIRST: A, LAST: B})
    reach(run, Event.STEP_START, "another_step")
    assert ticking.ranges_after(0) == []
    assert ticking.ranges_after(HOURS_TO_COMMIT - 1) == []
    assert ticking.ranges_after(1) == [(A, B)]


def test_a_step_that_waits_to_be_tried_again_is_not_dead(ticking, daemon, reach):
    run = daemon.run({FIRST: A, LAST: B})
    reach(run, Event.STEP_START)
    reach(run, Event.STEP_UP_FOR_RETRY)
    assert ticking.ranges_after(0) == []
    assert ticking.ranges_after(SECONDS_TO_PLAN) == []


@pytest.mark.parametrize("event", ENDED_WITHOUT_HEARTBEAT, ids=lambda event: event.value)
def test_a_run_that_goes_on_after_its_raw_step_ended_without_heartbeat_frees_its_shards(
    ticking, daemon, reach, event
):
    """As where the plan was refused."""
    run = daemon.run({FIRST: A, LAST: B})
    reach(run, Event.STEP_START)
    reach(run, event)
    assert ticking.ranges_after(0) == [(A, B)]
    assert ticking.ranges_after(HOURS_TO_COMMIT) == [(A, B)]
    assert Cursor.parse(daemon.cursor).liveness.dead == set()


# What the sensor does and says then


def test_the_single_shard_of_a_dead_run_is_requested_as_a_range(source, daemon, beat):
    """Dagster's queue may hold a second run of the same `dagster/partition` back until the first one ends."""
    source.create(1)
    daemon.tick()
    ticking = SensorClock(daemon)
    beat(daemon.run({PARTITION: A}))
    ticking.ranges_after(0)
    assert ticking.ranges_after(SECONDS_SILENT) == [(A, A)]


def test_the_log_names_a_dead_run_once_and_what_to_do(ticking, daemon, beat, caplog):
    run = daemon.run({FIRST: A, LAST: B})
    beat(run)
    ticking.ranges_after(0)
    ticking.ranges_after(SECONDS_SILENT)
    ticking.ranges_after(SECONDS_SILENT)
    (message,) = (record.getMessage() for record in caplog.records if run.run_id in record.getMessage())
    assert "Terminate it in the UI" in message


def test_a_tick_without_a_request_names_the_dead_run(ticking, daemon, beat):
    run = daemon.run({FIRST: A, LAST: B})
    beat(run)
    ticking.ranges_after(0)
    ticking.ranges_after(SECONDS_SILENT)
    daemon.run({FIRST: A, LAST: B}, Status.QUEUED)
    message = daemon.tick().skip_reason.skip_message
    assert f"run {run.run_id} shows no sign of life" in message


def test_what_a_dead_run_committed_is_reported_before_it_is_marked_as_ended(source, ticking, daemon, beat):
    source.put(A, 3)
    run = daemon.run({FIRST: A, LAST: B})
    beat(run)
    result = daemon.commit([A, B], run.run_id)
    ticking.ranges_after(0)
    assert daemon.materializations() == []
    ticking.ranges_after(SECONDS_SILENT)
    assert [facts["batch_id"] for facts in daemon.materializations()] == [str(result.batch_id)]
    daemon.end(run, Status.FAILURE)
    ticking.ranges_after(0)
    assert len(daemon.materializations()) == 1


def test_a_replay_makes_no_shard_busy_and_is_found_dead_too(ticking, daemon, instance, beat):
    job = daemon.project.definitions.resolve_job_def(replay_name(daemon.project.stream))
    config = {"ops": {op_key(job.name): {"config": {"start": "TRIM_HORIZON"}}}}
    run = instance.create_run_for_job(job, status=Status.STARTED, run_config=config)
    beat(run)
    assert ticking.ranges_after(0) == [(A, B)]
    ticking.ranges_after(SECONDS_SILENT)
    assert Cursor.parse(daemon.cursor).liveness.dead == {run.run_id}


# Heartbeats of real runs
