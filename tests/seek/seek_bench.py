"""A stream, its clock and table, and what a test does with them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from kinesis_assets.kinesis.bounds import Bounds
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.starts import Starts
from kinesis_assets.operations.seek import SeekResult, seek
from kinesis_assets.plan import OnRecreated, ReadPolicy, RunPlan, plan_run
from kinesis_assets.run import RunResult, execute_run
from kinesis_assets.spark.land import land_group

if TYPE_CHECKING:
    from kinesis_assets.kinesis.client import ClientSettings
    from kinesis_assets.table.delta import PositionedTable
    from kinesis_assets.table.positions import ShardPosition, StreamPositions
    from kinesis_assets.testing import Clock


@dataclass
class SeekBench:
    """A stream, its clock and table, runs from the one to the other, and positions set by hand."""

    clock: Clock
    kinesis: Any
    settings: ClientSettings
    stream: str
    table: PositionedTable

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

    def put(self, *items: int | bytes, shard_id: str | None = None) -> list[str]:
        """Put numbers (or bytes as they are) into a shard, the last by default; their sequence numbers."""
        key = self._keys(shard_id or self.shard_ids[-1])[0]
        entries = [
            {
                "Data": item if isinstance(item, bytes) else str(item).encode(),
                "PartitionKey": "k",
                "ExplicitHashKey": str(key),
            }
            for item in items
        ]
        answer = self.kinesis.put_records(StreamName=self.stream, Records=entries)
        return [record["SequenceNumber"] for record in answer["Records"]]

    def split(self, shard_id: str) -> list[str]:
        """Split a shard in the middle; its children's ids."""
        middle = sum(self._keys(shard_id)) // 2
        self.kinesis.split_shard(
            StreamName=self.stream, ShardToSplit=shard_id, NewStartingHashKey=str(middle)
        )
        return [shard.shard_id for shard in self.client.list_shards() if shard_id in shard.parents]

    def _keys(self, shard_id: str) -> tuple[int, int]:
        (found,) = (shard for shard in self.client.list_shards() if shard.shard_id == shard_id)
        first, last = found.hash_range
        return int(first), int(last)

    # Runs and seeks

    def plan(
        self,
        *asked: str,
        start: str = "TRIM_HORIZON",
        on_recreated: OnRecreated = OnRecreated.FAIL,
        **bounds: Any,
    ) -> RunPlan:
        """A plan for some shards, for all by default."""
        policy = ReadPolicy(Starts.of(start), Bounds(**bounds), on_recreated=on_recreated)
        return plan_run(self.client, self.table, asked=asked or self.shard_ids, policy=policy)

    def execute(self, plan: RunPlan) -> RunResult:
        return execute_run(land_group, self.client, self.table, plan)

    def run(self, *asked: str, **rest: Any) -> RunResult:
        return self.execute(self.plan(*asked, **rest))

    def seek(self, to: str, *shard_ids: str, by: str = "ann", apply: bool = True) -> SeekResult:
        """Set some shards' positions, of all by default."""
        return seek(
            self.client,
            self.table,
            to=Position.parse(to),
            shard_ids=shard_ids or None,
            by=by,
            apply=apply,
        )

    # The table

    @property
    def items(self) -> Counter[str]:
        """What is in the table, as text, with how often it is there."""
        found = DeltaTable(self.table.folder.uri).to_pyarrow_table(columns=["data"])
        return Counter(data.decode() for data in found["data"].to_pylist())

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

    @property
    def files(self) -> set[str]:
        """Every file of the table's folder."""
        return {str(path) for path in Path(self.table.uri).rglob("*") if path.is_file()}


def each(*items: int | str) -> Counter[str]:
    """Each once."""
    return Counter(map(str, items))
