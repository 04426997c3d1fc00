"""Fixtures of the Spark room: runs over a stream of the test's own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from kinesis_assets.ingest.land import land
from kinesis_assets.ingest.outcome import RunResult
from kinesis_assets.ingest.plan import ReadPolicy, RunPlan, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.limits import Allowance, Bounds
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.start_positions import StartPositions
from support.ward import Ward

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.positions import StreamPositions
    from kinesis_assets.table.table import PositionedTable

HASH_KEYS = 1 << 128


@dataclass
class Workbench:
    """A stream, its table, and runs from the one to the other."""

    kinesis: Any
    settings: ClientSettings
    stream: str
    table: PositionedTable
    spark: SparkSession

    @property
    def client(self) -> StreamClient:
        return StreamClient(self.stream, self.settings)

    @property
    def shard_ids(self) -> list[str]:
        return [shard.shard_id for shard in self.client.list_shards()]

    def create(self, shards: int = 1) -> list[str]:
        """Create the stream; its shards' ids."""
        self.kinesis.create_stream(StreamName=self.stream, ShardCount=shards)
        return self.shard_ids

    def put(self, *items: int, part: float = 0) -> None:
        """Put numbered records where a part (0 up to 1) of the hash keys lies."""
        key = str(int(HASH_KEYS * part))
        entries = [
            {"Data": str(item).encode(), "PartitionKey": "k", "ExplicitHashKey": key} for item in items
        ]
        self.kinesis.put_records(StreamName=self.stream, Records=entries)

    def split(self, shard_id: str, part: float = 0.5) -> list[str]:
        """Split a shard; its children's ids."""
        self.kinesis.split_shard(
            StreamName=self.stream,
            ShardToSplit=shard_id,
            NewStartingHashKey=str(int(HASH_KEYS * part)),
        )
        return [shard.shard_id for shard in self.client.list_shards() if shard_id in shard.parents]

    def plan(
        self,
        asked: Sequence[str] | None = None,
        *,
        start: str | dict[str, str] = "TRIM_HORIZON",
        allowance: Allowance | None = None,
        policy: dict[str, Any] | None = None,
        **bounds: Any,
    ) -> RunPlan:
        return plan_run(
            self.client,
            self.table,
            asked=self.shard_ids if asked is None else asked,
            policy=ReadPolicy(
                StartPositions.of(start), Bounds(**bounds), allowance or Allowance(), **policy or {}
            ),
        )

    def execute(self, plan: RunPlan) -> RunResult:
        return execute_run(partial(land, self.spark), self.client, self.table, plan)

    def run(self, asked: Sequence[str] | None = None, **rest: Any) -> RunResult:
        return self.execute(self.plan(asked, **rest))

    @property
    def items(self) -> list[int]:
        """The numbers in the table, sorted."""
        return sorted(int(data) for data in self.column("data"))

    def column(self, name: str) -> list[Any]:
        found: list[Any] = DeltaTable(self.table.uri).to_pyarrow_table(columns=[name])[name].to_pylist()
        return found

    @property
    def positions(self) -> StreamPositions:
        found = self.table.snapshot().positions(self.client.describe().identity)
        assert found is not None
        return found

    @property
    def version(self) -> int:
        return DeltaTable(self.table.folder.uri).version()


@pytest.fixture
def bench(
    kinesis: Any, settings: ClientSettings, stream: str, table: PositionedTable, spark: SparkSession
) -> Workbench:
    """A stream to be created, on the shared endpoint."""
    return Workbench(kinesis, settings, stream, table, spark)


@pytest.fixture
def clocked_bench(clocked: Any, stream: str, table: PositionedTable, spark: SparkSession) -> Workbench:
    """A stream to be created, on an endpoint whose clock the test moves."""
    return Workbench(clocked.kinesis, clocked.settings, stream, table, spark)


@pytest.fixture
def ward(kinesis: Any, stream: str, settings: ClientSettings, table: PositionedTable) -> Ward:
    """The test's own stream, which it creates, and a table that is not there yet."""
    return Ward(kinesis, StreamClient(stream, settings, wait=lambda _: None), table)
