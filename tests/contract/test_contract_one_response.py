"""More of the contract's lines 4 and 6: nothing is finished or given up on the word of one response.

On a stream whose clock is moved, with real Spark, a real Delta table and Dagster's own runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.errors import ShardListIncomplete, ShardListStale
from support.pipeline import Pipeline

if TYPE_CHECKING:
    from kinesis_assets.table.table import PositionedTable

HOUR = 3600
YEAR = 365 * 24 * HOUR


@pytest.fixture
def aged(stream: str, clocked: Any, table: PositionedTable, spark: Any) -> Pipeline:
    """A pipeline over a stream whose clock the test moves."""
    del spark  # runs in this process share the session
    return Pipeline(clocked.kinesis, clocked.settings, stream, table, clocked.clock)


def shards_of(pipeline: Pipeline) -> list[str]:
    return list(pipeline.listed())


# 4. A shard has ended only if the service says so twice.


def test_a_shard_is_not_finished_by_one_null_iterator(pipeline: Pipeline, faults: Any) -> None:
    pipeline.create(1)
    pipeline.put_many(30)
    faults.page_size(10)
    faults.null_iterator(after=1, times=1)
    (fact,) = pipeline.materialize().values()
    assert fact["state"] == "committed"
    pipeline.assert_exactly_once()
    pipeline.put_many(10)
    pipeline.materialize()
    pipeline.assert_exactly_once()


def test_a_shard_of_a_service_without_child_shards_is_finished_by_a_list_that_shows_it_closed(
    pipeline: Pipeline, faults: Any
) -> None:
    pipeline.create(1)
    (parent,) = shards_of(pipeline)
    pipeline.put_many(10)
    pipeline.split(parent)
    pipeline.put_many(10)
    faults.answer(
        "GetRecords",
        lambda _, answer: answer.but(ChildShards=None) if "ChildShards" in answer.members else None,
    )
    facts = pipeline.materialize()
    assert [fact["state"] for fact in facts.values()] == ["finished", "committed", "committed"]
    pipeline.assert_exactly_once()


def wrong_end(shard: str, faults: Any) -> list[dict[str, Any]]:
    """Have one response to a read end an open shard; the child that it names."""
    keys = {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)}
    children = [{"ShardId": f"shardId-{1:012}", "ParentShards": [shard], "HashKeyRange": keys}]
    faults.answer(
        "GetRecords", lambda _, answer: answer.but(NextShardIterator=None, ChildShards=children), times=1
    )
    return children


def test_a_shard_that_a_task_reports_as_ended_is_finished_only_if_a_list_shows_it_closed(
    pipeline: Pipeline, faults: Any
) -> None:
    pipeline.create(1)
    (shard,) = shards_of(pipeline)
    pipeline.put_many(10)
    wrong_end(shard, faults)
    assert pipeline.materialize()[shard]["state"] == "committed"
    pipeline.put_many(10)
    pipeline.materialize()
    pipeline.assert_exactly_once()


def test_a_shard_that_is_finished_here_and_open_there_is_an_error(pipeline: Pipeline, faults: Any) -> None:
    pipeline.create(1)
    (shard,) = shards_of(pipeline)
    pipeline.put_many(10)
    (child,) = wrong_end(shard, faults)

    def closed(_: Any, answer: Any) -> Any:
        (listed,) = answer.members["Shards"]
        numbers = listed["SequenceNumberRange"]
        ended = listed | {"SequenceNumberRange": numbers | {"EndingSequenceNumber": "9" * 56}}
        made_up = {
            "ShardId": child["ShardId"],
            "ParentShardId": shard,
            "HashKeyRange": child["HashKeyRange"],
            "SequenceNumberRange": numbers,
        }
        return answer.but(Shards=[ended, made_up])

    # The test's own list and that of the plan are right; the one that follows the reading is not.
    faults.answer("ListShards", closed, after=2, times=1)
    assert pipeline.materialize()[shard]["state"] == "finished"
    pipeline.put_many(10)
    with pytest.raises(ShardListStale, match=r"kinesis-assets seek .* --apply"):
        pipeline.materialize()


# 6. Nothing is given up on the word of one inconsistent response.


@pytest.mark.parametrize("on_data_loss", ["fail", "continue"])
def test_a_stale_list_gives_no_shard_up(aged: Pipeline, clocked: Any, faults: Any, on_data_loss: str) -> None:
    aged.create(1)
    (parent,) = shards_of(aged)
    aged.put_many(10)
    aged.materialize()
    aged.split(parent)
    aged.put_many(10)
    shards = shards_of(aged)
    aged.materialize([parent])
    clocked.clock.advance(20 * HOUR)
    faults.stale_list()
    with pytest.raises(ShardListStale):
        aged.materialize(shards, on_data_loss=on_data_loss)
    faults.clear()
    aged.materialize(shards, on_data_loss=on_data_loss)
    assert not any(shard.gaps for shard in aged.positions.shards.values())
    aged.assert_exactly_once()


@pytest.mark.parametrize("hours", [1, 30])
def test_a_first_list_that_lacks_a_parent_which_can_be_read_freezes_nothing(
    aged: Pipeline, clocked: Any, faults: Any, hours: int
) -> None:
    aged.create(1)
    (parent,) = shards_of(aged)
    clocked.kinesis.increase_stream_retention_period(StreamName=aged.stream, RetentionPeriodHours=48)
    aged.put_many(10)
    aged.split(parent)
    aged.put_many(10)
    shards = shards_of(aged)
    clocked.clock.advance(hours * HOUR)
    faults.answer(
        "ListShards",
        lambda _, answer: answer.but(
            Shards=[shard for shard in answer.members["Shards"] if shard["ShardId"] != parent]
        ),
    )
    with pytest.raises(ShardListIncomplete):
        aged.materialize(shards)
    faults.clear()
    aged.materialize(shards)
    assert aged.positions.finished == {parent}
    aged.assert_exactly_once()


@pytest.mark.parametrize("years", [-10, 10])
@pytest.mark.parametrize("operation", ["GetRecords", "DescribeStreamSummary"])
def test_a_wrong_date_does_not_switch_loss_detection_off(
    aged: Pipeline, clocked: Any, faults: Any, operation: str, years: int
) -> None:
    aged.create(1)
    (shard,) = shards_of(aged)
    aged.put_many(10)
    faults.skew_date(years * YEAR, operation, times=1)
    aged.materialize([shard])
    faults.clear()
    aged.put_many(10)
    clocked.clock.advance(30 * HOUR)
    aged.put_many(10)
    assert aged.materialize()[shard]["state"] == "failed"
