"""A landing of a run: how many jobs and tasks it takes."""

from __future__ import annotations

from deltalake import DeltaTable


def test_a_run_in_spark_is_one_job_with_a_task_for_each_core(bench, spark):
    bench.create(8)
    bench.run()
    for eighth in range(8):
        bench.put(*range(10), part=eighth / 8)
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    bench.run()
    (job,) = set(tracker.getJobIdsForGroup(None)) - before
    stages = [tracker.getStageInfo(stage) for stage in tracker.getJobInfo(job).stageIds]
    assert [stage.numTasks for stage in stages] == [spark.sparkContext.defaultParallelism]
    assert len(DeltaTable(bench.table.uri).file_uris()) == spark.sparkContext.defaultParallelism
