"""The number of Spark jobs and tasks of a run."""

from __future__ import annotations

from deltalake import DeltaTable


def test_a_run_is_one_job_with_one_task_per_core(bench, spark):
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
