"""The maintenance job of a stream: when it is due, what it does and tells."""

from __future__ import annotations

import dagster as dg
import pytest

from kinesis_assets import build_kinesis_stream
from kinesis_assets.dagster.jobs.maintenance import STEPS, maintenance_name, run_maintenance
from kinesis_assets.dagster.names import raw_key
from kinesis_assets.errors import CommitFailed, InvalidInput
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.commit import freeze
from kinesis_assets.table.upkeep import Upkeep


@pytest.fixture
def made(project, source):
    """The stream and its table, without a row."""
    source.create(1)
    with project.open_stream() as opened:
        listing = opened.client.listing()
        starts = {shard.shard_id: Position(PositionKind.TRIM_HORIZON) for shard in listing.shards}
        freeze(opened.table, listing, starts)
        return opened.table, listing.summary.identity


def schedules_of(**fields):
    definitions = build_kinesis_stream("page-views.v2", table="views", **fields)
    return definitions.get_repository_def().schedule_defs


def test_it_is_due_once_a_day_by_default():
    (schedule,) = schedules_of()
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("17 3 * * *", "UTC")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    assert schedule.job_name == maintenance_name("page-views.v2")


def test_a_schedule_of_ones_own_or_none():
    (schedule,) = schedules_of(maintenance_schedule="0 * * * *")
    assert schedule.cron_schedule == "0 * * * *"
    assert not schedules_of(maintenance_schedule=None)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"maintenance_schedule": "at night"}, "maintenance_schedule 'at night' is not a cron schedule"),
        ({"retention_days": 0}, "retention_days must be at least 1, not 0"),
        ({"retention_days": 36_501}, "retention_days must be at most 36500, not 36501"),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong, told):
    with pytest.raises(InvalidInput, match=told):
        build_kinesis_stream("clicks", table="clicks", **wrong)


def test_what_it_did_is_an_observation_of_the_raw_table(project, stream, instance, made):
    table, identity = made
    steps = list(run_maintenance(project.definitions, stream, instance, dry_run=False))
    assert [step["step"] for step in steps] == ["checkpoint"]
    (record,) = instance.fetch_observations(raw_key(stream), limit=9).records
    assert record.asset_observation.metadata[STEPS].value == steps
    assert table.snapshot().amendment(identity) is None


def test_the_retention_of_the_definitions_is_recorded_with_the_run(make_project, stream, instance, made):
    table, identity = made
    project = make_project(retention_days=30)
    (step, _) = run_maintenance(project.definitions, stream, instance, dry_run=False)
    assert step["step"] == "expire"
    amendment = table.snapshot().amendment(identity)
    (run,) = instance.get_runs()
    assert amendment.by == run.run_id
    assert step["of"] == f"before {amendment.floor}"


def test_before_the_first_run_there_is_nothing_to_do_and_it_succeeds(project, stream, instance, source):
    source.create(1)
    assert list(run_maintenance(project.definitions, stream, instance, dry_run=False)) == []
    (run,) = instance.get_runs()
    assert run.status is dg.DagsterRunStatus.SUCCESS


@pytest.mark.usefixtures("made")
def test_what_was_done_before_a_failure_is_told(make_project, stream, instance, monkeypatch):
    def fails(upkeep):
        raise CommitFailed("t", f"{type(upkeep).__name__} failed")

    monkeypatch.setattr(Upkeep, "checkpoint", fails)
    steps = run_maintenance(make_project(retention_days=30).definitions, stream, instance, dry_run=False)
    assert next(steps)["step"] == "expire"
    with pytest.raises(CommitFailed, match="Upkeep failed"):
        next(steps)
    (run,) = instance.get_runs()
    assert run.status is dg.DagsterRunStatus.FAILURE
