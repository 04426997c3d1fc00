"""The sensor notices runs that died: they send no heartbeats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from kinesis_assets.dagster.jobs.operations import build_replay_job
from kinesis_assets.dagster.sensor.sensor_cursor import Cursor
from kinesis_assets.dagster.sensor.sensor_runs import SECONDS_SILENT
from kinesis_assets.dagster.stream_names import StreamNames, op_key
from kinesis_assets.table.run_files.heartbeat import HEARTBEATS_FOLDER, Heartbeat
from support.daemon import FIRST, LAST, PARTITION, Daemon, SensorClock, Status
from support.mentions import assert_mentions
from support.shard_ids import A, B

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow


# Runs with a heartbeat


def test_the_shards_of_a_run_without_further_heartbeats_are_requested_again(sensor_clock, daemon, beat):
    beat(daemon.run({FIRST: A, LAST: B}))
    assert sensor_clock.ranges_after(0) == []
    assert sensor_clock.ranges_after(SECONDS_SILENT - 1) == []
    assert sensor_clock.ranges_after(1) == [(A, B)]


def test_a_run_with_heartbeats_holds_its_shards(sensor_clock, daemon, beat):
    run = daemon.run({FIRST: A, LAST: B})
    for _ in range(3):
        beat(run)
        assert sensor_clock.ranges_after(SECONDS_SILENT - 1) == []


def test_a_run_with_a_late_heartbeat_holds_its_shards_again(sensor_clock, daemon, beat):
    run = daemon.run({FIRST: A, LAST: B})
    beat(run)
    sensor_clock.ranges_after(0)
    assert sensor_clock.ranges_after(SECONDS_SILENT) == [(A, B)]
    beat(run)
    assert sensor_clock.ranges_after(0) == []


def test_a_dead_run_stays_dead_after_its_heartbeat_was_deleted(sensor_clock, daemon, beat):
    run = daemon.run({FIRST: A, LAST: B})
    beat(run)
    sensor_clock.ranges_after(0)
    sensor_clock.ranges_after(SECONDS_SILENT)
    opened = daemon.opened
    Path(opened.settings.table, HEARTBEATS_FOLDER, run.run_id).unlink()
    assert sensor_clock.ranges_after(0) == [(A, B)]


def test_a_sensor_without_its_cursor_starts_counting_again(sensor_clock, daemon, beat):
    beat(daemon.run({FIRST: A, LAST: B}))
    sensor_clock.ranges_after(0)
    daemon.cursor = None
    assert sensor_clock.ranges_after(SECONDS_SILENT) == []
    assert sensor_clock.ranges_after(SECONDS_SILENT) == [(A, B)]


@pytest.mark.parametrize("offset", [-7 * 86_400, 7 * 86_400], ids=["behind", "ahead"])
def test_the_clocks_of_the_machines_may_differ(sensor_clock, daemon, beat, offset):
    sensor_clock.now += offset
    run = daemon.run({FIRST: A, LAST: B})
    for _ in range(3):
        beat(run)
        assert sensor_clock.ranges_after(SECONDS_SILENT - 1) == []
    sensor_clock.ranges_after(0)
    assert sensor_clock.ranges_after(SECONDS_SILENT) == [(A, B)]


def test_no_run_is_dead_if_heartbeats_cannot_be_listed(sensor_clock, daemon, beat, monkeypatch):
    beat(daemon.run({FIRST: A, LAST: B}))
    sensor_clock.ranges_after(0)

    def refuse(_):
        raise OSError("slow down")

    with monkeypatch.context() as patch:
        patch.setattr("kinesis_assets.dagster.sensor.sensor_runs.heartbeats", refuse)
        assert sensor_clock.ranges_after(SECONDS_SILENT) == []
    assert sensor_clock.ranges_after(SECONDS_SILENT) == [(A, B)]


def test_one_long_gap_between_two_ticks_is_not_silence(sensor_clock, daemon, beat):
    """The machine may have been suspended together with its runs."""
    beat(daemon.run({FIRST: A, LAST: B}))
    sensor_clock.ranges_after(0)
    assert sensor_clock.ranges_after_pause(7 * 86_400) == []
    assert sensor_clock.ranges_after(SECONDS_SILENT - SECONDS_SILENT / 5 - 1) == []
    assert sensor_clock.ranges_after(1) == [(A, B)]


def test_a_sensor_with_a_long_interval_detects_a_dead_run_after_five_more_ticks(sensor_clock, daemon, beat):
    beat(daemon.run({FIRST: A, LAST: B}))
    assert [sensor_clock.ranges_after_pause(3600) for _ in range(6)] == [[], [], [], [], [], [(A, B)]]


# Runs that have finished the raw asset


@pytest.fixture
def end(daemon: Daemon) -> Callable[[dg.DagsterRun], None]:
    """Ends the heartbeat of a run."""

    def end(run: dg.DagsterRun) -> None:
        opened = daemon.opened
        heartbeat = Heartbeat(opened.table, run.run_id, seconds=60)
        heartbeat.start()
        heartbeat.end()
        heartbeat._thread.join()

    return end


@pytest.mark.parametrize("was_seen", [True, False], ids=["seen", "never seen"])
def test_a_run_that_has_finished_its_raw_asset_releases_its_shards_and_is_not_dead(
    sensor_clock, daemon, beat, end, caplog, was_seen
):
    run = daemon.run({FIRST: A, LAST: B})
    if was_seen:
        beat(run)
        assert sensor_clock.ranges_after(0) == []
    end(run)
    assert sensor_clock.ranges_after(0) == [(A, B)]
    assert sensor_clock.ranges_after(30 * 86_400) == [(A, B)]
    assert Cursor.parse(daemon.cursor).liveness.dead == set()
    assert run.run_id not in caplog.text


def test_the_single_shard_that_an_active_run_released_is_requested_as_a_range(source, daemon, end):
    source.create(1)
    daemon.tick()
    end(daemon.run({PARTITION: A}))
    assert SensorClock(daemon).ranges_after(0) == [(A, A)]


def test_a_deleted_heartbeat_has_ended(sensor_clock, daemon, beat):
    """Heartbeats are deleted after a while, in which the sensor may have been off."""
    run = daemon.run({FIRST: A, LAST: B})
    beat(run)
    assert sensor_clock.ranges_after(0) == []
    opened = daemon.opened
    Path(opened.settings.table, HEARTBEATS_FOLDER, run.run_id).unlink()
    assert sensor_clock.ranges_after(SECONDS_SILENT) == [(A, B)]
    assert Cursor.parse(daemon.cursor).liveness.dead == set()


def test_a_retried_step_holds_its_shards_again_and_can_die(sensor_clock, daemon, beat, end):
    run = daemon.run({FIRST: A, LAST: B})
    end(run)
    assert sensor_clock.ranges_after(0) == [(A, B)]
    beat(run)
    assert sensor_clock.ranges_after(0) == []
    assert sensor_clock.ranges_after(SECONDS_SILENT) == [(A, B)]
    assert Cursor.parse(daemon.cursor).liveness.dead == {run.run_id}


def test_missing_events_of_an_active_run_are_reported(source, sensor_clock, daemon, end):
    source.put(A, 3)
    run = daemon.run({FIRST: A, LAST: B})
    result = daemon.commit([A, B], run.run_id)
    sensor_clock.ranges_after(0)
    assert daemon.materializations() == []
    end(run)
    sensor_clock.ranges_after(0)
    assert [facts["batch_id"] for facts in daemon.materializations()] == [str(result.batch_id)]


# Requests and logs about dead runs


def test_the_single_shard_of_a_dead_run_is_requested_as_a_range(source, daemon, beat):
    """Dagster's queue may delay a second run with the same `dagster/partition` until the first one ends."""
    source.create(1)
    daemon.tick()
    sensor_clock = SensorClock(daemon)
    beat(daemon.run({PARTITION: A}))
    sensor_clock.ranges_after(0)
    assert sensor_clock.ranges_after(SECONDS_SILENT) == [(A, A)]


