"""Maintenance deletes the partitions of shards that were finished long ago."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dagster as dg
import msgspec
import pytest

from kinesis_assets.dagster.jobs.clean_up import _is_old, prune_partitions
from kinesis_assets.dagster.jobs.maintenance import run_maintenance
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.errors import ClocksDisagree
from support.daemon import FIRST, LAST, Daemon, Status
from support.shard_ids import A, B, C, D, E, F
from support.stream_names import raw_key

pytestmark = pytest.mark.slow

LONG_AGO = datetime.now(UTC) - timedelta(days=31)


@pytest.fixture
def resharded(source, daemon):
    """A stream whose shard A was finished 31 days ago, and B now, with partitions for all of its shards."""
    source.create(2)
    source.split(A)
    source.split(B)
    daemon.tick()
    daemon.finish(A, at=LONG_AGO)
    daemon.finish(B, at=datetime.now(UTC))
    return daemon


def pruned(daemon, *, dry_run=False):
    return [
        (step.of, str(step.state))
        for step in prune_partitions(daemon.opened, daemon.instance, dry_run=dry_run)
    ]


def test_only_the_partition_of_a_shard_that_was_finished_long_ago_is_deleted(resharded):
    assert pruned(resharded) == [("1 partition", "done")]
    assert resharded.partition_keys() == [B, C, D, E, F]
    assert pruned(resharded) == []


def test_the_sensor_does_not_add_it_again(resharded):
    pruned(resharded)
    assert not resharded.tick().dynamic_partitions_requests


def test_its_events_stay(resharded):
    resharded.instance.report_runless_asset_event(
        dg.AssetMaterialization(raw_key(resharded.project.stream), partition=A)
    )
    pruned(resharded)
    assert len(resharded.materializations()) == 1


def test_a_dry_run_deletes_nothing(resharded):
    assert pruned(resharded, dry_run=True) == [("1 partition", "planned")]
    assert A in resharded.partition_keys()


def test_a_partition_of_an_unfinished_run_stays(resharded):
    run = resharded.run({FIRST: A, LAST: C})
    assert pruned(resharded) == []
    resharded.end(run, Status.CANCELED)
    assert pruned(resharded) == [("1 partition", "done")]


def test_the_partition_of_an_unfinished_shard_stays_although_it_is_no_longer_listed(source, daemon, faults):
    source.create(1)
    daemon.tick()
    daemon.commit([A], None)
    source.split(A)
    faults.answer("ListShards", lambda _, response: response.but(Shards=response.members["Shards"][1:]))
    assert pruned(daemon) == []


def test_a_shard_that_was_read_long_ago_is_not_old_before_it_is_finished(resharded):
    finished = resharded.positions.shards[A]
    unfinished = msgspec.structs.replace(finished, finished=False)
    now, age = datetime.now(UTC), timedelta(days=30)
    assert _is_old(finished, now, age, 24)
    assert not _is_old(unfinished, now, age, 24)


def test_a_partition_that_is_no_shard_stays(resharded):
    resharded.add_partitions("bogus")
    pruned(resharded)
    assert "bogus" in resharded.partition_keys()


def test_a_partition_stays_for_the_retention_of_the_stream(resharded, faults):
    def kept_for_a_year(_, response):
        summary = response.members["StreamDescriptionSummary"]
        return response.but(StreamDescriptionSummary=summary | {"RetentionPeriodHours": 8760})

    faults.answer("DescribeStreamSummary", kept_for_a_year)
    assert pruned(resharded) == []


def test_nothing_is_deleted_by_a_wrong_clock(source, daemon, faults):
    source.create(1)
    source.split(A)
    daemon.tick()
    daemon.finish(A, at=datetime.now(UTC))
    faults.skew_date(40 * 86_400, "DescribeStreamSummary")
    with pytest.raises(ClocksDisagree):
        pruned(daemon)
    assert A in daemon.partition_keys()


def test_all_partitions_are_kept_if_the_setting_says_so(source, make_project, instance):
    source.create(1)
    source.split(A)
    daemon = Daemon(make_project(prune_after=None), instance)
    daemon.tick()
    daemon.finish(A, at=LONG_AGO)
    assert pruned(daemon) == []


def test_the_maintenance_job_reports_it_as_a_step(resharded, stream, instance):
    steps = list(run_maintenance(resharded.project.definitions, StreamNames(stream), instance, dry_run=False))
    assert ("prune", "1 partition", "done") in [(step["step"], step["of"], step["state"]) for step in steps]
