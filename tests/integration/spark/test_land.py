"""The number of Spark jobs and tasks of a run."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable

from benchmarks.harness.waiting import wait_until
from kinesis_assets.ingest import land as land_module
from kinesis_assets.ingest import task
from kinesis_assets.ingest.fan_out import landing_by_subscriptions
from kinesis_assets.ingest.land import land


@pytest.fixture
def jobs(spark):
    """Return the numbers of the tasks of each job since the last time."""
    tracker = spark.sparkContext.statusTracker()
    seen = set(tracker.getJobIdsForGroup(None))

    def jobs():
        new = sorted(set(tracker.getJobIdsForGroup(None)) - seen)
        seen.update(new)
        stages = [tracker.getJobInfo(job).stageIds for job in new]
        return [[tracker.getStageInfo(stage).numTasks for stage in each] for each in stages]

    return jobs


def test_a_run_is_one_job_with_one_task_per_core(bench, spark, jobs):
    bench.create(8)
    bench.run()
    for eighth in range(8):
        bench.put(*range(10), part=eighth / 8)
    jobs()
    bench.run()
    assert jobs() == [[spark.sparkContext.defaultParallelism]]
    assert len(DeltaTable(bench.table.uri).file_uris()) == spark.sparkContext.defaultParallelism


@pytest.mark.usefixtures("patient_subscriptions")
def test_tasks_land_what_subscriptions_have_received_and_an_iteration_without_records_is_no_job(
    bench, spark, jobs, faults, monkeypatch
):
    this, land_group = os.getpid(), task.land_group

    def in_task(*group):
        assert os.getpid() != this, "the process of the run reads a shard"
        return land_group(*group)

    monkeypatch.setattr(task, "land_group", in_task)
    monkeypatch.setattr(land_module, "_rows", None)  # records would enter the JVM
    files = Path(spark.sparkContext._temp_dir)
    before = set(files.iterdir())
    bench.create(8)
    summary = bench.client.describe()
    bench.client.register_consumer("lake", summary.identity.arn)
    warnings = []
    with landing_by_subscriptions(
        bench.client, "lake", summary, land=partial(land, spark), warn=warnings.append
    ) as land_ranges:
        run = partial(bench.run, land=land_ranges)
        wait_until(lambda: run().errors == {} and jobs() == [])  # the first event of each shard has arrived
        faults.calls.clear()
        for eighth in range(8):
            bench.put(*range(10), part=eighth / 8)
        wait_until(lambda: run() and len(bench.rows) == 80)
        # Events that arrive later than others are read by a job of their own.
        assert max(jobs()) == [spark.sparkContext.defaultParallelism]
        run()
        assert jobs() == []
    assert faults.count("GetRecords") == 0
    assert warnings == []
    assert set(files.iterdir()) == before
    bench.assert_exactly_once()


@pytest.mark.usefixtures("patient_subscriptions")
def test_getrecords_reads_what_was_received_if_the_folder_of_the_session_cannot_be_written(
    bench, spark, monkeypatch, tmp_path, caplog
):
    monkeypatch.setattr(land_module, "folder_of_session", lambda _: str(tmp_path / "missing"))
    bench.create(2)
    summary = bench.client.describe()
    bench.client.register_consumer("lake", summary.identity.arn)
    with landing_by_subscriptions(
        bench.client, "lake", summary, land=partial(land, spark), warn=lambda _: None
    ) as land_ranges:
        run = partial(bench.run, land=land_ranges)
        run()
        bench.put(*range(10))
        wait_until(lambda: run().errors == {} and len(bench.rows) == 10)
    bench.assert_exactly_once()
    assert "cannot be written" in caplog.text
