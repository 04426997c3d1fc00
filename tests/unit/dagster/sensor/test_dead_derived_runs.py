"""The sensor ends runs over derived tables whose process died: they send no heartbeats and no events."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.execution.plan.objects import StepFailureData, StepRetryData, StepSuccessData
from dagster_shared.error import SerializableErrorInfo

from kinesis_assets import derived_table
from kinesis_assets.dagster.sensor import derived_runs
from kinesis_assets.dagster.sensor.derived_runs import end_dead_runs
from kinesis_assets.dagster.sensor.sensor_runs import (
    SECONDS_SILENT,
    SECONDS_TO_PLAN,
    SECONDS_TO_START,
    Liveness,
)
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.table.run_files.heartbeat import HEARTBEATS_FOLDER, Heartbeat
from support.daemon import NOON, Status, origin_of
from support.stream_names import raw_key
from support.table_folder import folder_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

FIRST, SECOND, OTHER = dg.AssetKey("first"), dg.AssetKey(["sales", "second"]), dg.AssetKey("other")
STEPS = {FIRST: "first", SECOND: "second"}
HOURS_TO_COMMIT = 8 * 3600
Event = dg.DagsterEventType


class Deployment:
    """The runs over two derived tables, and the ticks that observe them.

    Attributes:
        now: The sensor's clock.
    """

    def __init__(self, definitions: dg.Definitions, instance: dg.DagsterInstance, folder: Path) -> None:
        self.instance = instance
        self.now = NOON
        self._definitions = definitions
        self._tables = {FIRST: str(folder / "first"), SECOND: str(folder / "second")}
        self._liveness = Liveness()
        self._beats = 0

    def run(self, *keys: dg.AssetKey, status: Status = Status.STARTED) -> dg.DagsterRun:
        job = self._definitions.resolve_implicit_global_asset_job_def()
        return self.instance.create_run_for_job(
            job,
            status=status,
            asset_selection=frozenset(keys),
            remote_job_origin=origin_of(job.name),
        )

    def started(self, *keys: dg.AssetKey, beats: bool = True) -> dg.DagsterRun:
        """Return a run whose first step is in progress."""
        run = self.run(*keys)
        self.report(run, Event.STEP_START, keys[0])
        if beats:
            self.beat(run, keys[0])
        return run

    def report(self, run: dg.DagsterRun, event: Event, key: dg.AssetKey) -> None:
        data = {
            Event.ENGINE_EVENT: EngineEventData(),
            Event.STEP_SUCCESS: StepSuccessData(duration_ms=1.0),
            Event.STEP_FAILURE: StepFailureData(error=None, user_failure_data=None),
            Event.STEP_UP_FOR_RETRY: StepRetryData(error=SerializableErrorInfo("killed", [], None)),
        }
        reported = dg.DagsterEvent(
            event.value, run.job_name, step_key=STEPS[key], event_specific_data=data.get(event)
        )
        self.instance.report_dagster_event(reported, run.run_id)

    def beat(self, run: dg.DagsterRun, key: dg.AssetKey) -> None:
        table = DerivedTable(self._tables[key])
        Heartbeat(table, run.run_id, seconds=60)._beat()
        self._beats += 1
        os.utime(folder_of(table) / HEARTBEATS_FOLDER / run.run_id, (self._beats, self._beats))

    def end_beat(self, run: dg.DagsterRun, key: dg.AssetKey) -> None:
        heartbeat = Heartbeat(DerivedTable(self._tables[key]), run.run_id, seconds=60)
        with heartbeat:
            pass
        heartbeat._thread.join()

    def tick(self) -> None:
        self._liveness = end_dead_runs(self.instance, self._tables, self._liveness, self.now)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with five ticks."""
        start = self.now
        for fifths in range(1, 6):
            self.now = start + seconds * fifths / 5
            self.tick()

    def status(self, run: dg.DagsterRun) -> Status:
        found = self.instance.get_run_by_id(run.run_id)
        assert found is not None
        return found.status


