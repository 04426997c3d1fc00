"""Line 4 of the contract: a child is read after its parents' end, which the service must confirm twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.errors import ShardListStale

if TYPE_CHECKING:
    from support.pipeline import Pipeline


def test_children_are_read_after_their_parents_in_one_run(pipeline: Pipeline, faults: Any) -> None:
    first, second, third = pipeline.create(3)
    pipeline.put_many(300)
    pipeline.split(first)
    pipeline.merge(second, third)
    pipeline.put_many(300)
    faults.clear()
    events = pipeline.materialize()
    read = [call.shard_id for call in faults.calls if call.operation == "GetRecords"]
    children = [shard_id for shard_id in events if shard_id not in (first, second, third)]
    assert len(children) == 3
    last_of_parents = max(len(read) - read[::-1].index(parent) for parent in (first, second, third))
    assert all(read.index(child) >= last_of_parents for child in children)
    assert {events[parent]["state"] for parent in (first, second, third)} == {"finished"}
    pipeline.assert_exactly_once()


def test_a_child_waits_until_its_parent_is_read_to_its_end(pipeline: Pipeline, faults: Any) -> None:
    (parent,) = pipeline.create(1)
    pipeline.put_many(200)
    children = pipeline.split(parent)
    pipeline.put_many(100)
    faults.clear()
    events = pipeline.materialize(max_records=150)
    assert [events[child]["state"] for child in children] == ["waiting", "waiting"]
    assert [faults.count("GetRecords", child) for child in children] == [0, 0]
    pipeline.materialize()
    pipeline.assert_exactly_once()


def test_a_child_requested_alone_waits_for_its_unread_parent(pipeline: Pipeline) -> None:
    (parent,) = pipeline.create(1)
    pipeline.put_many(100)
    child, _ = pipeline.split(parent)
    pipeline.put_many(100)
    events = pipeline.materialize([child])
    assert events[child]["state"] == "waiting"
    assert parent in events[child]["error"]
    assert pipeline.stored == []


def test_a_finished_shard_is_never_read_again(pipeline: Pipeline, faults: Any) -> None:
    (parent,) = pipeline.create(1)
    pipeline.put_many(100)
    pipeline.split(parent)
    assert pipeline.materialize()[parent]["state"] == "finished"
    faults.clear()
    assert pipeline.materialize()[parent]["state"] == "finished"
    assert faults.count("GetRecords", parent) == faults.count("GetShardIterator", parent) == 0


# Two responses and a list say that a shard has ended.


def test_a_null_iterator_alone_does_not_finish_a_shard(pipeline: Pipeline, faults: Any) -> None:
    pipeline.create(1)
    pipeline.put_many(30)
    faults.page_size(10)
    faults.null_iterator(after=1, times=1)
    (event,) = pipeline.materialize().values()
    assert event["state"] == "committed"
    pipeline.assert_exactly_once()
    pipeline.put_many(10)
    pipeline.materialize()
    pipeline.assert_exactly_once()


def test_a_list_that_shows_a_shard_closed_finishes_it_without_child_shards(
    pipeline: Pipeline, faults: Any
) -> None:
    (parent,) = pipeline.create(1)
    pipeline.put_many(10)
    pipeline.split(parent)
    pipeline.put_many(10)
    faults.answer(
        "GetRecords",
        lambda _, response: response.but(ChildShards=None) if "ChildShards" in response.members else None,
    )
    events = pipeline.materialize()
    assert [event["state"] for event in events.values()] == ["finished", "committed", "committed"]
    pipeline.assert_exactly_once()


def end_open_shard(shard: str, faults: Any) -> dict[str, Any]:
    """Make two GetRecords responses end an open shard, and return the child shard that they name."""
    keys = {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)}
    child = {"ShardId": f"shardId-{1:012}", "ParentShards": [shard], "HashKeyRange": keys}
    faults.answer(
        "GetRecords", lambda _, response: response.but(NextShardIterator=None, ChildShards=[child]), times=2
    )
    return child


def test_an_end_that_the_shard_list_contradicts_does_not_finish_the_shard(
    pipeline: Pipeline, faults: Any
) -> None:
    (shard,) = pipeline.create(1)
    pipeline.put_many(10)
    end_open_shard(shard, faults)
    assert pipeline.materialize()[shard]["state"] == "committed"
    pipeline.put_many(10)
    pipeline.materialize()
    pipeline.assert_exactly_once()


def test_a_shard_that_is_finished_in_the_table_and_open_in_the_stream_is_an_error(
    pipeline: Pipeline, faults: Any
) -> None:
    (shard,) = pipeline.create(1)
    pipeline.put_many(10)
    child = end_open_shard(shard, faults)

    def show_closed(_: Any, response: Any) -> Any:
        (listed,) = response.members["Shards"]
        numbers = listed["SequenceNumberRange"]
        closed = listed | {"SequenceNumberRange": numbers | {"EndingSequenceNumber": "9" * 56}}
        invented = {
            "ShardId": child["ShardId"],
            "ParentShardId": shard,
            "HashKeyRange": child["HashKeyRange"],
            "SequenceNumberRange": numbers,
        }
        return response.but(Shards=[closed, invented])

    # `materialize` and the plan get the right list; the one that confirms the end is wrong.
    faults.answer("ListShards", show_closed, after=2, times=1)
    assert pipeline.materialize()[shard]["state"] == "finished"
    pipeline.put_many(10)
    with pytest.raises(ShardListStale, match=r"kinesis-assets seek .* --apply"):
        pipeline.materialize()
