"""A stream, its clock and table, and what a test does with them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from stream_bench import StreamBench

from kinesis_assets.ingest.plan import OnRecreated, ReadPolicy, RunPlan, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.start_positions import StartPositions
from kinesis_assets.seek.run import SeekResult, seek

if TYPE_CHECKING:
    from kinesis_assets.ingest.outcome import RunResult


@dataclass
class SeekBench(StreamBench):
    """A stream, its clock and table, runs from the one to the other, and positions set by hand."""

    def put(self, *items: int | bytes, shard_id: str | None = None) -> list[str]:
        """Put numbers (or bytes as they are) into a shard, the last by default; their sequence numbers."""
        key = self._keys(shard_id or self.shard_ids[-1])[0]
        return self.put_at(key, items)

    def split(self, shard_id: str) -> list[str]:
        """Split a shard in the middle; its children's ids."""
        middle = sum(self._keys(shard_id)) // 2
        self.kinesis.split_shard(
            StreamName=self.stream, ShardToSplit=shard_id, NewStartingHashKey=str(middle)
        )
        return self.children(shard_id)

    def _keys(self, shard_id: str) -> tuple[int, int]:
        (found,) = (shard for shard in self.client.list_shards() if shard.shard_id == shard_id)
        first, last = found.hash_range
        return int(first), int(last)

    # Runs and seeks

    def plan(
        self,
        *asked: str,
        start: str = "TRIM_HORIZON",
        on_recreated: OnRecreated = "fail",
        **bounds: Any,
    ) -> RunPlan:
        """A plan for some shards, for all by default."""
        policy = ReadPolicy(StartPositions.of(start), Bounds(**bounds), on_recreated=on_recreated)
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
    def files(self) -> set[str]:
        """Every file of the table's folder."""
        return {str(path) for path in Path(self.table.uri).rglob("*") if path.is_file()}


def each(*items: int | str) -> Counter[str]:
    """Each once."""
    return Counter(map(str, items))