def test_a_dead_run_is_logged_once_with_what_to_do(sensor_clock, daemon, beat, caplog):
    run = daemon.run({FIRST: A, LAST: B})
    beat(run)
    sensor_clock.ranges_after(0)
    sensor_clock.ranges_after(SECONDS_SILENT)
    sensor_clock.ranges_after(SECONDS_SILENT)
    (message,) = (record.getMessage() for record in caplog.records if run.run_id in record.getMessage())
    assert "Terminate" in message


def test_the_skip_reason_names_the_dead_run(sensor_clock, daemon, beat):
    run = daemon.run({FIRST: A, LAST: B})
    beat(run)
    sensor_clock.ranges_after(0)
    sensor_clock.ranges_after(SECONDS_SILENT)
    daemon.run({FIRST: A, LAST: B}, Status.QUEUED)
    message = daemon.tick().skip_reason.skip_message
    assert_mentions(message, run.run_id, "sign of life")


def test_commits_of_a_dead_run_are_reported_before_it_is_marked_as_ended(source, sensor_clock, daemon, beat):
    source.put(A, 3)
    run = daemon.run({FIRST: A, LAST: B})
    beat(run)
    result = daemon.commit([A, B], run.run_id)
    sensor_clock.ranges_after(0)
    assert daemon.materializations() == []
    sensor_clock.ranges_after(SECONDS_SILENT)
    assert [facts["batch_id"] for facts in daemon.materializations()] == [str(result.batch_id)]
    daemon.end(run, Status.FAILURE)
    sensor_clock.ranges_after(0)
    assert len(daemon.materializations()) == 1


def test_a_replay_holds_no_shards_and_can_be_dead_too(sensor_clock, daemon, instance, beat):
    job = daemon.project.definitions.resolve_job_def(daemon.project.names.job("replay"))
    config = {"ops": {op_key(job.name): {"config": {"start": "TRIM_HORIZON"}}}}
    run = instance.create_run_for_job(job, status=Status.STARTED, run_config=config)
    beat(run)
    assert sensor_clock.ranges_after(0) == [(A, B)]
    sensor_clock.ranges_after(SECONDS_SILENT)
    assert Cursor.parse(daemon.cursor).liveness.dead == {run.run_id}


def test_a_replay_of_a_stream_whose_jobs_have_the_same_names_is_not_observed(sensor_clock, daemon, instance):
    definitions, names = daemon.project.definitions, daemon.project.names
    others = StreamNames(names.stream.replace("-", "_"))
    assert others.job("replay") == names.job("replay")
    project = dg.Definitions(jobs=[build_replay_job(others)], resources=definitions.resources)
    job = project.resolve_job_def(others.job("replay"))
    config = {"ops": {op_key(job.name): {"config": {"start": "TRIM_HORIZON"}}}}
    instance.create_run_for_job(job, status=Status.STARTED, run_config=config, tags=job.run_tags)
    sensor_clock.ranges_after(0)
    assert Cursor.parse(daemon.cursor).liveness.signs == {}
