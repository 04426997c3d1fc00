"""Findings about runs that ended without a report."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg
import pytest

from kinesis_assets.dagster.events.missing_events import materializations_since
from kinesis_assets.table.run_files.heartbeat import HEARTBEATS_FOLDER
from support.mentions import assert_mentions
from support.sensor_state import record_dead_run
from support.stream_names import raw_key

pytestmark = pytest.mark.slow

A = "shardId-000000000000"


@pytest.fixture(scope="module")
def home():
    """An instance on disk, which has the states of sensors."""
    with dg.instance_for_test() as instance:
        yield instance


@pytest.fixture
def dead(bench, home):
    """A run that committed after one heartbeat, and that the sensor of the stream recorded as dead."""
    bench.create()
    bench.put(1)
    raw = raw_key(bench.stream)

    @dg.asset(key=raw)
    def rows() -> None: ...

    job = dg.Definitions(assets=[rows]).resolve_implicit_global_asset_job_def()
    run = home.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, asset_selection=frozenset({raw}))
    bench.run(by=run.run_id)
    record_dead_run(home, bench.stream, bench.table, run)
    return run


def materialized(bench, home):
    """Return the shards of the materializations."""
    return {event.partition for event in materializations_since(home, raw_key(bench.stream), 0.0)}


def test_a_dead_run_is_a_problem_with_instructions_and_its_events_are_added(bench, home, dead):
    ((check, _, sentence),) = bench.problems(instance=home, add_events=True)
    assert check == "runs"
    assert_mentions(sentence, dead.run_id, "Terminate")
    assert materialized(bench, home) == {A}


def test_a_dead_run_that_has_ended_is_not_a_problem(bench, home, dead):
    home.report_run_failed(dead)
    assert bench.problems(instance=home, add_events=True) == []


def test_a_run_with_a_new_heartbeat_is_not_a_problem(bench, home, dead):
    os.utime(Path(bench.table.uri, HEARTBEATS_FOLDER, dead.run_id), (1, 1))
    assert bench.problems(instance=home, add_events=True) == []
    assert materialized(bench, home) == set()
