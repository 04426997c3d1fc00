"""A run over a small stream through Dagster, with the Spark session that the environment selects.

python -m benchmarks.workers.small_run URL STREAM RECORDS FOLDER
"""

from __future__ import annotations

import sys

import dagster as dg

from benchmarks.harness.single_process import REGION
from kinesis_assets.dagster.stream_project import StreamProject


def main(url: str, stream: str, records: str, folder: str) -> None:
    """Do what `kinesis-assets run` does, except for the Spark settings that are compared here."""
    project = StreamProject.from_settings(
        stream,
        table=folder,
        endpoint_url=url,
        region_name=REGION,
        spark_config={"spark.log.level": "ERROR"},
    )
    with project.open_stream() as opened:
        shard_ids = list(opened.listed_shards().shards)
    shards = list(project.materialize(dg.DagsterInstance.ephemeral(), shard_ids))
    assert sum(shard["rows"] for shard in shards) == int(records), shards


if __name__ == "__main__":
    main(*sys.argv[1:])
