"""One whole run of a small stream through Dagster, with Spark as the environment says.

python -m benchmarks.start_child URL STREAM RECORDS FOLDER
"""

from __future__ import annotations

import sys

import dagster as dg

from benchmarks.alone import REGION
from kinesis_assets.dagster.in_process import StreamProject


def main(url: str, stream: str, records: str, folder: str) -> None:
    """As `kinesis-assets run`, which sets some of what is compared here itself."""
    project = StreamProject.from_settings(
        stream,
        table=folder,
        endpoint_url=url,
        region_name=REGION,
        spark_config={"spark.log.level": "ERROR"},
    )
    with project.open_stream() as opened:
        shard_ids = list(opened.listed_shards()[1])
    told = list(project.materialize(dg.DagsterInstance.ephemeral(), shard_ids))
    assert sum(each["rows"] for each in told) == int(records), told


if __name__ == "__main__":
    main(*sys.argv[1:])
