"""A stream whose answers are counted, and its table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from kinesis_assets.ingest.outcome import RunResult
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import Land, execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.limits import Allowance, Bounds
from kinesis_assets.kinesis.reading import call_pacing
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.testing import Faults, LocalKinesis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.table.table import PositionedTable

RECORDS_IN_A_CALL = 500


@dataclass
class Counted:
    """A stream with its table; what a run asks for and gets is counted.

    Attributes:
        answered: Bytes of all bodies that the endpoint sent since the last `forget`.
    """

    local: LocalKinesis
    faults: Faults
    stream: str
    table: PositionedTable
    answered: list[int] = field(default_factory=list)

    @property
    def kinesis(self) -> Any:
        return boto3.client("kinesis", endpoint_url=self.local.endpoint_url, region_name=self.local.region)

    @property
    def client(self) -> StreamClient:
        return StreamClient(self.stream, ClientSettings(self.local.region, self.local.endpoint_url))

    def create(self, shards: int) -> None:
        self.kinesis.create_stream(StreamName=self.stream, ShardCount=shards)

    def put(self, records: int, data: bytes) -> None:
        """Put so many records into every shard."""
        kinesis = self.kinesis
        for shard in kinesis.list_shards(StreamName=self.stream)["Shards"]:
            key = shard["HashKeyRange"]["StartingHashKey"]
            entry = {"Data": data, "PartitionKey": "key", "ExplicitHashKey": key}
            for first in range(0, records, RECORDS_IN_A_CALL):
                count = min(RECORDS_IN_A_CALL, records - first)
                kinesis.put_records(StreamName=self.stream, Records=[entry] * count)

    def run(self, land: Land = land_group) -> RunResult:
        """A run over every shard, as one task or as `land` does it."""
        client = self.client
        asked = [shard.shard_id for shard in client.list_shards()]
        self.forget()
        plan = plan_run(client, self.table, asked=asked, policy=ReadPolicy(bounds=Bounds()))
        assert plan.allowance == Allowance()
        return execute_run(land, client, self.table, plan)

    def forget(self) -> None:
        self.faults.clear()
        self.answered.clear()

    @property
    def calls(self) -> dict[str, int]:
        """How many calls came since the last run began, by operation."""
        operations = [call.operation for call in self.faults.calls]
        return {operation: operations.count(operation) for operation in sorted(set(operations))}


@pytest.fixture
def counted(
    environment: None, stream: str, table: PositionedTable, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Counted]:
    """A stream to be created; nobody waits for a page's turn."""
    del environment
    monkeypatch.setattr(call_pacing, "SECONDS_BETWEEN_CALLS", 0.0)
    faults, answered = Faults(), []

    def around(app: Any) -> Any:
        bent = faults.around(app)

        async def counting(scope: Any, receive: Any, send: Callable[[Any], Any]) -> None:
            async def count(message: Any) -> None:
                answered.append(len(message.get("body", b"")))
                await send(message)

            await bent(scope, receive, count)

        return counting

    with LocalKinesis(wrap=around) as local:
        yield Counted(local, faults, stream, table, answered)
