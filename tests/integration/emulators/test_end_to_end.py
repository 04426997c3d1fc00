"""Ingestion with resharding, from the put to the table, at each emulator."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable

from integration.emulators.emulators import client
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.ingest.outcome import ShardState

if TYPE_CHECKING:
    from pathlib import Path

MAX_RUNS = 15
"""Maximum number of runs in a phase: the records need three bounded runs, and an emulator may need a few more
for the end of a shard."""

Record = tuple[str, str, bytes]


class Producer:
    """Puts records, reshards, and keeps the records that were acknowledged."""

    def __init__(self, kinesis: Any, stream: str) -> None:
        self.acknowledged: list[Record] = []
        self._kinesis = kinesis
        self._stream = stream
        kinesis.create_stream(StreamName=stream, ShardCount=2)
        self._await_active()

    def put(self, count: int) -> None:
        for first in range(0, count, 400):
            numbers = range(first, min(first + 400, count))
            data = [f"{len(self.acknowledged)} {number} é".encode() * (1 + number % 40) for number in numbers]
            response = self._kinesis.put_records(
                StreamName=self._stream,
                Records=[{"Data": each, "PartitionKey": f"key {number}"} for number, each in enumerate(data)],
            )
            assert response["FailedRecordCount"] == 0
            self.acknowledged += [
                (put["ShardId"], put["SequenceNumber"], each)
                for put, each in zip(response["Records"], data, strict=True)
            ]

    def reshard(self) -> set[str]:
        """Split the first shard, merge its second child with the second shard, and return the parents."""
        first, second = self._listed()
        keys = first["HashKeyRange"]
        middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
        self._kinesis.split_shard(
            StreamName=self._stream, ShardToSplit=first["ShardId"], NewStartingHashKey=str(middle)
        )
        self._await_active()
        (child,) = (
            shard for shard in self._listed() if int(shard["HashKeyRange"]["StartingHashKey"]) == middle
        )
        self._kinesis.merge_shards(
            StreamName=self._stream,
            ShardToMerge=child["ShardId"],
            AdjacentShardToMerge=second["ShardId"],
        )
        self._await_active()
        return {first["ShardId"], second["ShardId"], child["ShardId"]}

    def _listed(self) -> list[dict[str, Any]]:
        shards: list[dict[str, Any]] = self._kinesis.list_shards(StreamName=self._stream)["Shards"]
        return sorted(shards, key=lambda shard: shard["ShardId"])

    def _await_active(self) -> None:
        self._kinesis.get_waiter("stream_exists").wait(
            StreamName=self._stream, WaiterConfig={"Delay": 1, "MaxAttempts": 30}
        )


def run_until_stable(project: StreamProject, instance: dg.DagsterInstance) -> dict[str, ShardState]:
    """Materialize all shards until their positions and states no longer change, and return the states."""
    before: dict[str, Any] = {}
    for _ in range(MAX_RUNS):
        with project.open_stream() as opened:
            shard_ids = [shard.shard_id for shard in opened.client.list_shards()]
        results = {result["shard"]: result for result in project.materialize(instance, shard_ids)}
        assert results.keys() == set(shard_ids)
        assert [result["error"] for result in results.values() if result["state"] == ShardState.FAILED] == []
        after = {shard_id: (result["through"], result["state"]) for shard_id, result in results.items()}
        if after == before:
            return {shard_id: ShardState(result["state"]) for shard_id, result in results.items()}
        before = after
    raise AssertionError(f"positions still change after {MAX_RUNS} runs: {before}")


def records(table: Path) -> list[Record]:
    """Return the records in the table."""
    columns = DeltaTable(table).to_pyarrow_table(columns=["shard_id", "sequence_number", "data"])
    return sorted((row["shard_id"], row["sequence_number"], row["data"]) for row in columns.to_pylist())


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "emulator", ["kinesalite", pytest.param("kinesis-local", marks=pytest.mark.thorough)], indirect=True
)
def test_every_acknowledged_record_is_in_the_table_once_and_parents_are_finished(
    stream: str, tmp_path: Path, emulator_endpoint: str
) -> None:
    # tests/contract has the same for the embedded stream.
    table = tmp_path / "table"
    project = StreamProject.from_settings(
        stream, table=str(table), endpoint_url=emulator_endpoint, region_name="us-east-1", max_records=300
    )
    with closing(client(emulator_endpoint)) as kinesis, dg.DagsterInstance.ephemeral() as instance:
        producer = Producer(kinesis, stream)
        producer.put(1_200)
        states = run_until_stable(project, instance)
        assert set(states.values()) == {ShardState.COMMITTED}
        assert records(table) == sorted(producer.acknowledged)

        producer.put(100)
        parents = producer.reshard()
        producer.put(600)
        states = run_until_stable(project, instance)

    assert records(table) == sorted(producer.acknowledged)
    assert {shard_id for shard_id, state in states.items() if state is ShardState.FINISHED} == parents
    assert len(states) == 5
    assert all(states[shard_id] is ShardState.COMMITTED for shard_id in states.keys() - parents)
