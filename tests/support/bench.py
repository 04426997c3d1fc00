"""A stream and its table, with everything that a test does to either."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from kinesis_assets.ingest.plan import ReadPolicy, RunPlan, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import Bounds
from kinesis_assets.kinesis.start_positions import StartPositions
from kinesis_assets.operations.adopt import AdoptResult, adopt
from kinesis_assets.operations.replay.plan import ReplayWindow
from kinesis_assets.operations.replay.run import Fill, replay
from kinesis_assets.operations.seek.run import SeekResult, seek
from support.amendments import commit_amendment
from support.forged_positions import forge, forge_shards
from support.formats import delete, reopened, restore, rows_of
from support.single_task import fill_as_in_spark, land_as_in_spark
from support.stream_calls import StreamCalls
from support.timing import REPLAYING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.ingest.run import Land
    from kinesis_assets.kinesis.clock import Clock as MachineClock
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.operations.replay.outcome import ReplayResult
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.testing import Clock

POLICY = {each.name for each in fields(ReadPolicy)} - {"starts", "bounds"}


@dataclass
class Bench(StreamCalls):
    """A stream and its table, with the calls that tests make to them.

    Runs are executed without Dagster; their records are read by `land`, by default in one task in this
    process.

    Attributes:
        acknowledged: Shard id, sequence number and data of every record that was put.
        clock: The service's clock, if the test controls it.
    """

    kinesis: Any
    settings: ClientSettings
    stream: str
    table: PositionedTable
    clock: Clock | None = None
    land: Land = land_as_in_spark
    acknowledged: list[tuple[str, str, bytes]] = field(default_factory=list)

    @property
    def options(self) -> list[str]:
        """The options of a command that select the stream and the table."""
        place = ["--table", self.table.uri, "--endpoint-url", str(self.settings.endpoint_url)]
        return ["--stream", self.stream, *place]

    # Time

    def set_timing(self, **fields: Any) -> None:
        """Change fields of `ReadTiming` for the calls from now on."""
        self.settings = replace(self.settings, timing=replace(self.settings.timing, **fields))
        self.__dict__.pop("client", None)

    def set_table_policy(self, **fields: Any) -> None:
        """Change fields of `TablePolicy` for the commits from now on."""
        self.table = reopened(self.table, replace(self.table.policy, **fields))

    def set_machine_clock(self, clock: MachineClock) -> None:
        """Replace this machine's clock, for reading and for commits."""
        self.set_timing(clock=clock)
        self.set_table_policy(clock=clock)

    # Runs

    def plan(
        self,
        requested: Sequence[str] | None = None,
        *,
        start: str | Mapping[str, str] = "TRIM_HORIZON",
        **settings: Any,
    ) -> RunPlan:
        """Plan a run.

        Args:
            requested: The shards to read; all by default.
            start: The start of the stream's first plan.
            settings: Fields of `ReadPolicy` and of `Bounds`.
        """
        policy = {name: settings.pop(name) for name in POLICY & settings.keys()}
        return plan_run(
            self.client,
            self.table,
            asked=self.shard_ids if requested is None else requested,
            policy=ReadPolicy(StartPositions.of(start), Bounds(**settings), **policy),
        )

    def execute(self, plan: RunPlan, land: Land | None = None, *, by: str | None = None) -> RunResult:
        return execute_run(land or self.land, self.client, self.table, plan, by=by)

    def run(
        self,
        requested: Sequence[str] | None = None,
        *,
        land: Land | None = None,
        by: str | None = None,
        **settings: Any,
    ) -> RunResult:
        """Plan a run and execute it."""
        return self.execute(self.plan(requested, **settings), land, by=by)

    # Operations beside the runs

    def replay(
        self,
        start: str = "TRIM_HORIZON",
        end: str | None = None,
        *shard_ids: str,
        fill: Fill = fill_as_in_spark,
        by: str | None = None,
    ) -> ReplayResult:
        window = ReplayWindow.of(start, end)
        return replay(fill, self.client, self.table, window, shard_ids, by=by, retries=REPLAYING)

    def seek(self, to: str, *shard_ids: str, by: str = "ann", apply: bool = True) -> SeekResult:
        """Set the positions of some shards, by default of all."""
        position = Position.parse(to)
        return seek(self.client, self.table, to=position, shard_ids=shard_ids or None, by=by, apply=apply)

    def adopt(self, *, by: str = "ann", apply: bool = True) -> AdoptResult:
        return adopt(self.client, self.table, by=by, apply=apply)

    # The table

    def arrow(self, *columns: str) -> pa.Table:
        """Return the table's rows in no particular order, with some or all columns."""
        return rows_of(self.table, columns)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The table's rows in the order of the stream."""
        return sorted(
            self.arrow().to_pylist(),
            key=lambda row: (row["shard_id"], int(row["sequence_number"]), row["sub_sequence_number"]),
        )

    @property
    def data(self) -> list[bytes]:
        """The data of the table's rows, sorted."""
        return sorted(self.arrow("data")["data"].to_pylist())

    @property
    def items(self) -> list[int]:
        """The numbers that were put and are in the table, sorted."""
        return sorted(map(int, self.data))

    @property
    def stored(self) -> list[tuple[str, str, bytes]]:
        """Shard id, sequence number and data of the table's rows, as in `acknowledged`, in no order."""
        names = ("shard_id", "sequence_number", "data")
        columns = self.arrow(*names)
        return list(zip(*(columns[name].to_pylist() for name in names), strict=True))

    @property
    def version(self) -> int:
        return self.table.snapshot().version

    @property
    def positions(self) -> StreamPositions:
        """The table's positions of the stream."""
        found = reopened(self.table).snapshot().positions(self.client.describe().identity)
        assert found is not None
        return found

    @property
    def amendment(self) -> Amendment | None:
        """The table's newest amendment."""
        return self.table.snapshot().amendment(self.client.describe().identity)

    def at(self, shard_id: str) -> ShardPosition:
        """Return what the table records about a shard."""
        return self.positions.shards[shard_id]

    def lose(self, *items: int) -> None:
        """Delete numbers from the table, as an accident would."""
        lost = [row for row in self.rows if int(row["data"]) in items]
        predicate = " OR ".join(
            f"(sequence_number = '{row['sequence_number']}' AND "
            f"sub_sequence_number = {row['sub_sequence_number']})"
            for row in lost
        )
        assert len(lost) == len(items)
        rows = len(self.rows)
        delete(self.table, predicate)
        assert len(self.rows) == rows - len(items)

    @property
    def delta(self) -> DeltaTable:
        return DeltaTable(self.table.folder.uri)

    def restore(self, version: int) -> None:
        """Restore the table, as an operator might."""
        restore(self.table, version)

    def forge(self, **changes: Any) -> StreamPositions:
        """Commit positions that no run would commit: the current ones, with changes."""
        return forge(self.table, self.positions, **changes)

    def forge_shards(self, *shard_ids: str, **changes: Any) -> StreamPositions:
        """Commit the current positions with changes of some shards."""
        return forge_shards(self.table, self.positions, *shard_ids, **changes)

    def amend(self, **fields: Any) -> Amendment:
        """Commit an amendment."""
        return commit_amendment(self.table, self.positions.identity, **fields)

    # The contract

    def assert_exactly_once(self) -> None:
        """The table contains every acknowledged record once, and nothing else."""
        assert Counter(self.stored) == Counter(self.acknowledged)

    def assert_rows_equal_positions(self) -> None:
        """A record is in the table if and only if its shard's position has passed it."""
        passed = {
            shard_id: int(shard.position.sequence_number)
            for shard_id, shard in self.positions.shards.items()
            if shard.position.sequence_number is not None
        }
        expected = [record for record in self.acknowledged if int(record[1]) <= passed.get(record[0], -1)]
        assert Counter(self.stored) == Counter(expected)
