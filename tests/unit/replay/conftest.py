"""Replays without Spark, over a stream whose clock the test moves: each filling is one task's, made here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from kinesis_assets.ingest.plan import ReadPolicy, RunPlan, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.limits import Allowance, Bounds
from kinesis_assets.kinesis.reading import call_pacing, retry_policy
from kinesis_assets.kinesis.start_positions import StartPositions
from kinesis_assets.replay import run as replay_module
from kinesis_assets.replay.outcome import ReplayResult
from kinesis_assets.replay.run import Fill, replay
from kinesis_assets.replay.window import ReplayWindow
from kinesis_assets.table import commit_loop
from kinesis_assets.table.amendments import Amendment
from kinesis_assets.table.commit_ids import new_id
from support.single_task import fill_as_in_spark, land_as_in_spark
from support.stream_bench import StreamBench

if TYPE_CHECKING:
    from datetime import date

    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.replay.outcome import ReplayResult
    from kinesis_assets.table.table import PositionedTable


@dataclass
class Bench(StreamBench):
    """A stream, the service's clock, a table; runs from the one to the other, and replays."""

    # Runs and replays

    def plan(self, start: str = "TRIM_HORIZON", **bounds: Any) -> RunPlan:
        asked = [shard.shard_id for shard in self.client.list_shards()]
        policy = ReadPolicy(StartPositions.of(start), Bounds(**bounds), Allowance())
        return plan_run(self.client, self.table, asked=asked, policy=policy)

    def run(self, start: str = "TRIM_HORIZON", **bounds: Any) -> RunResult:
        return execute_run(land_as_in_spark, self.client, self.table, self.plan(start, **bounds))

    def replay(
        self,
        start: str = "TRIM_HORIZON",
        end: str | None = None,
        *shard_ids: str,
        fill: Fill = fill_as_in_spark,
        by: str | None = None,
    ) -> ReplayResult:
        return replay(fill, self.client, self.table, ReplayWindow.of(start, end), shard_ids, by=by)

    # The table

    def lose(self, *items: int) -> None:
        """Take numbers out of the table, as an accident would."""
        wanted = " OR ".join(f"data = X'{str(item).encode().hex()}'" for item in items)
        kept = [number for number, item in self.numbers.items() if item in items]
        assert len(kept) == len(items), wanted
        predicate = " OR ".join(
            f"(sequence_number = '{number}' AND sub_sequence_number = {sub})" for number, sub in kept
        )
        assert DeltaTable(self.table.uri).delete(predicate)["num_deleted_rows"] == len(items)

    @property
    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = DeltaTable(self.table.uri).to_pyarrow_table().to_pylist()
        return found

    @property
    def numbers(self) -> dict[tuple[str, int], int]:
        """The numbers in the table, by sequence and sub-sequence number."""
        return {(row["sequence_number"], row["sub_sequence_number"]): int(row["data"]) for row in self.rows}

    @property
    def items(self) -> list[int]:
        """The numbers in the table, sorted."""
        return sorted(int(row["data"]) for row in self.rows)

    @property
    def positions_file(self) -> tuple[int, bytes]:
        """The token that the log points at, and the bytes of its file."""
        commit_id = self.positions.commit_id
        with self.table.files.open_input_file(f"_kinesis/positions/{commit_id}.json") as source:
            return commit_id, source.read()

    @property
    def amendment(self) -> Amendment | None:
        return self.table.snapshot().amendment(self.client.describe().identity)

    def change_past(self, floor: date | None = None) -> None:
        """Change the past as a rewind or the table's retention does."""
        identity, amendment = self.client.describe().identity, self.amendment
        changed = Amendment(
            format=1,
            commit_id=new_id(),
            previous=None if amendment is None else amendment.commit_id,
            batch_id=new_id(),
            at=datetime.now(UTC),
            floor=floor,
            rewound=() if floor else (self.shard_ids[0],),
        )
        self.table.snapshot().commit([], identity=identity, amendment=changed)


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a page's turn, nor long to try again."""
    monkeypatch.setattr(call_pacing, "SECONDS_BETWEEN_CALLS", 0.0)
    monkeypatch.setattr(retry_policy, "_LONGEST_WAIT", 0.01)
    monkeypatch.setattr(replay_module, "_LONGEST_WAIT", 0.01)
    monkeypatch.setattr(commit_loop, "_LONGEST_WAIT", 0.01)


@pytest.fixture
def bench(clocked: Any, stream: str, table: PositionedTable) -> Bench:
    """A stream to be created, and a table that is not there yet."""
    clocked.clock.seconds = int(clocked.clock.seconds) + 2.0
    return Bench(clocked.clock, clocked.kinesis, clocked.settings, stream, table)
