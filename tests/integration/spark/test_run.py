"""A run in Spark: plan, read, commit, and the outcome of each shard."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kinesis_assets.errors import (
    InvalidInput,
    LandingFailed,
    ParentUnfinished,
    PositionConflict,
    ReadFailed,
    ShardUnknown,
    ShardVanished,
    StreamRecreated,
)
from kinesis_assets.ingest import land as land_module
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.spark.session import wrap_spark_errors

BEGINNING = Position(PositionKind.TRIM_HORIZON)


def states(result):
    return {shard_id: outcome.state for shard_id, outcome in result.outcomes.items()}


def fail_shard(faults, shard_id, pages=0):
    """Make a shard's GetRecords fail after some pages."""
    faults.fail(status=400, code="AccessDeniedException", shard_id=shard_id, after=pages)


# Rows


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


def test_the_next_run_commits_new_records_only(bench):
    bench.create(2)
    bench.put(0, 1)
    bench.run()
    bench.put(2)
    bench.put(3, part=0.5)
    bench.run()
    assert bench.items == [0, 1, 2, 3]


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


def test_bounded_runs_read_a_backlog_in_steps(bench):
    bench.create()
    bench.put(*range(5))
    steps = []
    for _ in range(3):
        bench.run(max_records=2)
        steps.append(bench.items)
    assert steps == [[0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4]]


def test_the_shards_of_a_task_share_its_files(bench):
    shards = bench.create(20)
    for number in range(20):
        bench.put(number, part=(number + 0.5) / 20)
    result = bench.run()
    assert bench.items == list(range(20))
    assert set(states(result).values()) == {ShardState.COMMITTED}
    assert len(list(Path(bench.table.uri).glob("arrival_date=*/*.parquet"))) <= 4
    assert {shard for shard, outcome in result.outcomes.items() if outcome.files == 1} == set(shards)


def test_only_the_requested_shards_are_read(bench, faults):
    first, second = bench.create(2)
    bench.put(0)
    bench.put(1, part=0.5)
    result = bench.run([second])
    assert bench.items == [1]
    assert states(result) == {second: ShardState.COMMITTED}
    assert faults.count("GetRecords", first) == 0


def test_a_run_without_new_records_makes_no_commit(bench):
    bench.create(2)
    bench.put(0)
    bench.run()
    before = bench.version
    result = bench.run()
    assert bench.version == before
    assert result.version is None
    assert set(states(result).values()) == {ShardState.COMMITTED}


def test_the_tip_time_of_an_idle_shard_is_committed_again_after_an_hour(bench):
    (shard,) = bench.create()
    bench.put(0)
    bench.run()
    before = bench.positions.shards[shard]
    bench.later(seconds=3600)
    assert bench.run().version == bench.version
    after = bench.positions.shards[shard]
    assert after.tip_time == before.tip_time + timedelta(hours=1)
    assert (after.position, after.last_arrival) == (before.position, before.last_arrival)
    assert bench.items == [0]


def test_a_record_that_arrives_after_the_planned_time_is_left_to_the_next_run(bench):
    bench.create()
    bench.put(0)
    plan = bench.plan()
    bench.later(seconds=1)
    bench.put(1)
    bench.execute(plan)
    assert bench.items == [0]
    bench.run()
    assert bench.items == [0, 1]


# Start positions


def test_latest_is_frozen_at_the_first_plan(bench):
    bench.create(2)
    bench.put(0)
    bench.later(seconds=5)
    plan = bench.plan(start="LATEST")
    bench.put(1)
    bench.put(2, part=0.5)
    bench.execute(plan)
    assert bench.items == [1, 2]


def test_a_frozen_start_outlives_a_run_that_read_nothing(bench):
    (shard,) = bench.create()
    bench.put(0)
    bench.later(seconds=5)
    planned_at = bench.now
    bench.plan(start="LATEST")
    assert bench.positions.shards[shard].position == Position.at_timestamp(planned_at)
    bench.put(1)
    bench.later(seconds=5)
    bench.run(start="LATEST")
    assert bench.items == [1]