@pytest.fixture
def deployment(project, stream, instance, tmp_path) -> Deployment:
    @derived_table(source=stream, table=str(tmp_path / "first"))
    def first(new):
        return new

    @dg.asset(key=OTHER)
    def other() -> None:
        """An asset of the user, which takes any time."""

    @derived_table(source=stream, table=str(tmp_path / "second"))
    def second(new):
        return new

    prefixed = second.with_attributes(asset_key_replacements={second.key: SECOND})
    derived = dg.Definitions(assets=[first, prefixed, other])
    return Deployment(dg.Definitions.merge(project.definitions, derived), instance, tmp_path)


# Runs with a heartbeat


def test_a_run_without_further_heartbeats_is_ended_as_failed(deployment):
    run = deployment.started(FIRST)
    deployment.tick()
    deployment.pass_time(SECONDS_SILENT - 1)
    assert deployment.status(run) is Status.STARTED
    deployment.pass_time(1)
    assert deployment.status(run) is Status.FAILURE


def test_a_run_with_heartbeats_is_not_ended(deployment):
    run = deployment.started(FIRST)
    for _ in range(10):
        deployment.beat(run, FIRST)
        deployment.pass_time(SECONDS_SILENT - 1)
    assert deployment.status(run) is Status.STARTED


def test_a_run_is_alive_while_one_of_its_tables_has_heartbeats(deployment):
    run = deployment.started(FIRST, SECOND)
    deployment.end_beat(run, FIRST)
    deployment.report(run, Event.STEP_SUCCESS, FIRST)
    deployment.report(run, Event.STEP_START, SECOND)
    for _ in range(3):
        deployment.beat(run, SECOND)
        deployment.pass_time(SECONDS_SILENT - 1)
    assert deployment.status(run) is Status.STARTED
    deployment.pass_time(SECONDS_SILENT)
    assert deployment.status(run) is Status.FAILURE


def test_the_reason_is_in_the_event_of_the_failure(deployment):
    run = deployment.started(FIRST)
    deployment.tick()
    deployment.pass_time(SECONDS_SILENT)
    (record,) = deployment.instance.get_records_for_run(run.run_id, of_type=Event.RUN_FAILURE).records
    assert "has died" in record.event_log_entry.get_dagster_event().message


def test_a_run_that_is_being_terminated_is_ended_as_canceled(deployment):
    run = deployment.started(FIRST)
    deployment.instance.report_run_canceling(run)
    deployment.tick()
    deployment.pass_time(SECONDS_SILENT)
    assert deployment.status(run) is Status.CANCELED


def test_one_long_gap_between_two_ticks_is_not_silence(deployment):
    """The machine may have been suspended together with its runs."""
    run = deployment.started(FIRST)
    deployment.tick()
    deployment.now += 7 * 86_400
    deployment.tick()
    assert deployment.status(run) is Status.STARTED


def test_a_clock_that_is_set_back_ends_no_run(deployment):
    run = deployment.started(FIRST)
    deployment.tick()
    deployment.now -= 7 * 86_400
    deployment.pass_time(SECONDS_SILENT - 1)
    assert deployment.status(run) is Status.STARTED


def test_no_run_is_ended_if_heartbeats_cannot_be_listed(deployment, monkeypatch):
    run = deployment.started(FIRST)
    deployment.tick()

    def refuse(_):
        raise OSError("slow down")

    with monkeypatch.context() as patch:
        patch.setattr(derived_runs, "heartbeats", refuse)
        deployment.pass_time(10 * SECONDS_SILENT)
    assert deployment.status(run) is Status.STARTED
    deployment.pass_time(SECONDS_SILENT)
    assert deployment.status(run) is Status.FAILURE


def test_a_table_whose_heartbeats_cannot_be_listed_hides_no_dead_run_of_another(deployment, monkeypatch):
    unreadable, dead = deployment.started(FIRST), deployment.started(SECOND)
    deployment.tick()
    listed = derived_runs.heartbeats

    def refuse_first(table):
        if table.uri.endswith("first"):
            raise OSError("slow down")
        return listed(table)

    with monkeypatch.context() as patch:
        patch.setattr(derived_runs, "heartbeats", refuse_first)
        deployment.pass_time(SECONDS_SILENT)
    assert deployment.status(dead) is Status.FAILURE
    deployment.pass_time(SECONDS_SILENT - 1)
    assert deployment.status(unreadable) is Status.STARTED
    deployment.pass_time(1)
    assert deployment.status(unreadable) is Status.FAILURE


