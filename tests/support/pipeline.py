"""A bench whose runs go through Dagster and Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.dagster.in_process import StreamProject
from support.bench import Bench

if TYPE_CHECKING:
    from collections.abc import Sequence

SPARK_CONFIG = {
    "spark.master": "local[2,4]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


@dataclass
class Pipeline(Bench):
    """A stream, its table, and its Dagster definitions on an instance."""

    instance: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.ephemeral)

    def listed(self) -> dict[str, dict[str, Any]]:
        """Return the shards as the service lists them, by shard id."""
        pages = self.kinesis.list_shards(StreamName=self.stream)["Shards"]
        return {shard["ShardId"]: shard for shard in pages}

    def project(self, **fields: Any) -> StreamProject:
        """Return the stream's definitions; fields as in `build_kinesis_stream`."""
        return StreamProject.from_settings(
            self.stream,
            table=self.table.uri,
            endpoint_url=self.settings.endpoint_url,
            region_name=self.settings.region_name,
            spark_config=SPARK_CONFIG,
            **fields,
        )

    def materialize(self, shard_ids: Sequence[str] | None = None, **fields: Any) -> dict[str, dict[str, Any]]:
        """Materialize shards, all by default, and return their event metadata by shard id."""
        requested = list(self.listed()) if shard_ids is None else shard_ids
        events = self.project(**fields).materialize(self.instance, requested)
        return {event["shard"]: event for event in events}

    def command(self, *shard_ids: str) -> list[str]:
        """Return the arguments of `kinesis-assets` that materialize the shards in another process."""
        options = ["--stream", self.stream, "--table", self.table.uri]
        endpoint = ["--endpoint-url", str(self.settings.endpoint_url), "--region", "us-east-1"]
        shards = [word for shard_id in shard_ids for word in ("--shard", shard_id)]
        return ["run", *options, *endpoint, *shards, "--json"]
