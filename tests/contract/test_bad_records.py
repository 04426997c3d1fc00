"""Line 12 of the contract: bad records are kept as received, marked, and do not block their shard.

A record without a partition key is not a bad record.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.testing import UserRecord, aggregate
from support.stream_names import raw_key

if TYPE_CHECKING:
    from support.pipeline import Pipeline

DAMAGED = aggregate([UserRecord("k", b"damaged", "0")])[:-1] + b"\x00"


def data_and_errors(pipeline: Pipeline) -> list[tuple[bytes, str | None]]:
    """Return the columns `data` and `error` of every row, sorted."""
    return sorted((row["data"], row["error"]) for row in pipeline.rows)


def materialized(pipeline: Pipeline) -> set[str]:
    return set(pipeline.instance.get_materialized_partitions(raw_key(pipeline.stream)))


def rows(events: dict[str, dict[str, Any]]) -> int:
    return sum(event["rows"] for event in events.values())


def test_records_without_a_partition_key_are_not_bad_records(pipeline: Pipeline) -> None:
    pipeline.kinesis.create_stream(StreamName=pipeline.stream, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    arn = pipeline.client.describe().identity.arn
    aggregated = aggregate([UserRecord("k", b"%d" % number) for number in range(8)])
    acknowledged = []

    def put(strategy: str, *entries: dict[str, Any]) -> None:
        pipeline.kinesis.update_stream_record_distribution_strategy(
            StreamARN=arn, RecordDistributionStrategy=strategy
        )
        pipeline.kinesis.put_records(StreamName=pipeline.stream, Records=list(entries))
        acknowledged.extend(entry for entry in entries if entry["Data"] != aggregated)
        aggregates = sum(entry["Data"] == aggregated for entry in entries)
        acknowledged.extend([{"Data": b"%d" % n, "PartitionKey": "k"} for n in range(8)] * aggregates)

    key = {"PartitionKey": "k"}
    put("USER_PARTITION_KEY", {"Data": b"keyed"} | key)
    assert rows(pipeline.materialize()) == 1
    put(
        "AUTO",
        {"Data": b"without"},
        {"Data": aggregated},
        {"Data": aggregated} | key,
        {"Data": b"with"} | key,
    )
    assert rows(pipeline.materialize()) == 18
    put("AUTO", {"Data": aggregated}, {"Data": aggregated} | key)
    put("USER_PARTITION_KEY", {"Data": b"keyed again"} | key)
    events = pipeline.materialize()

    assert rows(events) == 17
    assert {event["state"] for event in events.values()} == {"committed"}
    assert {row["error"] for row in pipeline.rows} == {None}
    assert Counter((row["data"], row["partition_key"]) for row in pipeline.rows) == Counter(
        (entry["Data"], entry.get("PartitionKey")) for entry in acknowledged
    )


def test_a_damaged_aggregate_is_kept_as_received_with_its_error(pipeline: Pipeline) -> None:
    first, second = pipeline.create(2)
    sound = aggregate([UserRecord("k", b"\x00\xff\xfe", "0"), UserRecord("k", b"sound", "0")])
    pipeline.put(b"before", DAMAGED, sound, shard_id=first)
    pipeline.put(b"other shard", shard_id=second)
    events = pipeline.materialize()
    assert {event["state"] for event in events.values()} == {"committed"}
    assert len({event["table_version"] for event in events.values()}) == 1
    assert data_and_errors(pipeline) == [
        (b"\x00\xff\xfe", None),
        (b"before", None),
        (b"other shard", None),
        (b"sound", None),
        (DAMAGED, "aggregate: its MD5 does not match"),
    ]
    assert pipeline.materialize()[first]["rows"] == 0


def test_more_bad_records_than_allowed_fail_their_shard_alone_until_they_are_allowed(
    pipeline: Pipeline,
) -> None:
    first, second = pipeline.create(2)
    _, number, _ = pipeline.put(b"before", DAMAGED, b"after", shard_id=first)
    pipeline.put(b"other shard", shard_id=second)
    events = pipeline.materialize(max_bad_records=0)
    assert {shard_id: event["state"] for shard_id, event in events.items()} == {
        first: "failed",
        second: "committed",
    }
    assert first in events[first]["error"]
    assert number in events[first]["error"]
    assert materialized(pipeline) == {second}
    assert data_and_errors(pipeline) == [(b"before", None), (b"other shard", None)]
    (run,) = pipeline.instance.get_runs()
    assert run.status is dg.DagsterRunStatus.FAILURE

    events = pipeline.materialize(max_bad_records=1)
    assert {event["state"] for event in events.values()} == {"committed"}
    assert materialized(pipeline) == {first, second}
    assert pipeline.data == [b"after", b"before", b"other shard", DAMAGED]
