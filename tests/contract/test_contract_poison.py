"""The contract's last two lines, each through a real run: bounded, and poison is kept."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable

from kinesis_assets.dagster.names import raw_key
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.testing import UserRecord, aggregate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.pipeline import Pipeline

DAMAGED = aggregate([UserRecord("k", b"lost a bit", "0")])[:-1] + b"\x00"


def put_as_they_are(pipeline: Pipeline, shard_id: str, *data: bytes) -> list[str]:
    """Put records into a shard; their sequence numbers."""
    key = pipeline.listed()[shard_id]["HashKeyRange"]["StartingHashKey"]
    entries = [{"Data": item, "PartitionKey": "k", "ExplicitHashKey": key} for item in data]
    answer = pipeline.kinesis.put_records(StreamName=pipeline.stream, Records=entries)
    return [record["SequenceNumber"] for record in answer["Records"]]


def told(pipeline: Pipeline) -> list[tuple[bytes, str | None]]:
    """(data, error) of every row, sorted."""
    columns = DeltaTable(pipeline.table.uri).to_pyarrow_table(columns=["data", "error"])
    return sorted(zip(columns["data"].to_pylist(), columns["error"].to_pylist(), strict=True))


def materialized(pipeline: Pipeline) -> set[str]:
    return set(pipeline.instance.get_materialized_partitions(raw_key(pipeline.stream)))


def rows(facts: dict[str, dict[str, Any]], shard_ids: Sequence[str] | None = None) -> int:
    return sum(fact["rows"] for shard_id, fact in facts.items() if shard_ids is None or shard_id in shard_ids)


# 11. Bounded.


@pytest.mark.parametrize(
    ("bound", "counted", "most"), [("max_run_records", "rows", 100), ("max_run_bytes", "bytes", 9_000)]
)
def test_runs_over_many_shards_are_bounded_together_and_leave_each_record_exactly_once(
    pipeline: Pipeline, bound: str, counted: str, most: int
) -> None:
    pipeline.create(8)
    pipeline.put_many(250)
    landed = 0
    while landed < 250:
        facts = pipeline.materialize(**{bound: most})
        assert 0 < sum(fact[counted] for fact in facts.values()) <= most
        landed += rows(facts)
        pipeline.assert_rows_equal_positions()
    pipeline.assert_exactly_once()


def test_children_of_a_parent_that_is_finished_in_the_run_are_bounded_with_it(pipeline: Pipeline) -> None:
    pipeline.create(1)
    pipeline.put_many(50)
    (parent,) = pipeline.listed()
    pipeline.split(parent)
    pipeline.put_many(100)
    facts = pipeline.materialize(max_run_records=80)
    assert facts[parent]["state"] == "finished"
    assert rows(facts, [parent]) == 50
    assert 0 < rows(facts) - 50 <= 30
    pipeline.assert_rows_equal_positions()
    pipeline.materialize()
    pipeline.assert_exactly_once()


def test_a_bound_below_the_number_of_tasks_starves_no_shard(pipeline: Pipeline) -> None:
    pipeline.create(2)
    _, second = pipeline.listed()
    pipeline.materialize()
    pipeline.put_many(1, second)
    pipeline.materialize(max_run_records=1)
    pipeline.materialize(max_run_records=1)
    pipeline.assert_exactly_once()


# 12. Poison is kept. A record without a partition key is none.


def test_records_without_a_key_land_like_all_others_while_the_stream_is_switched(pipeline: Pipeline) -> None:
    pipeline.kinesis.create_stream(StreamName=pipeline.stream, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    arn = StreamClient(pipeline.stream, pipeline.settings).describe().identity.arn
    spread = aggregate([UserRecord("k", b"%d" % number) for number in range(8)])
    acknowledged = []

    def put(strategy: str, *entries: dict[str, Any]) -> None:
        pipeline.kinesis.update_stream_record_distribution_strategy(
            StreamARN=arn, RecordDistributionStrategy=strategy
        )
        pipeline.kinesis.put_records(StreamName=pipeline.stream, Records=list(entries))
        acknowledged.extend(entry for entry in entries if entry["Data"] != spread)
        aggregates = sum(entry["Data"] == spread for entry in entries)
        acknowledged.extend([{"Data": b"%d" % n, "PartitionKey": "k"} for n in range(8)] * aggregates)

    key = {"PartitionKey": "k"}
    put("USER_PARTITION_KEY", {"Data": b"placed"} | key)
    assert rows(pipeline.materialize()) == 1
    put("AUTO", {"Data": b"without"}, {"Data": spread}, {"Data": spread} | key, {"Data": b"with"} | key)
    assert rows(pipeline.materialize()) == 18
    put("AUTO", {"Data": spread}, {"Data": spread} | key)
    put("USER_PARTITION_KEY", {"Data": b"placed again"} | key)
    facts = pipeline.materialize()

    assert rows(facts) == 17
    assert {fact["state"] for fact in facts.values()} == {"committed"}
    columns = DeltaTable(pipeline.table.uri).to_pyarrow_table(columns=["data", "partition_key", "error"])
    assert columns["error"].null_count == columns.num_rows
    found = zip(columns["data"].to_pylist(), columns["partition_key"].to_pylist(), strict=True)
    assert Counter(found) == Counter((entry["Data"], entry.get("PartitionKey")) for entry in acknowledged)


def test_a_damaged_aggregate_lands_as_it_came_and_marked_beside_its_neighbours(pipeline: Pipeline) -> None:
    pipeline.create(2)
    first, second = pipeline.listed()
    sound = aggregate([UserRecord("k", b"\x00\xff\xfe", "0"), UserRecord("k", b"sound", "0")])
    put_as_they_are(pipeline, first, b"before", DAMAGED, sound)
    put_as_they_are(pipeline, second, b"neighbour")
    facts = pipeline.materialize()
    assert {fact["state"] for fact in facts.values()} == {"committed"}
    assert len({fact["table_version"] for fact in facts.values()}) == 1
    assert told(pipeline) == [
        (b"\x00\xff\xfe", None),
        (b"before", None),
        (b"neighbour", None),
        (b"sound", None),
        (DAMAGED, "aggregate: its MD5 does not match"),
    ]
    assert pipeline.materialize()[first]["rows"] == 0


def test_poison_beyond_what_was_allowed_fails_its_shard_alone_until_it_is_allowed(pipeline: Pipeline) -> None:
    pipeline.create(2)
    first, second = pipeline.listed()
    _, number, _ = put_as_they_are(pipeline, first, b"before", DAMAGED, b"after")
    put_as_they_are(pipeline, second, b"neighbour")
    facts = pipeline.materialize(max_bad_records=0)
    assert {shard_id: fact["state"] for shard_id, fact in facts.items()} == {
        first: "failed",
        second: "committed",
    }
    assert f"{first}: record {number} is damaged" in facts[first]["error"]
    assert materialized(pipeline) == {second}
    assert told(pipeline) == [(b"before", None), (b"neighbour", None)]
    (run,) = pipeline.instance.get_runs()
    assert run.status is dg.DagsterRunStatus.FAILURE

    facts = pipeline.materialize(max_bad_records=1)
    assert {fact["state"] for fact in facts.values()} == {"committed"}
    assert materialized(pipeline) == {first, second}
    assert [data for data, _ in told(pipeline)] == [b"after", b"before", b"neighbour", DAMAGED]
