"""The maintenance job of a stream: its schedule, its steps and its events."""

from __future__ import annotations

import dagster as dg
import pytest

from kinesis_assets import build_kinesis_stream
from kinesis_assets.dagster.jobs.maintenance import STEPS, maintenance_name, run_maintenance
from kinesis_assets.dagster.names import raw_key
from kinesis_assets.errors import CommitFailed, InvalidInput
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.commit import freeze
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations


@pytest.fixture
def empty_table(project, source):
    """A stream and its table without rows."""
    source.create(1)
    with project.open_stream() as opened:
        listing = opened.client.listing()
        starts = {shard.shard_id: Position(PositionKind.TRIM_HORIZON) for shard in listing.shards}
        freeze(opened.table, listing, starts)
        return opened.table, listing.summary.identity


def schedules_of(**fields):
    definitions = build_kinesis_stream("page-views.v2", table="views", **fields)
    return definitions.get_repository_def().schedule_defs


def test_it_runs_once_a_day_by_default():
    (schedule,) = schedules_of()
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("17 3 * * *", "UTC")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    assert schedule.job_name == maintenance_name("page-views.v2")


def test_the_schedule_can_be_changed_or_disabled():
    (schedule,) = schedules_of(maintenance_schedule="0 * * * *")
    assert schedule.cron_schedule == "0 * * * *"
    assert not schedules_of(maintenance_schedule=None)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"maintenance_schedule": "at night"}, "maintenance_schedule 'at night' is not a cron schedule"),
        ({"retention_days": 0}, "retention_days must be at least 1, not 0"),
        ({"retention_days": 36_501}, "retention_days must be at most 36500, not 36501"),
    ],
)
def test_invalid_settings_are_refused(wrong, message):
    with pytest.raises(InvalidInput, match=message):
        build_kinesis_stream("clicks", table="clicks", **wrong)


def test_its_steps_are_recorded_as_an_observation_of_the_raw_table(project, stream, instance, empty_table):
    table, identity = empty_table
    steps = list(run_maintenance(project.definitions, stream, instance, dry_run=False))
    assert [step["step"] for step in steps] == ["checkpoint"]
    (record,) = instance.fetch_observations(raw_key(stream), limit=9).records
    assert record.asset_observation.metadata[STEPS].value == steps
    assert table.snapshot().amendment(identity) is None


def test_the_retention_is_committed_with_the_run_id(make_project, stream, instance, empty_table):
    table, identity = empty_table
    project = make_project(retention_days=30)
    (step, _) = run_maintenance(project.definitions, stream, instance, dry_run=False)
    assert step["step"] == "expire"
    amendment = table.snapshot().amendment(identity)
    (run,) = instance.get_runs()
    assert amendment.by == run.run_id
    assert step["of"] == f"before {amendment.floor}"


def test_it_succeeds_before_the_first_run(project, stream, instance, source):
    source.create(1)
    assert list(run_maintenance(project.definitions, stream, instance, dry_run=False)) == []
    (run,) = instance.get_runs()
    assert run.status is dg.DagsterRunStatus.SUCCESS


@pytest.mark.usefixtures("empty_table")
def test_steps_before_a_failure_are_recorded(make_project, stream, instance, monkeypatch):
    def fails(operations):
        raise CommitFailed("t", f"{type(operations).__name__} failed")

    monkeypatch.setattr(DeltaOperations, "checkpoint", fails)
    steps = run_maintenance(make_project(retention_days=30).definitions, stream, instance, dry_run=False)
    assert next(steps)["step"] == "expire"
    with pytest.raises(CommitFailed, match="DeltaOperations failed"):
        next(steps)
    (run,) = instance.get_runs()
    assert run.status is dg.DagsterRunStatus.FAILURE
