"""The sensor does not request the shards of unfinished runs."""

from __future__ import annotations

import dagster as dg
import pytest

from kinesis_assets.dagster.dagster_internals import job_without_checks
from kinesis_assets.dagster.stream_project import StreamProject
from support.daemon import FIRST, LAST, PARTITION, Daemon, Status
from support.shard_ids import A, B, C, D, E
from support.stream_names import raw_key, shard_partitions

pytestmark = pytest.mark.slow

UNFINISHED = [
    Status.QUEUED,
    Status.NOT_STARTED,
    Status.STARTING,
    Status.STARTED,
    Status.CANCELING,
]


@pytest.mark.parametrize("status", UNFINISHED, ids=lambda status: status.value)
def test_the_shard_of_an_unfinished_single_run_is_skipped(status, source, daemon):
    source.create(4)
    daemon.tick()
    daemon.run({PARTITION: B}, status)
    assert daemon.requested_ranges() == [(A,), (C, D)]


@pytest.mark.parametrize("status", UNFINISHED, ids=lambda status: status.value)
def test_the_shards_of_an_unfinished_range_run_are_skipped(status, source, daemon):
    source.create(5)
    daemon.tick()
    daemon.run({FIRST: B, LAST: D}, status)
    assert daemon.requested_ranges() == [(A,), (E,)]


def test_the_range_of_an_unfinished_run_counts_in_insertion_order(source, daemon):
    source.create(4)
    daemon.add_partitions(C, A, D, B)
    daemon.run({FIRST: C, LAST: D})
    assert daemon.requested_ranges() == [(B,)]


@pytest.mark.parametrize("status", [Status.SUCCESS, Status.CANCELED], ids=lambda status: status.value)
def test_the_shards_of_a_finished_run_are_requested_again(status, source, daemon):
    source.create(3)
    (request,) = daemon.tick().run_requests
    daemon.run(dict(request.tags), status)
    assert daemon.requested_ranges() == [(A, C)]


def test_a_tick_is_skipped_with_a_reason_if_every_shard_is_in_a_run(source, daemon):
    source.create(3)
    (request,) = daemon.tick().run_requests
    daemon.run(dict(request.tags))

    data = daemon.tick()

    assert not data.run_requests
    assert "unfinished run" in data.skip_reason.skip_message


def test_a_run_of_another_asset_holds_no_shard(source, stream, project, instance):
    source.create(2)

    @dg.asset(partitions_def=shard_partitions(stream))
    def parsed() -> None:
        """A user's asset with the same partitions."""

    both = dg.Definitions.merge(project.definitions, dg.Definitions(assets=[parsed]))
    daemon = Daemon(StreamProject(stream, both), instance)
    daemon.tick()
    instance.create_run_for_job(
        both.resolve_implicit_global_asset_job_def(),
        tags={PARTITION: A},
        status=Status.STARTED,
        asset_selection=frozenset({parsed.key}),
    )

    assert daemon.requested_ranges() == [(A, B)]


def test_a_run_without_an_asset_selection_holds_its_shards(source, daemon, instance):
    source.create(2)
    daemon.tick()
    instance.create_run_for_job(
        daemon.project.definitions.resolve_implicit_global_asset_job_def(),
        tags={PARTITION: A},
        status=Status.STARTED,
    )
    assert daemon.requested_ranges() == [(B,)]


def test_a_users_job_over_other_assets_holds_no_shard(source, daemon, instance):
    source.create(2)
    daemon.tick()

    @dg.op
    def nothing() -> None: ...

    @dg.job
    def other() -> None:
        nothing()

    instance.create_run_for_job(other, tags={PARTITION: A}, status=Status.STARTED)
    assert daemon.requested_ranges() == [(A, B)]


def test_a_users_job_over_the_raw_asset_holds_its_shards(source, stream, project, instance):
    source.create(2)
    job = dg.define_asset_job("mine", selection=[raw_key(stream)])
    both = dg.Definitions.merge(project.definitions, dg.Definitions(jobs=[job]))
    daemon = Daemon(StreamProject(stream, both), instance)
    daemon.tick()
    instance.create_run_for_job(both.resolve_job_def("mine"), tags={PARTITION: A}, status=Status.STARTED)
    assert daemon.requested_ranges() == [(B,)]


@pytest.mark.slow
def test_streams_do_not_see_each_others_runs_and_partitions(source, make_project, instance, tmp_path):
    other = source.sibling()
    source.create(3)
    other.create(3)
    projects = make_project(), make_project(stream=other.name, table=str(tmp_path / "other"))
    both = dg.Definitions.merge(*(project.definitions for project in projects))
    ours, theirs = (Daemon(StreamProject(name, both), instance) for name in (source.name, other.name))

    theirs.tick()
    assert ours.partition_keys() == []
    theirs.run({FIRST: A, LAST: B})
    other.split(C)
    theirs.finish(C)

    assert ours.requested_ranges() == [(A, C)]
    assert theirs.requested_ranges() == [(D, E)]


def test_the_run_of_a_command_holds_its_shards(source, daemon):
    source.create(2)
    daemon.tick()
    key = raw_key(source.name)
    job = job_without_checks(daemon.project.definitions.resolve_implicit_global_asset_job_def(), [key])
    daemon.instance.create_run_for_job(
        job, tags={PARTITION: A}, status=Status.STARTED, asset_selection=frozenset()
    )
    assert daemon.requested_ranges() == [(B,)]
