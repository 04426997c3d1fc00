"""The metadata of events: bad records, records outside of the hash range, and time to loss.

tests/contract has the metadata of lag, of gaps and of errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from kinesis_assets.dagster.events.metadata import exact_values
from kinesis_assets.testing import UserRecord, aggregate
from support.stream_names import raw_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.dagster.stream_project import StreamProject

pytestmark = pytest.mark.usefixtures("spark")

A, B, C = (f"shardId-{number:012d}" for number in range(3))
HOUR_MS = 3_600_000
LAST_KEY = str((1 << 128) - 1)
DAMAGED = aggregate([UserRecord("k", b"0", "0")])[:-1] + b"\x00"


@pytest.fixture
def put(clocked, stream):
    """Puts records into the stream of one shard, and returns their sequence numbers."""
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)

    def put(*data, key="0"):
        return [
            clocked.kinesis.put_record(StreamName=stream, Data=item, PartitionKey="k", ExplicitHashKey=key)[
                "SequenceNumber"
            ]
            for item in data
        ]

    return put


@pytest.fixture
def project_of(make_project, clocked):
    """Builds the stream's definitions for the emulator whose clock the test controls."""
    return lambda **fields: make_project(endpoint_url=clocked.settings.endpoint_url, **fields)


def materialized(
    project: StreamProject, instance: dg.DagsterInstance, *shard_ids: str
) -> dict[str, Mapping[str, Any]]:
    """Run shards, and return the exact values of their materializations."""
    list(project.materialize(instance, shard_ids))
    records_filter = dg.AssetRecordsFilter(
        asset_key=raw_key(project.stream), asset_partitions=list(shard_ids)
    )
    records = instance.fetch_materializations(records_filter, limit=len(shard_ids)).records
    run_id = instance.get_runs(limit=1)[0].run_id
    assert {record.run_id for record in records} <= {run_id}
    events = [record.asset_materialization for record in records]
    return {event.partition: exact_values(event) for event in events}


def test_bad_records_and_those_outside_the_hash_range_are_counted_per_shard(
    put, project_of, instance, clocked, stream
):
    project = project_of()
    materialized(project, instance, A)
    clocked.clock.advance(1)
    clocked.kinesis.split_shard(StreamName=stream, ShardToSplit=A, NewStartingHashKey=str(1 << 127))
    stray = UserRecord("k", b"stray", LAST_KEY)
    put(DAMAGED, b"plain", DAMAGED, aggregate([UserRecord("k", b"low", "0"), stray, stray, stray]))
    put(DAMAGED, aggregate([stray]), key=LAST_KEY)
    events = materialized(project, instance, A, B, C)
    counts = {
        shard_id: (facts["rows"], facts["bad_records"], facts["outside_hash_range"])
        for shard_id, facts in events.items()
    }
    assert counts == {A: (0, 0, 0), B: (7, 2, 3), C: (2, 1, 0)}


def test_a_finished_shard_has_no_time_to_loss(put, project_of, instance, clocked, stream):
    put(b"0")
    clocked.kinesis.split_shard(StreamName=stream, ShardToSplit=A, NewStartingHashKey=str(1 << 127))
    events = materialized(project_of(), instance, A, B)
    assert "time_to_loss_ms" not in events[A]
    assert events[B]["time_to_loss_ms"] == 24 * HOUR_MS
