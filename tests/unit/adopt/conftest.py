"""Adoptions without Spark, over a stream whose clock the test moves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.adopt.run import AdoptResult, adopt
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.reading import call_pacing, retry_policy
from kinesis_assets.table import commit_loop
from kinesis_assets.table.table import PositionedTable
from support.stream_bench import StreamBench

if TYPE_CHECKING:
    import pyarrow as pa

    from kinesis_assets.ingest.outcome import RunResult


@dataclass
class Bench(StreamBench):
    """A stream, its table, runs, copies of the table, and adoptions."""

    def run(self, **bounds: Any) -> RunResult:
        policy = ReadPolicy(bounds=Bounds(**bounds))
        plan = plan_run(self.client, self.table, asked=self.shard_ids, policy=policy)
        return execute_run(land_group, self.client, self.table, plan)

    def adopt(self, *, by: str = "ann", apply: bool = True) -> AdoptResult:
        return adopt(self.client, self.table, by=by, apply=apply)

    @property
    def rows(self) -> pa.Table:
        return DeltaTable(self.table.uri).to_pyarrow_table()

    def copy(self, rows: pa.Table | None = None) -> None:
        """Go on with a copy of the table, made as CREATE TABLE AS SELECT makes it."""
        uri = f"{self.table.uri}-copy"
        write_deltalake(uri, self.rows if rows is None else rows, partition_by=["arrival_date"])
        self.table = PositionedTable(uri)

    @property
    def items(self) -> Counter[str]:
        """What is in the table, as text, with how often it is there."""
        return Counter(data.decode() for data in self.rows["data"].to_pylist())


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a page's turn, nor long to try again."""
    monkeypatch.setattr(call_pacing, "SECONDS_BETWEEN_CALLS", 0.0)
    monkeypatch.setattr(retry_policy, "_LONGEST_WAIT", 0.01)
    monkeypatch.setattr(commit_loop, "_LONGEST_WAIT", 0.01)


@pytest.fixture
def bench(clocked: Any, stream: str, table: PositionedTable) -> Bench:
    """A stream to be created, and a table that is not there yet."""
    return Bench(clocked.clock, clocked.kinesis, clocked.settings, stream, table)
