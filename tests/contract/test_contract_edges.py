"""More of the contract's lines 5, 6 and 10: where a stream begins, what may not be skipped, what is fresh.

On a stream whose clock is moved, with real Spark, a real Delta table and Dagster's own runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.errors import CallFailed, InvalidInput, StreamRecreated
from kinesis_assets.testing import UserRecord, aggregate
from support.pipeline import Pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from kinesis_assets.table.table import PositionedTable

HOUR = 3600
HOUR_MS = 3_600_000


@pytest.fixture
def aged(stream: str, clocked: Any, table: PositionedTable, spark: Any) -> Pipeline:
    """A pipeline over a stream whose clock the test moves."""
    del spark  # runs in this process share the session
    return Pipeline(clocked.kinesis, clocked.settings, stream, table, clocked.clock)


def shards_of(pipeline: Pipeline) -> list[str]:
    return list(pipeline.listed())


# 5. Edges.


def test_an_explicit_start_on_an_empty_page_is_inclusive_and_each_resume_exclusive(
    pipeline: Pipeline, faults: Any
) -> None:
    pipeline.create(1)
    pipeline.put_many(5)
    (shard,) = shards_of(pipeline)
    start = f"AT_SEQUENCE_NUMBER:{pipeline.acknowledged[2][1]}"
    faults.empty_page(behind_ms=0, times=1)
    assert pipeline.materialize(start=start)[shard]["through"] == start
    for last in (3, 4):
        assert pipeline.materialize(max_records=1)[shard]["rows"] == 1
        assert sorted(pipeline.stored) == pipeline.acknowledged[2:last]
    pipeline.materialize()
    assert sorted(pipeline.stored) == pipeline.acknowledged[2:]


def test_starts_from_a_file_are_each_shards_own(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.create(3)
    first, second, third = shards_of(pipeline)
    for shard in (first, second):
        pipeline.put_many(3, shard)
    keys = pipeline.listed()[third]["HashKeyRange"]["StartingHashKey"]
    inside = pipeline.kinesis.put_record(
        StreamName=pipeline.stream,
        Data=aggregate(UserRecord("k", b"%d" % number, keys) for number in range(3)),
        PartitionKey="k",
        ExplicitHashKey=keys,
    )["SequenceNumber"]
    file = tmp_path / "starts.yaml"
    file.write_text(
        f"{second}: AFTER_SEQUENCE_NUMBER:{pipeline.acknowledged[4][1]}\n"
        f"{third}: AFTER_SEQUENCE_NUMBER:{inside}:0\n"
    )
    pipeline.materialize(start=f"file://{file}")
    assert sorted(pipeline.stored) == sorted(
        [*pipeline.acknowledged[:3], pipeline.acknowledged[5], *((third, inside, b"%d" % n) for n in (1, 2))]
    )


def test_a_start_that_the_stream_refuses_touches_nothing(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.create(2)
    pipeline.put_many(10)
    first, second = shards_of(pipeline)
    of_second = next(number for shard, number, _ in pipeline.acknowledged if shard == second)
    for start in (f"AT_SEQUENCE_NUMBER:{of_second}", {first: f"AT_SEQUENCE_NUMBER:{of_second}"}):
        with pytest.raises(InvalidInput):
            pipeline.materialize(start=start)
    assert not (tmp_path / "table").exists()


# 6. Nothing skipped in silence.


def test_records_past_their_retention_are_told_until_someone_goes_on(aged: Pipeline, clocked: Any) -> None:
    aged.create(2)
    aged.put_many(10)
    lost, fresh = shards_of(aged)
    aged.materialize()
    last = aged.positions.shards[lost].position
    aged.put_many(4, lost)
    expired = aged.acknowledged[-4:]
    clocked.clock.advance(20 * HOUR)
    aged.materialize([fresh])
    clocked.clock.advance(10 * HOUR)
    aged.put_many(5, lost)
    available = aged.acknowledged[-5][1]
    aged.put_many(5, fresh)

    told = aged.materialize()
    assert {shard: fact["state"] for shard, fact in told.items()} == {lost: "failed", fresh: "committed"}
    assert f"read up to {last}, " in told[lost]["error"]
    assert f"first available record: {available}, " in told[lost]["error"]
    assert "1 day, 6:00:00 later" in told[lost]["error"]
    assert aged.positions.shards[lost].position == last

    gone_on = aged.materialize(on_data_loss="continue")[lost]
    assert (gone_on["state"], gone_on["rows"]) == ("committed", 5)
    assert f"first available record: {available}, " in gone_on["gaps"]
    assert [str(gap) for gap in aged.positions.shards[lost].gaps] == [gone_on["gaps"]]
    assert "gaps" not in aged.materialize()[lost]
    aged.acknowledged = [record for record in aged.acknowledged if record not in expired]
    aged.assert_exactly_once()


def test_a_shard_gone_unread_is_told_until_someone_goes_on_to_its_children(
    aged: Pipeline, clocked: Any
) -> None:
    aged.create(1)
    (parent,) = shards_of(aged)
    aged.put_many(10)
    aged.materialize(max_records=4)
    aged.split(parent)
    clocked.clock.advance(30 * HOUR)
    aged.put_many(10)
    children = shards_of(aged)
    assert parent not in children

    told = aged.materialize([parent, *children])
    assert [told[shard]["state"] for shard in (parent, *children)] == ["failed", "waiting", "waiting"]
    assert f"read only up to AFTER_SEQUENCE_NUMBER:{aged.acknowledged[3][1]}" in told[parent]["error"]

    gone_on = aged.materialize([parent, *children], on_data_loss="continue")
    assert gone_on[parent]["state"] == "finished"
    assert f"AFTER_SEQUENCE_NUMBER:{aged.acknowledged[3][1]}" in gone_on[parent]["gaps"]
    assert {fact["state"] for fact in aged.materialize([parent, *children]).values()} == {
        "finished",
        "committed",
    }
    del aged.acknowledged[4:10]
    aged.assert_exactly_once()


def test_a_stream_recreated_under_its_name_is_told_until_someone_restarts(
    aged: Pipeline, clocked: Any, faults: Any
) -> None:
    aged.create(2)
    aged.put_many(10)
    aged.materialize(start="LATEST")
    old = aged.positions
    clocked.clock.advance(HOUR)
    faults.recreate(aged.stream)
    aged.put_many(10)
    with pytest.raises(StreamRecreated):
        aged.materialize(start="LATEST")
    clocked.clock.advance(HOUR)
    aged.materialize(start="LATEST", on_recreated="restart")
    aged.assert_exactly_once()
    (predecessor,) = aged.positions.predecessors
    assert predecessor.identity == old.identity
    assert predecessor.unfinished == {shard: standing.position for shard, standing in old.shards.items()}


def test_a_missing_page_of_the_shard_list_fails_the_run_and_changes_nothing(
    pipeline: Pipeline, faults: Any
) -> None:
    pipeline.create(3)
    pipeline.put_many(30)
    asked = shards_of(pipeline)
    pipeline.materialize(max_records=2)
    before = pipeline.positions
    faults.page_size(2, "ListShards")
    faults.fail("ListShards", status=400, code="ExpiredNextTokenException", after=1)
    with pytest.raises(CallFailed, match="ListShards"):
        pipeline.materialize(asked)
    faults.clear()
    assert pipeline.positions == before
    pipeline.materialize()
    pipeline.assert_exactly_once()


def test_bodies_cut_in_transit_skip_nothing(pipeline: Pipeline, faults: Any) -> None:
    pipeline.create(1)
    pipeline.put_many(30)
    faults.page_size(10)
    faults.cut_body(times=1)
    faults.cut_body(kept=0.9, after=2, times=1)
    assert {fact["state"] for fact in pipeline.materialize().values()} == {"committed"}
    assert faults.count("GetRecords") == 3 + 2
    pipeline.assert_exactly_once()


# 10. Freshness is what is true now.


def test_lag_and_time_to_loss_are_the_latest_and_an_idle_shard_is_not_late(
    aged: Pipeline, clocked: Any
) -> None:
    aged.create(2)
    busy, idle = shards_of(aged)
    aged.put_many(4, busy)
    aged.put_many(1, idle)
    clocked.clock.advance(5 * HOUR)

    def freshness(**fields: Any) -> dict[str, tuple[int, int]]:
        return {
            shard: (fact["lag_ms"], fact["time_to_loss_ms"])
            for shard, fact in aged.materialize(**fields).items()
        }

    at_tip = (0, 24 * HOUR_MS)
    assert freshness(max_records=2) == {busy: (5 * HOUR_MS, 19 * HOUR_MS), idle: at_tip}
    clocked.clock.advance(2 * HOUR)
    assert freshness(max_records=1) == {busy: (7 * HOUR_MS, 17 * HOUR_MS), idle: at_tip}
    assert freshness() == {busy: at_tip, idle: at_tip}
    clocked.clock.advance(10 * HOUR)
    assert freshness() == {busy: at_tip, idle: at_tip}
