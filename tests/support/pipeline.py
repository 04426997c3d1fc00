"""A bench whose runs go through Dagster and Spark."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kinesis_assets.dagster.settings.spark_settings import SparkSettings
from kinesis_assets.dagster.stream_project import StreamProject
from support.bench import Bench
from support.formats import settings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import dagster as dg

SPARK_CONFIG = {
    "spark.master": "local[2,2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}

SPARK_OF_TESTS = "SPARK_OF_TESTS"
"""The environment variable with the fields of `SparkSettings` in JSON, if Spark is not local. The processes
that a test starts inherit it."""


def spark_fields() -> dict[str, Any]:
    """Return the fields of `SparkSettings` with which the pipelines run."""
    fields: dict[str, Any] = json.loads(os.environ.get(SPARK_OF_TESTS, "{}"))
    return fields or {"spark_config": SPARK_CONFIG}


def session_config() -> dict[str, Any]:
    """Return the settings of the session in which the pipelines run."""
    return SparkSettings(**spark_fields()).session_config


@dataclass
class Pipeline(Bench):
    """A stream, its table, and its Dagster definitions on an instance."""

    instance: dg.DagsterInstance = field(kw_only=True)

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
            **{**spark_fields(), **settings_of(self.table), **fields},
        )

    def materialize(self, shard_ids: Sequence[str] | None = None, **fields: Any) -> dict[str, dict[str, Any]]:
        """Materialize shards, all by default, and return their event metadata by shard id."""
        requested = list(self.listed()) if shard_ids is None else shard_ids
        events = self.project(**fields).materialize(self.instance, requested)
        return {event["shard"]: event for event in events}

    def run_in_process(self, shard_ids: Sequence[str] | None = None) -> str:
        """Return in JSON what a script needs to materialize shards, all by default, in another process."""
        project = {
            "stream": self.stream,
            "table": self.table.uri,
            "endpoint_url": self.settings.endpoint_url,
            **spark_fields(),
            **settings_of(self.table),
        }
        return json.dumps({"project": project, "shards": shard_ids or list(self.listed())})

    def command(self, *shard_ids: str) -> list[str]:
        """Return the arguments of `kinesis-assets` that materialize the shards in another process."""
        options = ["--stream", self.stream, "--table", self.table.uri]
        endpoint = ["--endpoint-url", str(self.settings.endpoint_url), "--region", "us-east-1"]
        shards = [word for shard_id in shard_ids for word in ("--shard", shard_id)]
        settings = [f"{name}={json.dumps(value)}" for name, value in spark_fields().items()]
        spark = [word for setting in settings for word in ("--set", setting)]
        return ["run", *options, *endpoint, *shards, *spark, "--json"]
