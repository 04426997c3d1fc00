"""A continuous run in a process of its own.

python -m benchmarks.workers.continuous_run ENDPOINT STREAM TABLE HOME SECONDS
"""

from __future__ import annotations

import sys

import dagster as dg

from kinesis_assets.dagster.in_process import StreamProject
from kinesis_assets.dagster.names import shard_partitions
from kinesis_assets.dagster.partition_ranges import continuous_run_tags


def main(endpoint: str, stream: str, table: str, home: str, seconds: str) -> None:
    """Run all shards, as the sensor would request it."""
    settings = {"table": table, "endpoint_url": endpoint, "region_name": "us-east-1"}
    project = StreamProject.from_settings(stream=stream, follow_for=float(seconds), **settings)
    with dg.DagsterInstance.local_temp(home) as instance, project.open_stream() as opened:
        shards = list(opened.listed_shards()[1])
        instance.add_dynamic_partitions(str(shard_partitions(stream).name), shards)
        project.run(instance, continuous_run_tags(shards, float(seconds), 0.0))


if __name__ == "__main__":
    main(*sys.argv[1:])
