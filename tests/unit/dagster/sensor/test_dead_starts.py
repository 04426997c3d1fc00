"""The sensor notices runs that died before their first heartbeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.execution.plan.objects import StepFailureData, StepSuccessData

from kinesis_assets.dagster.sensor.sensor_cursor import Cursor
from kinesis_assets.dagster.sensor.sensor_runs import SECONDS_SILENT, SECONDS_TO_PLAN, SECONDS_TO_START
from support.daemon import FIRST, LAST, Status
from support.shard_ids import A, B
from support.stream_names import raw_key

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

Event = dg.DagsterEventType


# Runs that have not started


@pytest.mark.parametrize("status", [Status.NOT_STARTED, Status.STARTING], ids=lambda status: status.value)
def test_a_run_that_never_starts_holds_its_shards_for_half_an_hour(sensor_clock, daemon, status):
    daemon.run({FIRST: A, LAST: B}, status)
    assert sensor_clock.ranges_after(0) == []
    assert sensor_clock.ranges_after(SECONDS_TO_START - 1) == []
    assert sensor_clock.ranges_after(1) == [(A, B)]


def test_a_queued_run_holds_its_shards(sensor_clock, daemon):
    daemon.run({FIRST: A, LAST: B}, Status.QUEUED)
    assert sensor_clock.ranges_after(0) == []
    assert sensor_clock.ranges_after(30 * 86_400) == []


# Runs without a heartbeat, by the state of their step

HOURS_TO_COMMIT = 8 * 3600
NO_HEARTBEAT_YET = [Event.STEP_WORKER_STARTING, Event.STEP_START, Event.STEP_RESTARTED]
ENDED_WITHOUT_HEARTBEAT = [Event.STEP_FAILURE, Event.STEP_SUCCESS, Event.STEP_SKIPPED]


@pytest.fixture
def reach(instance: dg.DagsterInstance, stream: str) -> Callable[..., None]:
    """Records an event of a run's raw step, or of another step."""

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
    sensor_clock, daemon, reach, event
):
    reach(daemon.run({FIRST: A, LAST: B}), event)
    assert sensor_clock.ranges_after(0) == []
    assert sensor_clock.ranges_after(SECONDS_TO_PLAN - 1) == []
    assert sensor_clock.ranges_after(1) == [(A, B)]


def test_the_time_until_the_first_heartbeat_starts_with_the_step(sensor_clock, daemon, beat, reach):
    """The run may have been queued, or may have other steps before."""
    run = daemon.run({FIRST: A, LAST: B})
    assert sensor_clock.ranges_after(0) == []
    reach(run, Event.STEP_START, "another_step")
    assert sensor_clock.ranges_after(HOURS_TO_COMMIT - SECONDS_TO_PLAN) == []
    reach(run, Event.STEP_START)
    assert sensor_clock.ranges_after(0) == []
    assert sensor_clock.ranges_after(SECONDS_TO_PLAN - 1) == []
    beat(run)
    assert sensor_clock.ranges_after(0) == []
    assert sensor_clock.ranges_after(SECONDS_SILENT - 1) == []
    assert sensor_clock.ranges_after(1) == [(A, B)]


def test_one_long_gap_between_two_ticks_is_not_a_long_plan(sensor_clock, daemon, reach):
    reach(daemon.run({FIRST: A, LAST: B}), Event.STEP_START)
    sensor_clock.ranges_after(0)
    assert sensor_clock.ranges_after_pause(7 * 86_400) == []


def test_a_run_without_a_started_step_holds_its_shards_until_it_could_not_commit_any_more(
    sensor_clock, daemon, reach
):
    run = daemon.run({FIRST: A, LAST: B})
    reach(run, Event.STEP_START, "another_step")
    assert sensor_clock.ranges_after(0) == []
    assert sensor_clock.ranges_after(HOURS_TO_COMMIT - 1) == []
    assert sensor_clock.ranges_after(1) == [(A, B)]


def test_a_step_that_waits_for_its_retry_is_not_dead(sensor_clock, daemon, reach):
    run = daemon.run({FIRST: A, LAST: B})
    reach(run, Event.STEP_START)
    reach(run, Event.STEP_UP_FOR_RETRY)
    assert sensor_clock.ranges_after(0) == []
    assert sensor_clock.ranges_after(SECONDS_TO_PLAN) == []


@pytest.mark.parametrize("event", ENDED_WITHOUT_HEARTBEAT, ids=lambda event: event.value)
def test_a_run_whose_raw_step_ended_without_heartbeat_releases_its_shards(sensor_clock, daemon, reach, event):
    """Its plan may have been refused."""
    run = daemon.run({FIRST: A, LAST: B})
    reach(run, Event.STEP_START)
    reach(run, event)
    assert sensor_clock.ranges_after(0) == [(A, B)]
    assert sensor_clock.ranges_after(HOURS_TO_COMMIT) == [(A, B)]
    assert Cursor.parse(daemon.cursor).liveness.dead == set()
