"""Runs mirror the positions of the table in the lease table of the settings, and succeed if that fails."""

from __future__ import annotations

import pytest

from benchmarks.harness.waiting import wait_until
from support.continuous_runs import ContinuousRuns
from support.daemon import Status
from support.dagster_runs import execute
from support.lease_items import LeaseItems

pytestmark = pytest.mark.usefixtures("spark")

A = "shardId-000000000000"


@pytest.fixture
def leases(moto, monkeypatch):
    """An empty lease table, which the environment leads to."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", moto)
    return LeaseItems(moto)


def warnings(instance, result):
    messages = [entry.user_message for entry in instance.all_logs(result.run_id)]
    return [message for message in messages if "The run goes on" in message]


def test_a_run_mirrors_its_commit_and_warns_if_it_cannot(make_project, source, instance, leases):
    source.create(1)
    source.put(A, 2)
    broken = execute(make_project(lease_table="none"), instance, A)
    assert broken.success
    assert len(warnings(instance, broken)) == 1
    source.put(A, 1)
    project = make_project(lease_table=leases.name)
    mirrored = execute(project, instance, A)
    assert (mirrored.success, warnings(instance, mirrored)) == (True, [])
    with project.open_stream() as opened:
        (shard,) = opened.table.snapshot().positions(opened.client.describe().identity).shards.values()
    assert leases.items[A]["checkpoint"] == shard.position.sequence_number
    (check,) = [each for each in mirrored.get_asset_check_evaluations() if each.check_name == "lease_table"]
    assert (check.passed, check.metadata["lag (s)"].value) == (True, 0)


def test_a_continuous_run_mirrors_its_commits(make_project, source, instance, leases):
    source.create(1)
    source.put(A, 2)
    project = make_project(follow_for=2.0, commit_interval=0.2, lease_table=leases.name)
    join = ContinuousRuns(project, instance).start_continuously(A, seconds=300)
    wait_until(lambda: A in leases.items and leases.items[A]["checkpoint"].isdigit())
    source.split(A)  # the run ends when all its shards are finished
    assert join().status is Status.SUCCESS
    assert leases.items[A]["checkpoint"] == "SHARD_END"