def test_a_run_whose_status_has_changed_since_it_was_observed_is_not_ended(deployment):
    run = deployment.started(FIRST)
    deployment.instance.report_run_canceling(run)
    derived_runs._end(deployment.instance, run)
    assert deployment.status(run) is Status.CANCELING


# Runs without a heartbeat


def test_a_run_whose_step_has_no_heartbeat_is_ended_after_half_an_hour(deployment):
    run = deployment.started(FIRST, beats=False)
    deployment.tick()
    deployment.pass_time(SECONDS_TO_PLAN - 1)
    assert deployment.status(run) is Status.STARTED
    deployment.pass_time(1)
    assert deployment.status(run) is Status.FAILURE


def test_each_event_of_a_run_is_a_sign_of_life(deployment):
    run = deployment.started(FIRST)
    for _ in range(3):
        deployment.report(run, Event.ENGINE_EVENT, FIRST)
        deployment.pass_time(SECONDS_SILENT - 1)
    assert deployment.status(run) is Status.STARTED


@pytest.mark.parametrize("event", [Event.STEP_SUCCESS, Event.STEP_FAILURE], ids=lambda event: event.value)
def test_a_run_whose_steps_have_ended_is_ended_after_half_an_hour(deployment, event):
    """The process that waits for those of the steps was killed."""
    run = deployment.started(FIRST)
    deployment.end_beat(run, FIRST)
    deployment.report(run, event, FIRST)
    deployment.tick()
    deployment.pass_time(SECONDS_TO_PLAN - 1)
    assert deployment.status(run) is Status.STARTED
    deployment.pass_time(1)
    assert deployment.status(run) is Status.FAILURE


def test_a_run_with_a_step_that_waits_is_not_ended_for_hours(deployment):
    run = deployment.started(FIRST, SECOND)
    deployment.end_beat(run, FIRST)
    deployment.report(run, Event.STEP_SUCCESS, FIRST)
    deployment.tick()
    deployment.pass_time(HOURS_TO_COMMIT - 1)
    assert deployment.status(run) is Status.STARTED
    deployment.pass_time(1)
    assert deployment.status(run) is Status.FAILURE


def test_a_run_whose_killed_step_waits_for_its_retry_is_not_ended(deployment):
    run = deployment.started(FIRST)
    deployment.report(run, Event.STEP_UP_FOR_RETRY, FIRST)
    deployment.tick()
    deployment.pass_time(SECONDS_TO_PLAN)
    assert deployment.status(run) is Status.STARTED


@pytest.mark.parametrize("status", [Status.NOT_STARTED, Status.STARTING], ids=lambda status: status.value)
def test_a_run_that_never_starts_is_ended_after_half_an_hour(deployment, status):
    run = deployment.run(FIRST, status=status)
    deployment.tick()
    deployment.pass_time(SECONDS_TO_START - 1)
    assert deployment.status(run) is status
    deployment.pass_time(1)
    assert deployment.status(run) is Status.FAILURE


# Runs that the sensor does not end


def test_a_queued_run_is_not_ended(deployment):
    run = deployment.run(FIRST, status=Status.QUEUED)
    deployment.tick()
    deployment.pass_time(30 * 86_400)
    assert deployment.status(run) is Status.QUEUED


def test_a_run_with_another_asset_is_not_ended(deployment):
    run = deployment.started(FIRST, OTHER)
    deployment.tick()
    deployment.pass_time(30 * 86_400)
    assert deployment.status(run) is Status.STARTED


def test_a_run_with_the_raw_asset_is_not_ended(deployment, stream):
    run = deployment.started(FIRST, raw_key(stream))
    deployment.tick()
    deployment.pass_time(30 * 86_400)
    assert deployment.status(run) is Status.STARTED


def test_a_run_of_a_job_over_other_ops_is_not_ended(deployment):
    @dg.op
    def first() -> None: ...

    @dg.job
    def other() -> None:
        first()

    run = deployment.instance.create_run_for_job(other, status=Status.STARTED)
    deployment.tick()
    deployment.pass_time(30 * 86_400)
    assert deployment.status(run) is Status.STARTED
