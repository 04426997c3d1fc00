"""A run that the sensor requests reports only the shards with news."""

from __future__ import annotations

import pytest

from kinesis_assets.dagster.partition_ranges import range_tags, reporting_news
from kinesis_assets.testing import Clock
from support.dagster_runs import partition_statuses
from support.shard_ids import A, B, C, D, E, F
from support.stream_names import raw_key

pytestmark = pytest.mark.usefixtures("spark")


def requested(daemon, instance):
    """Execute the runs that a tick requests, and return the reported rows by shard for each."""
    return [run(daemon, instance, request.tags) for request in daemon.tick().run_requests]


def run(daemon, instance, tags):
    return {facts["shard"]: facts["rows"] for facts in daemon.project.run(instance, tags)}


def reported(instance, source):
    """Return the shard of each event, sorted; empty for the events of the stream as a whole."""
    materialized = instance.fetch_materializations(raw_key(source.name), limit=100).records
    observed = instance.fetch_observations(raw_key(source.name), limit=100).records
    return sorted(record.partition_key or "" for record in [*materialized, *observed])


@pytest.fixture
def idle(source, daemon, instance):
    """The daemon of a stream with four empty shards, which were read once."""
    source.create(4)
    assert requested(daemon, instance) == [{A: 0, B: 0, C: 0, D: 0}]
    return daemon


def test_a_shard_that_is_read_for_the_first_time_is_reported(idle, instance):
    assert partition_statuses(idle.project, instance) == dict.fromkeys((A, B, C, D), "MATERIALIZED")


def test_only_shards_with_records_are_reported(source, idle, instance):
    source.put(A, 3)
    source.put(C, 2)
    assert requested(idle, instance) == [{A: 3, C: 2}]
    assert reported(instance, source) == ["", "", A, A, B, C, C, D]


def test_a_run_that_finds_nothing_reports_and_commits_nothing(source, idle, instance):
    before, version = reported(instance, source), idle.opened.table.snapshot().version
    assert run(idle, instance, reporting_news(range_tags((A, B, C, D)))) == {}
    assert reported(instance, source) == before
    assert idle.opened.table.snapshot().version == version
    assert partition_statuses(idle.project, instance) == dict.fromkeys((A, B, C, D), "MATERIALIZED")


def test_the_sensor_does_not_report_what_a_run_left_out(source, idle, instance):
    source.put(A, 3)
    source.put(C, 2)
    requested(idle, instance)
    tick = idle.tick()
    assert not tick.run_requests
    assert not tick.asset_events


def test_the_end_of_a_shard_is_reported_once(source, idle, instance):
    source.split(B)
    (events,) = requested(idle, instance)
    assert events == {B: 0}
    (events,) = requested(idle, instance)
    assert events == {E: 0, F: 0}
    assert run(idle, instance, reporting_news(range_tags((A, B, C)))) == {}


def test_a_run_of_which_a_shard_fails_reports_each_of_its_shards(source, idle, instance, faults):
    source.put(A, 1)
    source.put(C, 1)
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=C)
    assert run(idle, instance, reporting_news(range_tags((A, B, C)))) == {A: 1, B: 0, C: 0}
    assert partition_statuses(idle.project, instance) == {
        A: "MATERIALIZED",
        B: "MATERIALIZED",
        C: "FAILED",
        D: "MATERIALIZED",
    }


def test_an_idle_shard_that_failed_is_requested_and_reported_when_it_can_be_read_again(
    idle, instance, faults
):
    idle.clock = Clock()
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=C)
    run(idle, instance, reporting_news(range_tags((C,))))
    assert partition_statuses(idle.project, instance)[C] == "FAILED"
    assert requested(idle, instance) == []
    faults.clear()
    idle.clock.advance(30)

    assert requested(idle, instance) == [{C: 0}]

    assert partition_statuses(idle.project, instance)[C] == "MATERIALIZED"
    assert requested(idle, instance) == []


def test_any_other_run_reports_each_of_its_shards(source, idle, instance):
    source.put(A, 1)
    assert run(idle, instance, range_tags((A, B, C, D))) == {A: 1, B: 0, C: 0, D: 0}
