"""Runs without Spark, over a stream whose clock the test moves: each landing is one task's, made here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from deltalake import DeltaTable

from kinesis_assets.ingest.plan import ReadPolicy, RunPlan, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis import relist
from kinesis_assets.kinesis.limits import Allowance, Bounds
from kinesis_assets.kinesis.reading import call_pacing, retry_policy
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.start_positions import StartPositions
from kinesis_assets.testing import Clock, Faults, LocalKinesis
from support.single_task import land_as_in_spark
from support.stream_bench import StreamBench

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.table.table import PositionedTable


@dataclass
class Bench(StreamBench):
    """A stream, the service's clock, a table, and runs from the one to the other."""

    def delete(self) -> None:
        self.kinesis.delete_stream(StreamName=self.stream)

    def merge(self, shard_id: str, adjacent: str) -> str:
        """Merge two shards; their child's id."""
        self.kinesis.merge_shards(
            StreamName=self.stream, ShardToMerge=shard_id, AdjacentShardToMerge=adjacent
        )
        (child,) = self.children(shard_id)
        return child

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
            policy=ReadPolicy(StartPositions.of(start), Bounds(**bounds), Allowance(), **policy or {}),
        )

    def execute(self, plan: RunPlan) -> RunResult:
        return execute_run(land_as_in_spark, self.client, self.table, plan)

    def run(self, asked: Sequence[str] | None = None, **rest: Any) -> RunResult:
        return self.execute(self.plan(asked, **rest))

    # The table

    @property
    def items(self) -> list[int]:
        """The numbers in the table, sorted."""
        found = DeltaTable(self.table.folder.uri).to_pyarrow_table(columns=["data"])
        return sorted(int(data) for data in found["data"].to_pylist())


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
    monkeypatch.setattr(call_pacing, "SECONDS_BETWEEN_CALLS", 0.0)
    monkeypatch.setattr(retry_policy, "_LONGEST_WAIT", 0.0)
    monkeypatch.setattr(relist, "WAITS", (0.0, 0.0, 0.0))


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