def test_the_first_plan_freezes_shards_that_were_not_requested_too(bench):
    first, second = bench.create(2)
    bench.later(seconds=5)
    bench.run([first], start="LATEST")
    bench.later(seconds=5)
    bench.put(1, part=0.5)
    bench.later(seconds=5)
    bench.run([second], start="LATEST")
    assert bench.items == [1]


def test_an_empty_read_keeps_the_frozen_time(bench):
    (shard,) = bench.create()
    bench.later(seconds=5)
    bench.run(start="LATEST")
    frozen = bench.positions.shards[shard].position
    bench.later(seconds=7200)
    bench.run()
    assert bench.positions.shards[shard].position == frozen
    assert frozen.kind is PositionKind.AT_TIMESTAMP


def test_shards_listed_after_the_freeze_start_at_trim_horizon(bench):
    (parent,) = bench.create()
    bench.put(0)
    bench.later(seconds=5)
    bench.run(start="LATEST")
    bench.split(parent)
    bench.put(1)
    bench.put(2, part=0.5)
    bench.later(seconds=5)
    bench.run(start="LATEST")
    assert bench.items == [1, 2]


# Bounds


def test_narrowed_bounds_cannot_widen(bench):
    (shard,) = bench.create()
    plan = bench.plan(max_records=2, max_bytes=10)
    until = plan.ranges[shard].bounds.until
    wide = Bounds(max_records=100, max_bytes=100, until=until + timedelta(hours=1))
    assert plan.narrowed(wide).ranges == plan.ranges


def test_narrowed_bounds_are_the_smaller_of_both(bench):
    (shard,) = bench.create()
    plan = bench.plan(max_records=2, max_bytes=10)
    until = plan.ranges[shard].bounds.until
    earlier = until - timedelta(hours=1)
    narrowed = plan.narrowed(Bounds(max_records=1, max_bytes=100, max_seconds=5, until=earlier))
    assert narrowed.ranges[shard].bounds == Bounds(max_records=1, max_bytes=10, max_seconds=5, until=earlier)
    assert narrowed.ranges[shard].start == plan.ranges[shard].start


def test_a_narrowed_plan_leaves_the_rest_to_the_next_run(bench):
    bench.create()
    bench.put(*range(4))
    bench.execute(bench.plan().narrowed(Bounds(max_records=1)))
    assert bench.items == [0]
    bench.run()
    assert bench.items == [0, 1, 2, 3]


def test_an_end_before_now_is_kept(bench):
    (shard,) = bench.create()
    until = datetime(2026, 1, 1, tzinfo=UTC)
    assert bench.plan(until=until).ranges[shard].bounds.until == until


# Parents and children


def test_parents_and_children_are_read_in_one_run(bench, faults):
    (parent,) = bench.create()
    bench.put(*range(3))
    children = bench.split(parent)
    bench.put(3, 4)
    bench.put(5, part=0.5)
    result = bench.run([*reversed(children), parent])
    assert bench.items == list(range(6))
    assert states(result) == {parent: ShardState.FINISHED} | dict.fromkeys(children, ShardState.COMMITTED)
    order = [call.shard_id for call in faults.calls if call.operation == "GetRecords"]
    assert parent not in order[order.count(parent) :]


def test_grandchildren_are_read_in_the_same_run(bench):
    (parent,) = bench.create()
    bench.put(0)
    child, _ = bench.split(parent)
    bench.put(1)
    bench.split(child, part=0.25)
    bench.put(2)
    result = bench.run()
    assert bench.items == [0, 1, 2]
    assert result.errors == {}


def test_a_child_waits_if_a_bound_ends_its_parent(bench, faults):
    (parent,) = bench.create()
    bench.put(*range(3))
    children = bench.split(parent)
    bench.put(3)
    result = bench.run(max_records=2)
    assert bench.items == [0, 1]
    assert states(result) == {parent: ShardState.COMMITTED} | dict.fromkeys(children, ShardState.WAITING)
    assert isinstance(result.errors[children[0]], ParentUnfinished)
    assert parent in str(result.errors[children[0]])
    assert [faults.count("GetRecords", child) for child in children] == [0, 0]
    bench.run(max_records=2)
    assert bench.items == [0, 1, 2, 3]


