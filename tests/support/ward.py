"""A table that was brought from a stream without Spark, and a doctor that looks at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from deltalake import DeltaTable

from kinesis_assets.dagster.event_audit import EventAudit
from kinesis_assets.doctor.examine import Doctor
from kinesis_assets.doctor.finding import Finding, Level
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.table import amendments as amendment_file
from kinesis_assets.table import positions_file
from kinesis_assets.table.amendments import Amendment
from kinesis_assets.table.commit_ids import new_id

if TYPE_CHECKING:
    import dagster as dg

    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.table.positions import StreamPositions
    from kinesis_assets.table.table import PositionedTable


@dataclass
class Ward:
    """A stream, its table, and what a doctor finds there."""

    kinesis: Any
    client: StreamClient
    table: PositionedTable

    # The stream

    def create(self, shards: int = 1) -> None:
        self.kinesis.create_stream(StreamName=self.client.stream, ShardCount=shards)

    def put(self, count: int, *, part: float = 0) -> list[str]:
        """Put records where a part (0 up to 1) of the hash keys lies."""
        key = str(int((1 << 128) * part))
        entries = [
            {"Data": b"%05d" % number, "PartitionKey": "k", "ExplicitHashKey": key} for number in range(count)
        ]
        answer = self.kinesis.put_records(StreamName=self.client.stream, Records=entries)
        return [record["SequenceNumber"] for record in answer["Records"]]

    # The table

    def run(self, by: str | None = None) -> RunResult:
        """A run over all shards, without its events."""
        asked = [shard.shard_id for shard in self.client.list_shards()]
        plan = plan_run(self.client, self.table, asked=asked, policy=ReadPolicy())
        return execute_run(land_group, self.client, self.table, plan, by=by)

    @property
    def positions(self) -> StreamPositions:
        found = self.table.snapshot().positions(self.client.describe().identity)
        assert found is not None
        return found

    @property
    def delta(self) -> DeltaTable:
        return DeltaTable(self.table.folder.uri)

    def forge(self, **changes: Any) -> StreamPositions:
        """A commit that no run would make: the positions that stand, with changes."""
        now = self.positions
        forged = msgspec.structs.replace(
            now,
            commit_id=new_id(),
            previous=now.commit_id,
            generation=changes.pop("generation", now.generation + 1),
            batch_id=new_id(),
            added=changes.pop("added", {}),
            **changes,
        )
        self.table.snapshot().commit([], identity=now.identity, positions=forged)
        return forged

    def amendment(self, **fields: Any) -> None:
        """A commit behind the positions."""
        snapshot, identity = self.table.snapshot(), self.positions.identity
        before = snapshot.amendment(identity)
        amendment = Amendment(
            format=amendment_file.FORMAT,
            commit_id=new_id(),
            previous=None if before is None else before.commit_id,
            at=identity.created,
            **{"batch_id": new_id()} | fields,
        )
        snapshot.commit([], identity=identity, amendment=amendment)

    def rewrite(self, positions: StreamPositions) -> None:
        """Put other content into a positions file that stands, as someone might by hand."""
        path = f"_kinesis/positions/{positions.commit_id}.json"
        with self.table.files.open_output_stream(path) as sink:
            sink.write(positions_file.encode(positions))

    # The doctor

    def findings(
        self, *, instance: dg.DagsterInstance | None = None, add_events: bool = False, **fields: Any
    ) -> list[Finding]:
        if instance is not None:
            fields["audit_events"] = EventAudit(
                instance, self.client.stream, self.table, add_events=add_events
            )
        return list(Doctor(self.client, self.table, **fields).findings())

    def levels(self, **fields: Any) -> dict[str, set[str]]:
        """By check, what it found."""
        levels: dict[str, set[str]] = {}
        for finding in self.findings(**fields):
            levels.setdefault(finding.check, set()).add(str(finding.level))
        return levels

    def problems(self, **fields: Any) -> list[tuple[str, str | None, str]]:
        """Check, shard and sentence of each problem."""
        return [
            (finding.check, finding.shard, finding.sentence)
            for finding in self.findings(**fields)
            if finding.level is Level.PROBLEM
        ]
