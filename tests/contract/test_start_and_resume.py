"""Line 5 of the contract: where a stream is read from first, and where each later run resumes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.errors import InvalidInput
from kinesis_assets.ingest.plan import plan_run
from kinesis_assets.testing import UserRecord, aggregate
from support.table_folder import exists

if TYPE_CHECKING:
    from pathlib import Path

    from support.pipeline import Pipeline


def test_the_start_of_every_listed_shard_is_frozen_before_anything_is_read(
    pipeline: Pipeline, faults: Any
) -> None:
    first, second, third = pipeline.create(3)
    faults.clear()
    pipeline.materialize([first], start="LATEST")
    shards = pipeline.positions.shards
    assert set(shards) == {first, second, third}
    assert shards[second].position == shards[third].position
    assert shards[second].position.kind == "AT_TIMESTAMP"
    requested = [call.shard_id for call in faults.calls if call.operation == "GetShardIterator"]
    assert requested == [first]


def test_records_put_after_an_aborted_first_run_are_read_from_latest(pipeline: Pipeline) -> None:
    shard_ids = pipeline.create(2)
    with pipeline.project(start="LATEST").open_stream() as opened:  # a run that dies after its plan
        plan_run(opened.client, opened.table, asked=shard_ids, policy=opened.policy)
    pipeline.put_many(100)
    pipeline.materialize(start="LATEST")
    pipeline.assert_exactly_once()


def test_a_shard_that_is_first_read_later_starts_where_the_stream_was_frozen(pipeline: Pipeline) -> None:
    first, second = pipeline.create(2)
    pipeline.materialize([first], start="LATEST")
    pipeline.put_many(100)
    pipeline.materialize([first], start="LATEST")
    pipeline.put_many(100)
    pipeline.materialize([second], start="LATEST")
    pipeline.materialize([first])
    pipeline.assert_exactly_once()


def test_a_shard_that_is_listed_later_starts_at_trim_horizon(pipeline: Pipeline) -> None:
    (parent,) = pipeline.create(1)
    pipeline.materialize(start="LATEST")
    pipeline.split(parent)
    pipeline.put_many(200)
    pipeline.materialize(start="LATEST")
    pipeline.assert_exactly_once()


def test_an_empty_read_does_not_move_the_sequence_number(pipeline: Pipeline) -> None:
    (shard_id,) = pipeline.create(1)
    pipeline.put_many(100)
    pipeline.materialize()
    before = pipeline.at(shard_id).position
    assert pipeline.materialize()[shard_id]["rows"] == 0
    assert pipeline.at(shard_id).position == before


def test_a_start_at_a_timestamp_is_inclusive(clocked_pipeline: Pipeline) -> None:
    pipeline = clocked_pipeline
    assert pipeline.clock is not None
    pipeline.create(1)
    for _ in range(3):
        pipeline.clock.advance(0.001)
        pipeline.put_many(1)
    third = datetime.fromtimestamp(pipeline.clock.seconds, UTC).isoformat(timespec="milliseconds")
    pipeline.materialize(start=f"AT_TIMESTAMP:{third}")
    assert pipeline.stored == pipeline.acknowledged[2:]


def test_a_start_at_a_sequence_number_is_inclusive_and_each_resume_exclusive(
    pipeline: Pipeline, faults: Any
) -> None:
    (shard,) = pipeline.create(1)
    pipeline.put_many(5)
    start = f"AT_SEQUENCE_NUMBER:{pipeline.acknowledged[2][1]}"
    faults.empty_page(behind_ms=0, times=1)
    assert pipeline.materialize(start=start)[shard]["through"] == start
    for last in (3, 4):
        assert pipeline.materialize(max_records=1)[shard]["rows"] == 1
        assert sorted(pipeline.stored) == pipeline.acknowledged[2:last]
    pipeline.materialize()
    assert sorted(pipeline.stored) == pipeline.acknowledged[2:]


def test_each_shard_starts_where_a_file_of_starts_says(pipeline: Pipeline, tmp_path: Path) -> None:
    first, second, third = pipeline.create(3)
    for shard in (first, second):
        pipeline.put_many(3, shard)
    key = pipeline.listed()[third]["HashKeyRange"]["StartingHashKey"]
    of_aggregate = pipeline.kinesis.put_record(
        StreamName=pipeline.stream,
        Data=aggregate(UserRecord("k", b"%d" % number, key) for number in range(3)),
        PartitionKey="k",
        ExplicitHashKey=key,
    )["SequenceNumber"]
    file = tmp_path / "starts.yaml"
    file.write_text(
        f"{second}: AFTER_SEQUENCE_NUMBER:{pipeline.acknowledged[4][1]}\n"
        f"{third}: AFTER_SEQUENCE_NUMBER:{of_aggregate}:0\n"
    )
    pipeline.materialize(start=f"file://{file}")
    expected = [
        *pipeline.acknowledged[:3],
        pipeline.acknowledged[5],
        *((third, of_aggregate, b"%d" % number) for number in (1, 2)),
    ]
    assert sorted(pipeline.stored) == sorted(expected)


def test_a_start_that_the_service_rejects_changes_nothing(pipeline: Pipeline) -> None:
    first, second = pipeline.create(2)
    pipeline.put_many(10)
    of_second = next(number for shard, number, _ in pipeline.acknowledged if shard == second)
    for start in (f"AT_SEQUENCE_NUMBER:{of_second}", {first: f"AT_SEQUENCE_NUMBER:{of_second}"}):
        with pytest.raises(InvalidInput):
            pipeline.materialize(start=start)
    assert not exists(pipeline.table)
