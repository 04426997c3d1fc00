"""A run in Spark: plan, read, commit, and the outcome of each shard."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinesis_assets.errors import LandingFailed
from kinesis_assets.ingest import land as land_module
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.spark.session import wrap_spark_errors

BEGINNING = Position(PositionKind.TRIM_HORIZON)


def states(result):
    return {shard_id: outcome.state for shard_id, outcome in result.outcomes.items()}


def test_a_run_commits_every_record_and_reports_each_shard(bench):
    first, second = bench.create(2)
    bench.put(1, 22)
    bench.put(333, part=0.5)
    result = bench.run()
    assert bench.items == [1, 22, 333]
    assert states(result) == {first: ShardState.COMMITTED, second: ShardState.COMMITTED}
    outcome = result.outcomes[first]
    assert (outcome.rows, outcome.stats.bytes, outcome.files, outcome.lag_ms) == (2, 3, 1, 0)
    assert (outcome.stats.start, outcome.stats.through) == (BEGINNING, bench.positions.shards[first].position)
    assert result.errors == {}
    assert result.version == bench.version


def test_rows_contain_the_stream_the_shard_and_the_batch_id(bench):
    (shard,) = bench.create()
    bench.put(0)
    plan = bench.plan()
    bench.execute(plan)
    assert [bench.arrow()[name].to_pylist() for name in ("stream", "shard_id", "batch_id", "error")] == [
        [bench.stream],
        [shard],
        [plan.batch_id],
        [None],
    ]


def test_the_shards_of_a_task_share_its_files(bench):
    shards = bench.create(20)
    for number in range(20):
        bench.put(number, part=(number + 0.5) / 20)
    result = bench.run()
    assert bench.items == list(range(20))
    assert set(states(result).values()) == {ShardState.COMMITTED}
    assert len(list(Path(bench.table.uri).glob("arrival_date=*/*.parquet"))) <= 4
    assert {shard for shard, outcome in result.outcomes.items() if outcome.files == 1} == set(shards)


@pytest.mark.parametrize("death", ["raises", "exits"])
def test_a_task_attempt_that_dies_after_its_writes_adds_no_duplicate(bench, monkeypatch, death):
    bench.create(2)
    bench.put(*range(3))
    bench.put(3, 4, part=0.5)
    real = land_module.landing_task

    def dying(*arguments):
        run = real(*arguments)

        def first_attempt_dies(numbers):
            import os  # noqa: PLC0415  # goes to the worker with the function

            from pyspark import TaskContext  # noqa: PLC0415

            landed = list(run(numbers))
            context = TaskContext.get()
            if context.partitionId() == 0 and context.attemptNumber() == 0:
                if death == "exits":
                    os._exit(137)
                raise RuntimeError("an injected failure")
            yield from landed

        return first_attempt_dies

    monkeypatch.setattr(land_module, "landing_task", dying)
    result = bench.run()
    assert result.errors == {}
    assert bench.items == list(range(5))
    assert len(list(Path(bench.table.uri).glob("arrival_date=*/*.parquet"))) == 3


def test_a_failure_of_spark_is_reported_in_one_line(spark):
    def boom(batches):
        raise ValueError("no space on the disk")
        yield from batches

    with pytest.raises(LandingFailed, match="no space on the disk") as caught, wrap_spark_errors("orders"):
        spark.range(1).mapInArrow(boom, "id long").collect()
    assert "\n" not in str(caught.value)
