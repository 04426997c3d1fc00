"""Runs without Spark: each landing is one task's work, in this process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from kinesis_assets.ingest.outcome import RunResult
from kinesis_assets.ingest.plan import ReadPolicy, RunPlan, plan_run
from kinesis_assets.ingest.run import Land, execute_run
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.limits import Allowance, Bounds
from kinesis_assets.kinesis.reading import call_pacing, retry_policy
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.start_positions import StartPositions
from support.single_task import land_as_in_spark

if TYPE_CHECKING:
    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.positions import StreamPositions
    from kinesis_assets.table.table import PositionedTable


@dataclass
class Bench:
    """A stream, its table, and runs from the one to the other."""

    kinesis: Any
    settings: ClientSettings
    stream: str
    table: PositionedTable

    @cached_property
    def client(self) -> StreamClient:
        return StreamClient(self.stream, self.settings)

    def create(self, shards: int = 1) -> list[str]:
        """Create the stream; its shards' ids."""
        self.kinesis.create_stream(StreamName=self.stream, ShardCount=shards)
        return self.shard_ids

    @property
    def shard_ids(self) -> list[str]:
        return [shard.shard_id for shard in self.client.list_shards()]

    def hash_range(self, shard_id: str) -> tuple[str, str]:
        """A shard's first and last hash key."""
        (found,) = (shard for shard in self.client.list_shards() if shard.shard_id == shard_id)
        return found.hash_range

    def put(self, shard_id: str, *data: bytes) -> list[str]:
        """Put records, or aggregates as they are, into a shard; their sequence numbers."""
        key, _ = self.hash_range(shard_id)
        entries = [{"Data": item, "PartitionKey": "k", "ExplicitHashKey": key} for item in data]
        answer = self.kinesis.put_records(StreamName=self.stream, Records=entries)
        return [record["SequenceNumber"] for record in answer["Records"]]

    def split(self, shard_id: str) -> list[str]:
        """Split a shard in the middle; its children's ids."""
        middle = sum(map(int, self.hash_range(shard_id))) // 2
        self.kinesis.split_shard(
            StreamName=self.stream, ShardToSplit=shard_id, NewStartingHashKey=str(middle)
        )
        return [shard.shard_id for shard in self.client.list_shards() if shard_id in shard.parents]

    def plan(
        self,
        *asked: str,
        allowance: Allowance | None = None,
        max_bad_records: int | None = None,
        **bounds: Any,
    ) -> RunPlan:
        """A plan for some shards, for all by default."""
        policy = ReadPolicy(
            StartPositions(), Bounds(**bounds), allowance or Allowance(), max_bad_records=max_bad_records
        )
        return plan_run(self.client, self.table, asked=asked or self.shard_ids, policy=policy)

    def execute(self, plan: RunPlan, land: Land = land_as_in_spark) -> RunResult:
        return execute_run(land, self.client, self.table, plan)

    def run(self, *asked: str, land: Land = land_as_in_spark, **policy: Any) -> RunResult:
        return self.execute(self.plan(*asked, **policy), land)

    def column(self, name: str) -> list[Any]:
        found: list[Any] = DeltaTable(self.table.uri).to_pyarrow_table(columns=[name])[name].to_pylist()
        return found

    @property
    def items(self) -> list[bytes]:
        """The data of every row in the table, sorted."""
        return sorted(self.column("data"))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every row in the table, in the order of the stream."""
        rows: list[dict[str, Any]] = DeltaTable(self.table.uri).to_pyarrow_table().to_pylist()
        return sorted(
            rows, key=lambda row: (row["shard_id"], int(row["sequence_number"]), row["sub_sequence_number"])
        )

    @property
    def positions(self) -> StreamPositions:
        found = self.table.snapshot().positions(self.client.describe().identity)
        assert found is not None
        return found

    def position(self, shard_id: str) -> Position:
        """Where a shard is read from next, as the table says."""
        return self.positions.shards[shard_id].position

    @property
    def version(self) -> int:
        return DeltaTable(self.table.uri).version()


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a shard's pace, nor long to try again."""
    monkeypatch.setattr(call_pacing, "SECONDS_BETWEEN_CALLS", 0.0)
    monkeypatch.setattr(retry_policy, "_LONGEST_WAIT", 0.01)


@pytest.fixture
def bench(kinesis: Any, settings: ClientSettings, stream: str, table: PositionedTable) -> Bench:
    """A stream to be created, and a table that is not there yet."""
    return Bench(kinesis, settings, stream, table)


@pytest.fixture
def clocked_bench(clocked: Any, stream: str, table: PositionedTable) -> Bench:
    """The same on an endpoint whose clock the test moves."""
    return Bench(clocked.kinesis, clocked.settings, stream, table)
