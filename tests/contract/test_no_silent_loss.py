"""Line 6 of the contract: a loss of records is an error until an operator accepts it.

Nothing is given up because of one inconsistent response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.dagster.jobs.maintenance import run_maintenance
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.dagster.stream_project import run_replay
from kinesis_assets.errors import (
    CallFailed,
    ClocksDisagree,
    ShardListIncomplete,
    ShardListStale,
    StreamRecreated,
    TableRewritten,
)
from kinesis_assets.operations.adopt import adopt
from support.formats import restore
from support.mentions import assert_mentions
from support.shard_lists import omit_shards

if TYPE_CHECKING:
    from support.fixtures.stream import Clocked
    from support.pipeline import Pipeline

HOUR = 3600
YEAR = 365 * 24 * HOUR


# Losses that are reported until someone accepts them


def test_expired_records_fail_their_shard_until_the_policy_is_to_continue(
    clocked_pipeline: Pipeline, clocked: Clocked
) -> None:
    pipeline = clocked_pipeline
    lost, fresh = pipeline.create(2)
    pipeline.put_many(10)
    pipeline.materialize()
    last = pipeline.at(lost).position
    pipeline.put_many(4, lost)
    expired = pipeline.acknowledged[-4:]
    clocked.clock.advance(20 * HOUR)
    pipeline.materialize([fresh])
    clocked.clock.advance(10 * HOUR)
    pipeline.put_many(5, lost)
    available = pipeline.acknowledged[-5][1]
    pipeline.put_many(5, fresh)

    failed = pipeline.materialize()
    assert {shard: event["state"] for shard, event in failed.items()} == {lost: "failed", fresh: "committed"}
    assert_mentions(failed[lost]["error"], last, available, "1 day, 6:00:00")
    assert pipeline.at(lost).position == last

    continued = pipeline.materialize(on_data_loss="continue")[lost]
    assert (continued["state"], continued["rows"]) == ("committed", 5)
    assert available in continued["gaps"]
    assert [str(gap) for gap in pipeline.at(lost).gaps] == [continued["gaps"]]
    assert "gaps" not in pipeline.materialize()[lost]
    pipeline.acknowledged = [record for record in pipeline.acknowledged if record not in expired]
    pipeline.assert_exactly_once()


def test_a_shard_that_vanished_unread_fails_until_the_policy_is_to_continue_with_its_children(
    clocked_pipeline: Pipeline, clocked: Clocked
) -> None:
    pipeline = clocked_pipeline
    (parent,) = pipeline.create(1)
    pipeline.put_many(10)
    pipeline.materialize(max_records=4)
    pipeline.split(parent)
    clocked.clock.advance(30 * HOUR)
    pipeline.put_many(10)
    children = pipeline.shard_ids
    assert parent not in children

    events = pipeline.materialize([parent, *children])
    assert [events[shard]["state"] for shard in (parent, *children)] == ["failed", "waiting", "waiting"]
    last_read = f"AFTER_SEQUENCE_NUMBER:{pipeline.acknowledged[3][1]}"
    assert last_read in events[parent]["error"]

    events = pipeline.materialize([parent, *children], on_data_loss="continue")
    assert events[parent]["state"] == "finished"
    assert last_read in events[parent]["gaps"]
    events = pipeline.materialize([parent, *children])
    assert {event["state"] for event in events.values()} == {"finished", "committed"}
    del pipeline.acknowledged[4:10]
    pipeline.assert_exactly_once()


def test_a_recreated_stream_fails_the_run_until_the_policy_is_to_restart(
    clocked_pipeline: Pipeline, clocked: Clocked, faults: Any
) -> None:
    pipeline = clocked_pipeline
    pipeline.create(2)
    pipeline.put_many(10)
    pipeline.materialize(start="LATEST")
    before = pipeline.positions
    clocked.clock.advance(HOUR)
    faults.recreate(pipeline.stream)
    pipeline.put_many(10)
    with pytest.raises(StreamRecreated):
        pipeline.materialize(start="LATEST")
    clocked.clock.advance(HOUR)
    pipeline.materialize(start="LATEST", on_recreated="restart")
    pipeline.assert_exactly_once()
    (predecessor,) = pipeline.positions.predecessors
    assert predecessor.identity == before.identity
    assert predecessor.unfinished == {shard_id: shard.position for shard_id, shard in before.shards.items()}


def test_a_restored_table_fails_the_run_until_it_is_replayed_and_adopted(pipeline: Pipeline) -> None:
    pipeline.create(2)
    pipeline.put_many(100)
    pipeline.materialize()
    before = pipeline.version
    pipeline.put_many(100)
    pipeline.materialize()
    restore(pipeline.table, before)
    pipeline.put_many(100)
    restored = pipeline.version

    with pytest.raises(TableRewritten, match=f"version {restored} "):
        pipeline.materialize()
    assert pipeline.version == restored

    run_replay(pipeline.project(), pipeline.instance, start="TRIM_HORIZON")
    with pytest.raises(TableRewritten):
        pipeline.materialize()
    adopted = adopt(pipeline.client, pipeline.table, by="ann", apply=True)
    assert [rewrite.version for rewrite in adopted.accepted] == [restored]
    pipeline.materialize()
    pipeline.assert_exactly_once()


# Inconsistent responses


def test_a_missing_page_of_the_shard_list_fails_the_run_and_changes_nothing(
    pipeline: Pipeline, faults: Any
) -> None:
    shard_ids = pipeline.create(3)
    pipeline.put_many(30)
    pipeline.materialize(max_records=2)
    before = pipeline.positions
    faults.page_size(2, "ListShards")
    faults.fail("ListShards", status=400, code="ExpiredNextTokenException", after=1)
    with pytest.raises(CallFailed, match="ListShards"):
        pipeline.materialize(shard_ids)
    faults.clear()
    assert pipeline.positions == before
    pipeline.materialize()
    pipeline.assert_exactly_once()


def test_truncated_responses_skip_nothing(pipeline: Pipeline, faults: Any) -> None:
    pipeline.create(1)
    pipeline.put_many(30)
    faults.page_size(10)
    faults.cut_body(times=1)
    faults.cut_body(kept=0.9, after=2, times=1)
    assert {event["state"] for event in pipeline.materialize().values()} == {"committed"}
    assert faults.count("GetRecords") == 3 + 2
    pipeline.assert_exactly_once()


def test_a_response_that_ends_a_shard_without_its_records_skips_none(pipeline: Pipeline, faults: Any) -> None:
    (parent,) = pipeline.create(1)
    pipeline.put_many(20)
    pipeline.split(parent)

    def without_records(_: Any, response: Any) -> Any:
        return response.but(Records=[]) if "ChildShards" in response.members else None

    faults.answer("GetRecords", without_records, times=1)
    assert pipeline.materialize()[parent]["state"] == "finished"
    pipeline.assert_exactly_once()


@pytest.mark.parametrize("on_data_loss", ["fail", "continue"])
def test_a_stale_shard_list_gives_up_no_shard(
    clocked_pipeline: Pipeline, clocked: Clocked, faults: Any, on_data_loss: str
) -> None:
    pipeline = clocked_pipeline
    (parent,) = pipeline.create(1)
    pipeline.put_many(10)
    pipeline.materialize()
    pipeline.split(parent)
    pipeline.put_many(10)
    shards = pipeline.shard_ids
    pipeline.materialize([parent])
    clocked.clock.advance(20 * HOUR)
    faults.stale_list()
    with pytest.raises(ShardListStale):
        pipeline.materialize(shards, on_data_loss=on_data_loss)
    faults.clear()
    pipeline.materialize(shards, on_data_loss=on_data_loss)
    assert not any(shard.gaps for shard in pipeline.positions.shards.values())
    pipeline.assert_exactly_once()


@pytest.mark.parametrize("hours", [1, 30])
def test_a_first_shard_list_that_lacks_a_readable_parent_freezes_nothing(
    clocked_pipeline: Pipeline, clocked: Clocked, faults: Any, hours: int
) -> None:
    pipeline = clocked_pipeline
    (parent,) = pipeline.create(1)
    pipeline.set_retention(48)
    pipeline.put_many(10)
    pipeline.split(parent)
    pipeline.put_many(10)
    shards = pipeline.shard_ids
    clocked.clock.advance(hours * HOUR)
    omit_shards(faults, parent)
    with pytest.raises(ShardListIncomplete):
        pipeline.materialize(shards)
    faults.clear()
    pipeline.materialize(shards)
    assert pipeline.positions.finished == {parent}
    pipeline.assert_exactly_once()


@pytest.mark.parametrize("years", [-10, 10])
@pytest.mark.parametrize("operation", ["GetRecords", "DescribeStreamSummary"])
def test_a_wrong_date_header_does_not_hide_a_later_loss(
    clocked_pipeline: Pipeline, clocked: Clocked, faults: Any, operation: str, years: int
) -> None:
    pipeline = clocked_pipeline
    (shard,) = pipeline.create(1)
    pipeline.put_many(10)
    faults.skew_date(years * YEAR, operation, times=1)
    pipeline.materialize([shard])
    faults.clear()
    pipeline.put_many(10)
    clocked.clock.advance(30 * HOUR)
    pipeline.put_many(10)
    assert pipeline.materialize()[shard]["state"] == "failed"


@pytest.mark.parametrize("skew", [YEAR, -YEAR])
def test_no_row_expires_by_a_date_header_that_the_local_clock_contradicts(
    pipeline: Pipeline, faults: Any, skew: int
) -> None:
    pipeline.create(1)
    pipeline.put_many(10)
    pipeline.materialize()
    definitions = pipeline.project(retention_days=90).definitions
    faults.skew_date(skew, "DescribeStreamSummary", times=1)
    with pytest.raises(ClocksDisagree):
        list(run_maintenance(definitions, StreamNames(pipeline.stream), pipeline.instance, dry_run=False))
    pipeline.assert_exactly_once()
    list(run_maintenance(definitions, StreamNames(pipeline.stream), pipeline.instance, dry_run=False))
    pipeline.assert_exactly_once()
