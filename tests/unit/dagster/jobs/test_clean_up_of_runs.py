"""The job that deletes old runs keeps what is still read of the history."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import dagster as dg
import pytest

from kinesis_assets.dagster.jobs.clean_up import SENSOR_TAG, delete_runs, old_runs
from kinesis_assets.dagster.jobs.maintenance import build_prune_history_job
from kinesis_assets.dagster.stream_names import StreamNames, op_key
from support.daemon import PARTITION, Daemon, Status
from support.shard_ids import A, B

pytestmark = pytest.mark.slow

LATER = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
def deployment(source, daemon) -> Daemon:
    """The daemon of a stream with two shards, which are partitions."""
    source.create(2)
    daemon.tick()
    return daemon


def ended(daemon: Daemon, *events, status: Status = Status.SUCCESS) -> str:
    """Record a run that the sensor requested, with its events, and return its id."""
    run = daemon.run({PARTITION: A, SENSOR_TAG: daemon.project.names.sensor})
    for event in events:
        daemon.report_event(run, event)
    daemon.end(run, status)
    return run.run_id


def of(daemon: Daemon, kind, shard_id: str):
    return kind(daemon.project.names.raw_key, partition=shard_id)


def deletable(daemon: Daemon, *, before: datetime = LATER, most: int = 100) -> list[str]:
    return old_runs(daemon.opened, daemon.instance, before, most, newest=1)


def test_runs_without_events_are_deletable_oldest_first(deployment):
    runs = [ended(deployment, status=status) for status in (Status.SUCCESS, Status.FAILURE, Status.CANCELED)]
    assert deletable(deployment) == runs


def test_no_more_runs_than_allowed_are_deletable(deployment):
    runs = [ended(deployment) for _ in range(3)]
    assert deletable(deployment, most=2) == runs[:2]


def test_newer_and_unfinished_runs_stay(deployment):
    ended(deployment)
    deployment.run({PARTITION: A, SENSOR_TAG: deployment.project.names.sensor})
    assert deletable(deployment, before=datetime.now(UTC) - timedelta(days=1)) == []
    assert len(deletable(deployment)) == 1


def test_runs_that_the_sensor_did_not_request_stay(deployment):
    run = deployment.run({PARTITION: A})
    deployment.end(run, Status.SUCCESS)
    assert deletable(deployment) == []


@pytest.mark.parametrize("kind", [dg.AssetMaterialization, dg.AssetObservation])
def test_the_newest_event_of_each_partition_stays(deployment, kind):
    first = ended(deployment, of(deployment, kind, A), of(deployment, kind, B))
    old = ended(deployment, of(deployment, kind, B))
    ended(deployment, of(deployment, kind, B))
    ended(deployment, of(deployment, dg.AssetMaterialization, B), of(deployment, dg.AssetObservation, B))
    assert first not in deletable(deployment)
    assert old in deletable(deployment)


def test_the_run_of_a_commit_that_a_new_sensor_compares_stays(source, deployment):
    source.put(A, 1)
    run = deployment.run({PARTITION: A, SENSOR_TAG: deployment.project.names.sensor})
    deployment.commit([A], run.run_id)
    deployment.end(run, Status.SUCCESS)
    assert deletable(deployment) == []


def test_the_newest_events_of_the_asset_stay_whatever_their_partitions(deployment):
    totals = ended(deployment, dg.AssetObservation(deployment.project.names.raw_key))
    ended(deployment, of(deployment, dg.AssetObservation, A))
    assert totals in deletable(deployment)
    assert totals not in old_runs(deployment.opened, deployment.instance, LATER, 100, newest=2)


def test_a_deleted_run_takes_its_events_along_and_no_others(deployment, instance):
    instance.report_runless_asset_event(of(deployment, dg.AssetMaterialization, A))
    old = ended(deployment, of(deployment, dg.AssetMaterialization, A))
    kept = ended(deployment, of(deployment, dg.AssetMaterialization, A))

    assert delete_runs(instance, deletable(deployment)) == 1

    assert instance.get_run_by_id(old) is None
    assert instance.get_run_by_id(kept) is not None
    assert len(deployment.materializations()) == 2


def test_deleting_ends_after_some_time(deployment, instance):
    runs = [ended(deployment) for _ in range(3)]
    times = iter((0.0, 0.0, 10.0, 1e6))
    assert delete_runs(instance, runs, lambda: next(times)) == 2
    assert instance.get_run_by_id(runs[2]) is not None


def test_the_job_keeps_the_runs_of_the_last_days(deployment, instance):
    run_id = ended(deployment)
    names = deployment.project.names
    result = build_prune_history_job(names).execute_in_process(
        instance=instance,
        resources={names.io_manager_key: deployment.project.definitions.resources[names.io_manager_key]},
        run_config={"ops": {op_key(names.job("prune_history")): {"config": {"keep_days": 1}}}},
    )
    assert result.success
    assert instance.get_run_by_id(run_id) is not None


def test_runs_of_a_stream_whose_sensor_has_the_same_name_stay(deployment):
    other = StreamNames(deployment.project.stream.replace("-", "."))
    assert (other.sensor, other.raw_key != deployment.project.names.raw_key) == (
        deployment.project.names.sensor,
        True,
    )
    theirs = dg.DagsterRun(
        "job",
        run_id=str(uuid4()),
        tags={PARTITION: A, SENSOR_TAG: other.sensor},
        status=Status.SUCCESS,
        asset_selection=frozenset({other.raw_key}),
    )
    deployment.instance.add_run(theirs)
    ours = ended(deployment)
    assert deletable(deployment) == [ours]