def test_a_child_requested_without_its_parent_waits(bench, faults):
    (parent,) = bench.create()
    children = bench.split(parent)
    bench.put(0)
    result = bench.run(children)
    assert set(states(result).values()) == {ShardState.WAITING}
    assert faults.count("GetRecords") == 0
    assert bench.items == []


def test_a_child_waits_for_its_failed_parent(bench, faults):
    (parent,) = bench.create()
    bench.put(0)
    children = bench.split(parent)
    fail_shard(faults, parent)
    result = bench.run()
    assert states(result) == {parent: ShardState.FAILED} | dict.fromkeys(children, ShardState.WAITING)


def test_a_merged_shard_waits_for_both_parents(bench):
    first, second = bench.create(2)
    bench.put(0)
    bench.put(1, part=0.5)
    bench.kinesis.merge_shards(StreamName=bench.stream, ShardToMerge=first, AdjacentShardToMerge=second)
    bench.put(2)
    child = bench.shard_ids[-1]
    assert states(bench.run([first, child])) == {first: ShardState.FINISHED, child: ShardState.WAITING}
    assert states(bench.run([second, child])) == {second: ShardState.FINISHED, child: ShardState.COMMITTED}
    assert bench.items == [0, 1, 2]


def test_a_finished_shard_is_never_read_again(bench, faults):
    (parent,) = bench.create()
    bench.put(0)
    bench.split(parent)
    bench.run()
    faults.calls.clear()
    result = bench.run()
    assert result.outcomes[parent].state is ShardState.FINISHED
    assert faults.count("GetShardIterator", parent) == faults.count("GetRecords", parent) == 0


def test_a_finished_shard_stays_finished_when_it_is_no_longer_listed(bench, faults):
    (parent,) = bench.create()
    bench.put(0)
    children = bench.split(parent)
    bench.put(1)
    bench.run([parent])
    hide(faults, parent)
    result = bench.run([parent, *children])
    assert states(result) == {parent: ShardState.FINISHED} | dict.fromkeys(children, ShardState.COMMITTED)
    assert bench.items == [0, 1]


# Failures


def hide(faults, shard_id):
    """Remove a shard from the list."""
    faults.answer(
        "ListShards",
        lambda _, answer: answer.but(
            Shards=[shard for shard in answer.members["Shards"] if shard["ShardId"] != shard_id]
        ),
    )


def test_an_unknown_shard_fails_and_the_others_commit(bench):
    (shard,) = bench.create()
    bench.put(0)
    result = bench.run([shard, "shardId-000000000099"])
    assert states(result) == {shard: ShardState.COMMITTED, "shardId-000000000099": ShardState.FAILED}
    assert isinstance(result.errors["shardId-000000000099"], ShardUnknown)
    assert bench.items == [0]


def test_a_vanished_shard_fails_with_its_position_and_the_others_commit(bench, faults):
    first, second = bench.create(2)
    bench.put(0, 2)
    bench.run(max_records=1)
    position = bench.positions.shards[first].position
    bench.split(first, part=0.25)
    bench.put(1, part=0.5)
    hide(faults, first)
    result = bench.run([first, second])
    assert states(result) == {first: ShardState.FAILED, second: ShardState.COMMITTED}
    assert isinstance(result.errors[first], ShardVanished)
    assert str(position) in str(result.errors[first])
    assert bench.items == [0, 1]
    assert bench.positions.shards[first].position == position


def test_a_child_of_a_vanished_parent_waits(bench, faults):
    (parent,) = bench.create()
    bench.put(0, 1)
    children = bench.split(parent)
    bench.run(max_records=1)
    hide(faults, parent)
    result = bench.run([parent, *children])
    assert states(result) == {parent: ShardState.FAILED} | dict.fromkeys(children, ShardState.WAITING)


def test_a_failed_shard_commits_what_it_has_read_and_so_do_the_others(bench, faults):
    first, second = bench.create(2)
    bench.put(*range(4))
    bench.put(4, 5, part=0.5)
    faults.page_size(2)
    fail_shard(faults, first, pages=1)
    result = bench.run()
    assert states(result) == {first: ShardState.FAILED, second: ShardState.COMMITTED}
    assert isinstance(result.errors[first], ReadFailed)
    assert "AccessDeniedException" in str(result.errors[first])
    assert result.outcomes[first].rows == 2
    assert bench.items == [0, 1, 4, 5]
    faults.clear()
    bench.run()
    assert bench.items == list(range(6))


