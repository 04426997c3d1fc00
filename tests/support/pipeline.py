"""A stream with records, runs of it through Dagster, and the table as it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg
from deltalake import DeltaTable

from kinesis_assets.dagster.in_process import StreamProject
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.table.table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.positions import StreamPositions

SPARK_CONFIG = {
    "spark.master": "local[2,4]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


@dataclass
class Pipeline:
    """One stream, its table, and what was acknowledged so far."""

    stream: str
    kinesis: Any
    settings: ClientSettings
    table: str
    acknowledged: list[tuple[str, str, bytes]] = field(default_factory=list)
    instance: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.ephemeral)

    def create(self, shards: int) -> None:
        self.kinesis.create_stream(StreamName=self.stream, ShardCount=shards)

    def put(self, count: int, shard_id: str | None = None) -> None:
        """Put records spread over the shards, or all to one."""
        key = None if shard_id is None else self.listed()[shard_id]["HashKeyRange"]["StartingHashKey"]
        for first in range(0, count, 500):
            numbers = range(len(self.acknowledged), len(self.acknowledged) + min(500, count - first))
            data = [f"record {number} ".encode() * 8 for number in numbers]
            entries = [
                {"Data": content, "PartitionKey": f"key-{number}"}
                | ({} if key is None else {"ExplicitHashKey": key})
                for number, content in zip(numbers, data, strict=True)
            ]
            answer = self.kinesis.put_records(StreamName=self.stream, Records=entries)
            assert answer["FailedRecordCount"] == 0
            self.acknowledged += [
                (put["ShardId"], put["SequenceNumber"], content)
                for put, content in zip(answer["Records"], data, strict=True)
            ]

    def listed(self) -> dict[str, dict[str, Any]]:
        pages = self.kinesis.list_shards(StreamName=self.stream)["Shards"]
        return {shard["ShardId"]: shard for shard in pages}

    def split(self, shard_id: str) -> None:
        keys = self.listed()[shard_id]["HashKeyRange"]
        middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
        self.kinesis.split_shard(
            StreamName=self.stream, ShardToSplit=shard_id, NewStartingHashKey=str(middle)
        )

    def merge(self, shard_id: str, adjacent: str) -> None:
        self.kinesis.merge_shards(
            StreamName=self.stream, ShardToMerge=shard_id, AdjacentShardToMerge=adjacent
        )

    def project(self, **fields: Any) -> StreamProject:
        return StreamProject.from_settings(
            self.stream,
            table=self.table,
            endpoint_url=self.settings.endpoint_url,
            region_name=self.settings.region_name,
            spark_config=SPARK_CONFIG,
            **fields,
        )

    def run(self, shard_ids: Sequence[str] | None = None, **fields: Any) -> dict[str, dict[str, Any]]:
        """Materialize shards (all listed ones by default) through Dagster; facts by shard."""
        asked = list(self.listed()) if shard_ids is None else shard_ids
        return {fact["shard"]: fact for fact in self.project(**fields).materialize(self.instance, asked)}

    def command(self, *shard_ids: str) -> list[str]:
        """The arguments of `kinesis-assets run` that do the same in a process of its own."""
        of_stream = ["--stream", self.stream, "--table", self.table]
        reached = ["--endpoint-url", str(self.settings.endpoint_url), "--region", "us-east-1"]
        shards = [word for shard_id in shard_ids for word in ("--shard", shard_id)]
        return ["run", *of_stream, *reached, *shards, "--json"]

    def positions(self) -> StreamPositions:
        identity = StreamClient(self.stream, self.settings).describe().identity
        found = PositionedTable(self.table).snapshot().positions(identity)
        assert found is not None
        return found

    def rows(self) -> list[tuple[str, str, bytes]]:
        """(shard id, sequence number, data) of every row in the table, in no order."""
        names = ["shard_id", "sequence_number", "data"]
        columns = DeltaTable(self.table).to_pyarrow_table(columns=names)
        return list(zip(*(columns[name].to_pylist() for name in names), strict=True))

    def assert_exactly_once(self) -> None:
        """The table holds what was acknowledged, each record once, and nothing else."""
        assert Counter(self.rows()) == Counter(self.acknowledged)

    def assert_rows_equal_positions(self) -> None:
        """A record is in the table if and only if its shard's position has passed it."""
        positions = self.positions().shards
        passed = {
            shard_id: int(shard.position.sequence_number)
            for shard_id, shard in positions.items()
            if shard.position.sequence_number is not None
        }
        expected = [record for record in self.acknowledged if int(record[1]) <= passed.get(record[0], -1)]
        assert Counter(self.rows()) == Counter(expected)
