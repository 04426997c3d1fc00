"""Runs without Spark, over a stream whose clock the test moves: each landing is one task's, made here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from deltalake import DeltaTable

from kinesis_assets.kinesis import reader
from kinesis_assets.kinesis.bounds import Allowance, Bounds
from kinesis_assets.kinesis.client import ClientSettings, StreamClient
from kinesis_assets.kinesis.starts import Starts
from kinesis_assets.plan import ReadPolicy, RunPlan, plan_run
from kinesis_assets.run import RunResult, execute_run
from kinesis_assets.spark.land import land_group
from kinesis_assets.testing import Clock, Faults, LocalKinesis

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kinesis_assets.table.delta import PositionedTable
    from kinesis_assets.table.positions import ShardPosition, StreamPositions

HASH_KEYS = 1 << 128


@dataclass
class Bench:
    """A stream, the service's clock, a table, and runs from the one to the other."""

    clock: Clock
    kinesis: Any
    settings: ClientSettings
    stream: str
    table: PositionedTable

    # The stream

    @cached_property
    def client(self) -> StreamClient:
        return StreamClient(self.stream, self.settings)

    @property
    def shard_ids(self) -> list[str]:
        return [shard.shard_id for shard in self.client.list_shards()]

    @property
    def now(self) -> datetime:
        """What the service's clock shows."""
        return datetime.fromtimestamp(self.clock.seconds, UTC)

    def later(self, **span: float) -> None:
        """Move the service's clock on, as `later(hours=3)`."""
        self.clock.advance(timedelta(**span).total_seconds())

    def create(self, shards: int = 1) -> list[str]:
        """Create the stream; its shards' ids."""
        self.kinesis.create_stream(StreamName=self.stream, ShardCount=shards)
        return self.shard_ids

    def delete(self) -> None:
        self.kinesis.delete_stream(StreamName=self.stream)

    def put(self, *items: int | bytes, part: float = 0) -> list[str]:
        """Put numbers (or bytes as they are) where a part (0 up to 1) of the hash keys lies."""
        key = str(int(HASH_KEYS * part))
        entries = [
            {
                "Data": item if isinstance(item, bytes) else str(item).encode(),
                "PartitionKey": "k",
                "ExplicitHashKey": key,
            }
            for item in items
        ]
        answer = self.kinesis.put_records(StreamName=self.stream, Records=entries)
        return [record["SequenceNumber"] for record in answer["Records"]]

    def split(self, shard_id: str, part: float = 0.5) -> list[str]:
        """Split a shard where a part of all hash keys lies; its children's ids."""
        key = str(int(HASH_KEYS * part))
        self.kinesis.split_shard(StreamName=self.stream, ShardToSplit=shard_id, NewStartingHashKey=key)
        return self.children(shard_id)

    def merge(self, shard_id: str, adjacent: str) -> str:
        """Merge two shards; their child's id."""
        self.kinesis.merge_shards(
            StreamName=self.stream, ShardToMerge=shard_id, AdjacentShardToMerge=adjacent
        )
        (child,) = self.children(shard_id)
        return child

    def children(self, shard_id: str) -> list[str]:
        return [shard.shard_id for shard in self.client.list_shards() if shard_id in shard.parents]

    def keep(self, hours: int) -> None:
        """Set the retention."""
        now = self.client.describe().retention_hours
        change = "increase" if hours > now else "decrease"
        call = getattr(self.kinesis, f"{change}_stream_retention_period")
        call(StreamName=self.stream, RetentionPeriodHours=hours)

    # Runs

    def plan(
        self,
        asked: Sequence[str] | None = None,
        *,
        start: str | Mapping[str, str] = "TRIM_HORIZON",
        policy: Mapping[str, Any] | None = None,
        **bounds: Any,
    ) -> RunPlan:
        return plan_run(
            self.client,
            self.table,
            asked=self.shard_ids if asked is None else asked,
            policy=ReadPolicy(Starts.of(start), Bounds(**bounds), Allowance(), **policy or {}),
        )

    def execute(self, plan: RunPlan) -> RunResult:
        return execute_run(land_group, self.client, self.table, plan)

    def run(self, asked: Sequence[str] | None = None, **rest: Any) -> RunResult:
        return self.execute(self.plan(asked, **rest))

    # The table

    @property
    def items(self) -> list[int]:
        """The numbers in the table, sorted."""
        found = DeltaTable(self.table.folder.uri).to_pyarrow_table(columns=["data"])
        return sorted(int(data) for data in found["data"].to_pylist())

    @property
    def positions(self) -> StreamPositions:
        found = self.table.snapshot().positions(self.client.describe().identity)
        assert found is not None
        return found

    def at(self, shard_id: str) -> ShardPosition:
        """Where the table says that a shard is."""
        return self.positions.shards[shard_id]

    @property
    def version(self) -> int:
        return DeltaTable(self.table.folder.uri).version()


_faults = Faults()


@pytest.fixture(scope="session")
def service(environment: None) -> Iterator[tuple[Clock, LocalKinesis]]:
    """An embedded stream for all tests of this folder; each moves the clock on from where it finds it."""
    del environment
    clock = Clock()
    with LocalKinesis(now=clock, wrap=_faults.around) as local:
        yield clock, local


@pytest.fixture(scope="session")
def kinesis(service: tuple[Clock, LocalKinesis]) -> Any:
    """A plain boto3 client of it."""
    _, local = service
    return boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region)


@pytest.fixture
def faults() -> Iterator[Faults]:
    """What bends its answers, and notes its calls; clean for each test."""
    _faults.clear()
    yield _faults
    _faults.clear()


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call waits for its turn, and no retry for better times."""
    monkeypatch.setattr(reader, "SECONDS_BETWEEN_CALLS", 0.0)
    monkeypatch.setattr(reader, "_LONGEST_WAIT", 0.0)


@pytest.fixture
def bench(
    service: tuple[Clock, LocalKinesis],
    kinesis: Any,
    stream: str,
    table: PositionedTable,
    faults: Faults,
    no_waiting: None,
) -> Bench:
    """A stream to be created, and a table that is not there yet."""
    del faults, no_waiting
    clock, local = service
    clock.seconds = int(clock.seconds) + 2.0
    settings = ClientSettings(region_name=local.region, endpoint_url=local.endpoint_url)
    return Bench(clock, kinesis, settings, stream, table)