def test_a_truncated_iterator_response_of_one_shard_does_not_delay_the_others(bench, faults):
    first, second = bench.create(2)
    bench.put(0)
    bench.put(1, part=0.5)
    faults.cut_body("GetShardIterator", shard_id=first)
    assert states(bench.run()) == {first: ShardState.FAILED, second: ShardState.COMMITTED}


def test_a_shard_that_another_run_moved_is_a_conflict_and_the_others_commit(bench):
    first, second = bench.create(2)
    bench.put(0)
    bench.put(1, part=0.5)
    slow = bench.plan()
    bench.run([first])
    result = bench.execute(slow)
    assert states(result) == {first: ShardState.CONFLICT, second: ShardState.COMMITTED}
    assert isinstance(result.errors[first], PositionConflict)
    assert result.outcomes[first].rows == 0
    assert bench.items == [0, 1]


def test_a_recreated_stream_is_refused_by_the_plan(bench):
    bench.create()
    bench.run()
    bench.kinesis.delete_stream(StreamName=bench.stream)
    bench.create()
    with pytest.raises(StreamRecreated):
        bench.plan()


def test_a_stream_recreated_after_the_plan_adds_nothing(bench):
    bench.create()
    plan = bench.plan()
    bench.kinesis.delete_stream(StreamName=bench.stream)
    bench.create()
    bench.put(99)
    with pytest.raises(StreamRecreated):
        bench.execute(plan)
    assert bench.items == []


@pytest.mark.parametrize("death", ["raises", "exits"])
def test_a_task_attempt_that_dies_after_its_writes_adds_no_duplicate(bench, monkeypatch, death):
    bench.create(2)
    bench.put(*range(3))
    bench.put(3, 4, part=0.5)
    real = land_module.landing_task

    def dying(job, groups):
        run = real(job, groups)

        def first_attempt_dies(numbers):
            import os  # noqa: PLC0415  # goes to the worker with the function

            from pyspark import TaskContext  # noqa: PLC0415

            landed = list(run(numbers))
            context = TaskContext.get()
            if context.partitionId() == 0 and context.attemptNumber() == 0:
                if death == "exits":
                    os._exit(137)
                raise RuntimeError("as the test says")
            yield from landed

        return first_attempt_dies

    monkeypatch.setattr(land_module, "landing_task", dying)
    result = bench.run()
    assert result.errors == {}
    assert bench.items == list(range(5))
    assert len(list(Path(bench.table.uri).glob("arrival_date=*/*.parquet"))) == 3


def test_a_run_that_dies_before_its_commit_leaves_everything_to_the_next_run(bench, monkeypatch):
    bench.create()
    bench.put(0, 1)
    plan = bench.plan()

    def dies(*_, **__):
        raise RuntimeError("as the test says")

    with monkeypatch.context() as patch:
        patch.setattr("kinesis_assets.ingest.run.commit", dies)
        with pytest.raises(RuntimeError):
            bench.execute(plan)
    assert bench.items == []
    bench.run()
    assert bench.items == [0, 1]


# Invalid plans


def test_a_start_in_the_future_is_refused_before_the_freeze(bench):
    bench.create()
    with pytest.raises(InvalidInput, match="not in the past"):
        bench.plan(start="AT_TIMESTAMP:2099-01-01T00:00:00Z")
    bench.plan()


def test_a_shard_that_a_custom_asset_left_out_is_not_finished(bench):
    first, second = bench.create(2)
    bench.put(0)
    plan = bench.plan()
    left = replace(plan, ranges={second: plan.ranges[second]})
    assert states(bench.execute(left)) == {first: ShardState.FAILED, second: ShardState.COMMITTED}


def test_a_failure_of_spark_is_reported_in_one_line(spark):
    def boom(batches):
        raise ValueError("no room on the disk")
        yield from batches

    with pytest.raises(LandingFailed, match="no room on the disk") as told, wrap_spark_errors("orders"):
        spark.range(1).mapInArrow(boom, "id long").collect()
    assert "\n" not in str(told.value)
